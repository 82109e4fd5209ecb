"""Requests that no good client sends: the server refuses them in Kubernetes' own words."""

import json
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest

from simulator.kubernetes_api.answering import (
    Answer,
    Answerer,
    Request,
)
from simulator.kubernetes_api.store import ObjectStore
from tests.simulator.kubernetes_api.builders import make_answerer

AT = datetime(2026, 10, 1, tzinfo=UTC)
QUOTA = "/api/v1/namespaces/ns/resourcequotas"
APPLY = "application/apply-patch+yaml"


def clock() -> datetime:
    return AT


@pytest.fixture
def answerer() -> Answerer:
    made = make_answerer(ObjectStore(), clock)
    ask(made, "POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    return made


def ask(
    answerer: Answerer,
    method: str,
    target: str,
    body: object = None,
    **headers: str,
) -> Answer:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    sent = {"authorization": "Bearer good", "user-agent": "kubectl/v1.36", **headers}
    return answerer.answer(Request(method, target, sent, raw))


def refused(answer: Answer) -> tuple[int, str]:
    assert isinstance(answer.document, dict)
    assert answer.document["status"] == "Failure"
    return answer.code, answer.document["reason"]


def body_of(answer: Answer) -> dict[str, Any]:
    assert isinstance(answer.document, dict)
    return answer.document


@pytest.mark.parametrize(
    ("method", "target", "code"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/api/v1/gadgets", 404),
        ("GET", "/api/v1/pods/alone", 404),
        ("GET", "/api/v1/namespaces/ns/pods/a/b/c", 404),
        ("GET", "/api/v1/namespaces/ns/resourcequotas/q/scale", 404),
        ("POST", "/api/v1", 405),
        ("PUT", QUOTA, 405),
        ("PATCH", QUOTA, 405),
        ("POST", f"{QUOTA}/q", 405),
        ("POST", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/pods", 405),
        ("DELETE", f"{QUOTA}/q/status", 405),
        ("GET", "/api/v1/namespaces/ns/pods/p/binding", 405),
        ("OPTIONS", QUOTA, 405),
    ],
)
def test_paths_and_verbs_that_do_not_go_together(
    answerer: Answerer, method: str, target: str, code: int
) -> None:
    assert refused(ask(answerer, method, target, {}))[0] == code


@pytest.mark.parametrize("authorization", ["Bearer bad", "Basic good", "Bearer", "good"])
def test_a_wrong_token_is_unauthorized_even_for_the_version(
    answerer: Answerer, authorization: str
) -> None:
    answer = ask(answerer, "GET", "/version", authorization=authorization)

    assert refused(answer) == (401, "Unauthorized")


def test_anonymous_may_ask_for_the_version_alone(answerer: Answerer) -> None:
    assert ask(answerer, "GET", "/version", authorization="").code == 200
    assert refused(ask(answerer, "GET", "/api", authorization="")) == (403, "Forbidden")
    told = body_of(ask(answerer, "GET", QUOTA, authorization=""))["message"]
    assert told.startswith('resourcequotas is forbidden: User "system:anonymous" cannot')


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'{"metadata": 5}', b"\xff"])
def test_a_body_that_is_no_object_is_a_bad_request(answerer: Answerer, body: bytes) -> None:
    assert refused(ask(answerer, "POST", QUOTA, body)) == (400, "BadRequest")


def test_an_object_of_another_kind_is_a_bad_request(answerer: Answerer) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}}

    answer = ask(answerer, "POST", QUOTA, body)

    assert refused(answer) == (400, "BadRequest")
    assert "cannot be handled as a ResourceQuota" in body_of(answer)["message"]


def test_a_patch_of_an_unknown_type_is_unsupported(answerer: Answerer) -> None:
    ask(answerer, "POST", QUOTA, {"metadata": {"name": "q"}, "spec": {"hard": {}}})

    answer = ask(answerer, "PATCH", f"{QUOTA}/q", {}, **{"content-type": "application/json"})

    assert refused(answer) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (f"{QUOTA}/q", {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {}}),
        (f"{QUOTA}/q?fieldManager=m", {"metadata": {}}),
        (
            f"{QUOTA}/q?fieldManager=m",
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "other"}},
        ),
        (
            f"{QUOTA}/q?fieldManager=m",
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"managedFields": [{"manager": "x"}]},
            },
        ),
    ],
)
def test_an_apply_that_says_too_little_or_too_much_is_refused(
    answerer: Answerer, target: str, body: dict[str, Any]
) -> None:
    answer = ask(answerer, "PATCH", target, body, **{"content-type": APPLY})

    assert answer.code in {400, 422}
    assert body_of(ask(answerer, "GET", QUOTA))["items"] == []


def test_an_apply_of_a_version_of_nothing_is_not_found(answerer: Answerer) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"resourceVersion": "7"}}

    answer = ask(answerer, "PATCH", f"{QUOTA}/q?fieldManager=m", body, **{"content-type": APPLY})

    assert refused(answer) == (404, "NotFound")


def test_who_writes_without_saying_so_is_the_user_agent(answerer: Answerer) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}

    made = ask(answerer, "POST", QUOTA, body)

    (entry,) = body_of(made)["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("kubectl", "Update")


def test_a_dry_run_of_another_kind_is_invalid(answerer: Answerer) -> None:
    answer = ask(answerer, "POST", f"{QUOTA}?dryRun=Some", {"metadata": {"name": "q"}})

    assert refused(answer) == (422, "Invalid")


def test_a_binding_without_a_node_is_invalid(answerer: Answerer) -> None:
    container = {"name": "c", "image": "i"}
    pods = "/api/v1/namespaces/ns/pods"
    ask(answerer, "POST", pods, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})

    answer = ask(answerer, "POST", f"{pods}/p/binding", {"target": {}})

    assert refused(answer) == (422, "Invalid")


def test_a_namespace_that_ends_takes_nothing_new(answerer: Answerer) -> None:
    ended = ask(answerer, "DELETE", "/api/v1/namespaces/ns")

    answer = ask(answerer, "POST", QUOTA, {"metadata": {"name": "q"}})

    assert body_of(ended)["status"]["phase"] == "Terminating"
    assert refused(answer) == (403, "Forbidden")
    assert "because it is being terminated" in body_of(answer)["message"]


def test_a_deleted_node_answers_a_status(answerer: Answerer) -> None:
    made = ask(answerer, "POST", "/api/v1/nodes", {"metadata": {"name": "n"}})

    answer = ask(answerer, "DELETE", "/api/v1/nodes/n")

    assert made.code == HTTPStatus.CREATED
    assert body_of(answer)["status"] == "Success"
    assert body_of(answer)["details"]["name"] == "n"


def test_a_dry_deletion_deletes_nothing(answerer: Answerer) -> None:
    ask(answerer, "POST", "/api/v1/nodes", {"metadata": {"name": "n"}})

    ask(answerer, "DELETE", "/api/v1/nodes/n?dryRun=All")

    assert ask(answerer, "GET", "/api/v1/nodes/n").code == 200


def test_a_patch_that_leaves_no_object_is_a_bad_request(answerer: Answerer) -> None:
    ask(answerer, "POST", QUOTA, {"metadata": {"name": "q"}})
    patch = [{"op": "replace", "path": "/metadata", "value": "gone"}]

    answer = ask(
        answerer, "PATCH", f"{QUOTA}/q", patch, **{"content-type": "application/json-patch+json"}
    )

    assert refused(answer) == (400, "BadRequest")
    assert ask(answerer, "GET", f"{QUOTA}/q").code == 200


@pytest.mark.parametrize(
    ("container", "field"),
    [
        ({"image": "i"}, "spec.containers[0].name"),
        ({"name": "Main", "image": "i"}, "spec.containers[0].name"),
        ({"name": "main"}, "spec.containers[0].image"),
    ],
)
def test_a_container_has_a_name_and_an_image(
    answerer: Answerer, container: dict[str, str], field: str
) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}

    answer = ask(answerer, "POST", "/api/v1/namespaces/ns/pods", pod)

    causes = body_of(answer)["details"]["causes"]
    assert refused(answer) == (422, "Invalid")
    assert [cause["field"] for cause in causes] == [field]


def test_a_name_is_told_or_made(answerer: Answerer) -> None:
    answer = ask(answerer, "POST", QUOTA, {"metadata": {}})

    assert refused(answer) == (422, "Invalid")
    assert "name or generateName is required" in body_of(answer)["message"]


def test_a_limit_is_of_something_that_has_a_name(answerer: Answerer) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.example.com/!": "1"}}}

    answer = ask(answerer, "POST", QUOTA, body)

    assert refused(answer) == (422, "Invalid")


def test_a_write_for_another_object_of_the_same_name_is_a_conflict(answerer: Answerer) -> None:
    ask(answerer, "POST", QUOTA, {"metadata": {"name": "q"}})

    answer = ask(answerer, "PUT", f"{QUOTA}/q", {"metadata": {"name": "q", "uid": "another"}})

    assert refused(answer) == (409, "Conflict")
    assert "UID in precondition: another" in body_of(answer)["message"]


def test_what_is_posted_to_nobody_is_not_found(answerer: Answerer) -> None:
    pods = "/api/v1/namespaces/ns/pods/nobody"

    bound = ask(answerer, "POST", f"{pods}/binding", {"target": {"name": "n"}})

    assert refused(bound) == (404, "NotFound")
    assert refused(ask(answerer, "GET", f"{pods}/binding")) == (405, "MethodNotAllowed")
    assert refused(ask(answerer, "PUT", f"{pods}/eviction", {})) == (405, "MethodNotAllowed")


def test_propagation_may_be_told_by_the_query(answerer: Answerer) -> None:
    container = {"name": "c", "image": "i"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    jobs = "/apis/batch/v1/namespaces/ns/jobs"
    job = ask(answerer, "POST", jobs, {"metadata": {"name": "j"}, "spec": {"template": template}})
    owner = {"kind": "Job", "name": "j", "uid": body_of(job)["metadata"]["uid"]}
    pods = "/api/v1/namespaces/ns/pods"
    for name, owners in (("owned", [owner]), ("free", [])):
        metadata = {"name": name, "ownerReferences": owners}
        ask(answerer, "POST", pods, {"metadata": metadata, "spec": {"containers": [container]}})

    ask(answerer, "DELETE", f"{jobs}/j?propagationPolicy=Background&gracePeriodSeconds=0")

    left = body_of(ask(answerer, "GET", pods))["items"]
    assert [one["metadata"]["name"] for one in left] == ["free"]

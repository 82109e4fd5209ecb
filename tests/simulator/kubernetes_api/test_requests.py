"""Requests that no good client sends: the server refuses them in Kubernetes' own words."""

import json
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest

from simulator.kubernetes_api.requests import APIResponse, Request, Responder
from tests.support.simulator.builders import make_responder

AT = datetime(2026, 10, 1, tzinfo=UTC)
QUOTA = "/api/v1/namespaces/ns/resourcequotas"
APPLY = "application/apply-patch+yaml"


def clock() -> datetime:
    return AT


@pytest.fixture
def responder() -> Responder:
    made = make_responder(clock)
    ask(made, "POST", "/api/v1/namespaces", {"metadata": {"name": "ns"}})
    return made


def ask(
    responder: Responder,
    method: str,
    target: str,
    body: object = None,
    **headers: str,
) -> APIResponse:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    sent = {"authorization": "Bearer good", "user-agent": "kubectl/v1.36", **headers}
    return responder.respond(Request(method, target, sent, raw))


def refused(answer: APIResponse) -> tuple[int, str]:
    assert isinstance(answer.document, dict)
    assert answer.document["status"] == "Failure"
    return answer.code, answer.document["reason"]


def body_of(answer: APIResponse) -> dict[str, Any]:
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
    ],
)
def test_paths_and_verbs_that_do_not_go_together(
    responder: Responder, method: str, target: str, code: int
) -> None:
    assert refused(ask(responder, method, target, {}))[0] == code


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'{"metadata": 5}', b"\xff"])
def test_a_body_that_is_no_object_is_a_bad_request(responder: Responder, body: bytes) -> None:
    assert refused(ask(responder, "POST", QUOTA, body)) == (400, "BadRequest")


def test_an_object_of_another_kind_is_a_bad_request(responder: Responder) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}}

    answer = ask(responder, "POST", QUOTA, body)

    assert refused(answer) == (400, "BadRequest")
    assert "cannot be handled as a ResourceQuota" in body_of(answer)["message"]


def test_a_patch_of_an_unknown_type_is_unsupported(responder: Responder) -> None:
    ask(responder, "POST", QUOTA, {"metadata": {"name": "q"}, "spec": {"hard": {}}})

    answer = ask(responder, "PATCH", f"{QUOTA}/q", {}, **{"content-type": "application/json"})

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
    responder: Responder, target: str, body: dict[str, Any]
) -> None:
    answer = ask(responder, "PATCH", target, body, **{"content-type": APPLY})

    assert answer.code in {400, 422}
    assert body_of(ask(responder, "GET", QUOTA))["items"] == []


def test_an_apply_of_a_version_of_nothing_is_not_found(responder: Responder) -> None:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"resourceVersion": "7"}}

    answer = ask(responder, "PATCH", f"{QUOTA}/q?fieldManager=m", body, **{"content-type": APPLY})

    assert refused(answer) == (404, "NotFound")


def test_a_dry_run_of_another_kind_is_invalid(responder: Responder) -> None:
    answer = ask(responder, "POST", f"{QUOTA}?dryRun=Some", {"metadata": {"name": "q"}})

    assert refused(answer) == (422, "Invalid")


def test_a_binding_without_a_node_is_invalid(responder: Responder) -> None:
    container = {"name": "c", "image": "i"}
    pods = "/api/v1/namespaces/ns/pods"
    ask(responder, "POST", pods, {"metadata": {"name": "p"}, "spec": {"containers": [container]}})

    answer = ask(responder, "POST", f"{pods}/p/binding", {"target": {}})

    assert refused(answer) == (422, "Invalid")


def test_a_namespace_that_ends_takes_nothing_new(responder: Responder) -> None:
    ended = ask(responder, "DELETE", "/api/v1/namespaces/ns")

    answer = ask(responder, "POST", QUOTA, {"metadata": {"name": "q"}})

    assert body_of(ended)["status"]["phase"] == "Terminating"
    assert refused(answer) == (403, "Forbidden")
    assert "because it is being terminated" in body_of(answer)["message"]


def test_a_deleted_node_answers_a_status(responder: Responder) -> None:
    made = ask(responder, "POST", "/api/v1/nodes", {"metadata": {"name": "n"}})

    answer = ask(responder, "DELETE", "/api/v1/nodes/n")

    assert made.code == HTTPStatus.CREATED
    assert body_of(answer)["status"] == "Success"
    assert body_of(answer)["details"]["name"] == "n"


def test_a_dry_deletion_deletes_nothing(responder: Responder) -> None:
    ask(responder, "POST", "/api/v1/nodes", {"metadata": {"name": "n"}})

    ask(responder, "DELETE", "/api/v1/nodes/n?dryRun=All")

    assert ask(responder, "GET", "/api/v1/nodes/n").code == 200


def test_a_patch_that_leaves_no_object_is_a_bad_request(responder: Responder) -> None:
    ask(responder, "POST", QUOTA, {"metadata": {"name": "q"}})
    patch = [{"op": "replace", "path": "/metadata", "value": "gone"}]

    answer = ask(
        responder, "PATCH", f"{QUOTA}/q", patch, **{"content-type": "application/json-patch+json"}
    )

    assert refused(answer) == (400, "BadRequest")
    assert ask(responder, "GET", f"{QUOTA}/q").code == 200


@pytest.mark.parametrize(
    ("container", "field"),
    [
        ({"image": "i"}, "spec.containers[0].name"),
        ({"name": "main"}, "spec.containers[0].image"),
    ],
)
def test_a_container_has_a_name_and_an_image(
    responder: Responder, container: dict[str, str], field: str
) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}

    answer = ask(responder, "POST", "/api/v1/namespaces/ns/pods", pod)

    causes = body_of(answer)["details"]["causes"]
    assert refused(answer) == (422, "Invalid")
    assert [cause["field"] for cause in causes] == [field]


def test_a_name_is_reported_or_made(responder: Responder) -> None:
    answer = ask(responder, "POST", QUOTA, {"metadata": {}})

    assert refused(answer) == (422, "Invalid")
    assert "name or generateName is required" in body_of(answer)["message"]


def test_a_limit_is_of_something_that_has_a_name(responder: Responder) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.example.com/!": "1"}}}

    answer = ask(responder, "POST", QUOTA, body)

    assert refused(answer) == (422, "Invalid")


def test_a_write_for_another_object_of_the_same_name_is_a_conflict(responder: Responder) -> None:
    ask(responder, "POST", QUOTA, {"metadata": {"name": "q"}})

    answer = ask(responder, "PUT", f"{QUOTA}/q", {"metadata": {"name": "q", "uid": "another"}})

    assert refused(answer) == (409, "Conflict")
    assert "UID in precondition: another" in body_of(answer)["message"]


def test_what_is_posted_to_nobody_is_not_found(responder: Responder) -> None:
    pods = "/api/v1/namespaces/ns/pods/nobody"

    bound = ask(responder, "POST", f"{pods}/binding", {"target": {"name": "n"}})

    assert refused(bound) == (404, "NotFound")
    assert refused(ask(responder, "GET", f"{pods}/binding")) == (405, "MethodNotAllowed")
    assert refused(ask(responder, "PUT", f"{pods}/eviction", {})) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": []},
        {"kind": "Binding", "apiVersion": "policy/v1"},
        {"kind": "Eviction", "apiVersion": "v1"},
        {"metadata": {"name": "other"}},
    ],
)
def test_what_is_posted_to_a_subresource_is_of_its_kind(
    responder: Responder, body: dict[str, Any]
) -> None:
    answer = ask(responder, "POST", "/api/v1/namespaces/ns/pods/a/eviction", body)

    assert refused(answer) == (400, "BadRequest")


def test_who_writes_without_saying_so_is_the_user_agent(responder: Responder) -> None:
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}

    made = ask(responder, "POST", QUOTA, body)

    (entry,) = body_of(made)["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("kubectl", "Update")

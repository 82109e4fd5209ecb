"""Validating webhooks: what they are asked, and what their answers do."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.kubernetes.conftest import (
    GPU_KEY,
    Core,
    hard_body,
    pod_body,
    wait_for,
    wait_for_hard,
)
from tests.support.kubernetes.registering import HOOK, POD_RULE, Hooks, hooked
from tests.support.kubernetes.server import WEBHOOKS, Server
from tests.support.kubernetes.webhook_server import WebhookServer, allow, deny
from tests.support.kubernetes.wire import Wire

pytestmark = pytest.mark.needs(WEBHOOKS)


@pytest.fixture
def hooks(
    wire: Wire, namespace: str, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hooks]:
    with hooked(wire, namespace, server, tmp_path_factory) as made:
        yield made


def names(hooks: Hooks) -> list[str]:
    return [one["metadata"]["name"] for one in hooks.wire.get(hooks.pods).body["items"]]


def test_it_sees_the_pod_as_it_will_be_stored(hooks: Hooks) -> None:
    hooks.start()
    body = pod_body("x", gpus=2)
    body["metadata"] = {"generateName": "train-"}

    made = hooks.wire.post(hooks.pods, body)

    (request,) = hooks.server.seen
    assert made.code == 201
    assert request["operation"] == "CREATE"
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert request["namespace"] == hooks.namespace
    assert request["dryRun"] is False
    assert request["oldObject"] is None
    assert request["options"]["kind"] == "CreateOptions"
    assert "system:masters" in request["userInfo"]["groups"]
    seen = request["object"]["metadata"]
    assert (seen["name"], seen["uid"]) == (
        made.body["metadata"]["name"],
        made.body["metadata"]["uid"],
    )
    assert request["object"]["spec"]["containers"][0]["resources"]["requests"]


def test_a_denial_carries_its_code_and_message_and_stores_nothing(hooks: Hooks) -> None:
    hooks.start()
    hooks.server.rule = deny("no Medium left", 403)

    refused = hooks.wire.post(hooks.pods, pod_body("trainer"))

    assert refused.code == 403
    assert refused.message == f'admission webhook "{HOOK}" denied the request: no Medium left'
    assert names(hooks) == []


def test_a_denial_without_a_word_is_a_bad_request(hooks: Hooks) -> None:
    hooks.start()
    hooks.server.rule = deny()

    refused = hooks.wire.post(hooks.pods, pod_body("trainer"))

    assert refused.code == 400
    assert refused.message == f'admission webhook "{HOOK}" denied the request without explanation'


def test_a_dry_run_says_so_and_stores_nothing(hooks: Hooks) -> None:
    hooks.start()

    answered = hooks.wire.post(hooks.pods, pod_body("ghost"), dryRun="All")

    assert answered.code == 201
    assert [one["dryRun"] for one in hooks.server.seen] == [True]
    assert names(hooks) == []


@pytest.mark.parametrize(("policy", "code"), [("Fail", 500), ("Ignore", 201)])
def test_one_that_answers_too_late_is_up_to_its_failure_policy(
    hooks: Hooks, policy: str, code: int
) -> None:
    hooks.start(failurePolicy=policy, timeoutSeconds=1)
    hooks.server.rule = hooks.server.hold

    answered = hooks.wire.post(hooks.pods, pod_body("trainer"))

    hooks.server.released.set()
    assert answered.code == code
    if policy == "Fail":
        assert answered.body["reason"] == "InternalError"
        assert f'failed calling webhook "{HOOK}"' in answered.message
        assert names(hooks) == []


def test_one_that_is_not_there_stops_everything_if_it_must_not_fail(hooks: Hooks) -> None:
    hooks.start(timeoutSeconds=1)
    hooks.server.stop()

    refused = hooks.wire.post(hooks.pods, pod_body("trainer"))

    assert refused.code == 500
    assert names(hooks) == []


def test_one_that_another_authority_vouches_for_is_not_believed(
    hooks: Hooks, tmp_path_factory: pytest.TempPathFactory, server: Server
) -> None:
    other = WebhookServer(tmp_path_factory.mktemp("other"), server.webhook_host)
    client = {"url": hooks.server.url, "caBundle": other.authority}
    assert hooks.register(hooks.webhook(clientConfig=client)).code == 201

    wait_for(lambda: hooks.probe().code == 500)

    assert hooks.server.seen == []
    other.stop()


def test_an_answer_to_another_question_is_none(hooks: Hooks) -> None:
    hooks.start()
    hooks.server.rule = lambda request: {**allow(request), "uid": "another"}

    assert hooks.wire.post(hooks.pods, pod_body("trainer")).code == 500


def test_an_object_selector_asks_about_what_it_selects(hooks: Hooks) -> None:
    selector = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
    assert hooks.register(hooks.webhook(objectSelector=selector)).code == 201
    wait_for(lambda: hooks.probe(tier="gold").code == 201 and bool(hooks.server.seen))
    hooks.server.seen.clear()

    hooks.wire.post(hooks.pods, pod_body("plain"))

    assert hooks.server.seen == []
    assert names(hooks) == ["plain"]


def test_a_change_shows_before_and_after_and_a_deletion_what_was(hooks: Hooks) -> None:
    rule = {**POD_RULE, "operations": ["CREATE", "UPDATE", "DELETE"]}
    hooks.start(rules=[rule])
    hooks.wire.post(hooks.pods, pod_body("trainer"))
    path = f"{hooks.pods}/trainer"

    hooks.wire.patch(path, {"metadata": {"labels": {"tier": "gold"}}})
    hooks.wire.delete(path)

    # A server that begins a write again asks again: the last word of each counts.
    last = {one["operation"]: one for one in hooks.server.seen}
    assert list(last) == ["CREATE", "UPDATE", "DELETE"]
    created, changed, deleted = last.values()
    assert created["oldObject"] is None
    assert "labels" not in changed["oldObject"]["metadata"]
    assert changed["object"]["metadata"]["labels"] == {"tier": "gold"}
    assert deleted["object"] is None
    assert deleted["oldObject"]["metadata"]["name"] == deleted["name"] == "trainer"


def test_a_denied_deletion_deletes_nothing(hooks: Hooks) -> None:
    hooks.start(rules=[{**POD_RULE, "operations": ["CREATE", "DELETE"]}])
    hooks.wire.post(hooks.pods, pod_body("trainer"))
    hooks.server.rule = deny("keep it", 403)

    refused = hooks.wire.delete(f"{hooks.pods}/trainer")

    hooks.server.rule = allow
    assert refused.code == 403
    assert names(hooks) == ["trainer"]


@pytest.mark.parametrize(
    ("subresource", "kind", "more"),
    [
        ("binding", "Binding", {"target": {"kind": "Node", "name": "contract-node"}}),
        ("eviction", "Eviction", {}),
    ],
)
def test_what_is_posted_to_a_pod_is_seen_by_who_asks_for_it(
    hooks: Hooks, server: Server, subresource: str, kind: str, more: dict[str, Any]
) -> None:
    hooks.start(rules=[{**POD_RULE, "resources": ["pods", f"pods/{subresource}"]}])
    hooks.wire.post(hooks.pods, pod_body("trainer"))
    hooks.server.seen.clear()
    hooks.server.rule = deny("stay", 403)
    version = "v1" if kind == "Binding" else server.policy
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "trainer"}, **more}

    refused = hooks.wire.post(f"{hooks.pods}/trainer/{subresource}", body)

    hooks.server.rule = allow
    (request,) = hooks.server.seen
    assert refused.code == 403
    assert (request["operation"], request["subResource"]) == ("CREATE", subresource)
    assert request["kind"]["kind"] == request["object"]["kind"] == kind
    assert request["name"] == "trainer"
    stored = hooks.wire.get(f"{hooks.pods}/trainer").body
    assert "nodeName" not in stored["spec"]
    assert "deletionTimestamp" not in stored["metadata"]


def test_who_asks_for_pods_is_not_asked_about_bindings(hooks: Hooks) -> None:
    hooks.start()
    hooks.wire.post(hooks.pods, pod_body("trainer"))
    hooks.server.seen.clear()
    body = {"target": {"kind": "Node", "name": "contract-node"}, "metadata": {"name": "trainer"}}

    bound = hooks.wire.post(f"{hooks.pods}/trainer/binding", body)

    assert bound.code == 201
    assert hooks.server.seen == []


def test_warnings_reach_the_client(hooks: Hooks) -> None:
    hooks.start()
    hooks.server.rule = lambda request: {**allow(request), "warnings": ["can never fit"]}

    answered = hooks.wire.post(hooks.pods, pod_body("trainer"))

    assert answered.code == 201
    assert answered.headers["Warning"] == '299 - "can never fit"'


def test_a_pod_that_is_not_valid_is_refused_before_anybody_is_asked(hooks: Hooks) -> None:
    hooks.start()

    refused = hooks.wire.post(hooks.pods, pod_body("empty", containers=[]))

    assert refused.code == 422
    assert hooks.server.seen == []


def test_the_quota_comes_last(core: Core, hooks: Hooks) -> None:
    core.create_namespaced_resource_quota(hooks.namespace, hard_body({GPU_KEY: "1"}))
    wait_for_hard(core, hooks.namespace, {GPU_KEY: "1"})
    hooks.start()

    exceeded = hooks.wire.post(hooks.pods, pod_body("big", gpus=2))
    seen = len(hooks.server.seen)
    hooks.server.rule = deny("not today", 403)
    denied = hooks.wire.post(hooks.pods, pod_body("big", gpus=2))

    assert seen == 1
    assert "exceeded quota" in exceeded.message
    assert denied.message.endswith("denied the request: not today")


def test_one_behind_a_service_proves_itself_by_the_services_name(
    hooks: Hooks, tmp_path_factory: pytest.TempPathFactory
) -> None:
    host = f"hook.{hooks.namespace}.svc"
    answering = WebhookServer(tmp_path_factory.mktemp("service"), "127.0.0.1", name=host)
    service = {"name": "hook", "namespace": hooks.namespace, "path": "/review"}
    body = {
        "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    assert hooks.wire.post(f"/api/v1/namespaces/{hooks.namespace}/services", body).code == 201
    client = {"service": {**service, "port": answering.port}, "caBundle": answering.authority}
    assert hooks.register(hooks.webhook(clientConfig=client)).code == 201
    wait_for(lambda: hooks.probe().code == 201 and bool(answering.seen))
    answering.rule = deny("through a service", 403)

    refused = hooks.wire.post(hooks.pods, pod_body("trainer"))

    answering.stop()
    assert refused.message.endswith("denied the request: through a service")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sideEffects": None}, "webhooks[0].sideEffects"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"name": "short"}, "webhooks[0].name"),
        ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
        ({"clientConfig": {"url": "http://127.0.0.1/x"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
    ],
)
def test_a_webhook_that_cannot_be_meant_is_invalid(
    hooks: Hooks, changes: dict[str, Any], field: str
) -> None:
    refused = hooks.register(hooks.webhook(**changes))

    assert refused.code == 422
    assert field in {cause["field"] for cause in refused.body["details"]["causes"]}
    assert hooks.made == []

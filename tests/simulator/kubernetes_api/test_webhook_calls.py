"""Webhooks at their edges: answers that are none, services nobody serves, who is asked again."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator.kubernetes_api.access import Write, make_identity
from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.removal import delete_object
from simulator.kubernetes_api.resources import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.webhooks import (
    CallError,
    WriteReview,
    call_webhook,
    concerns,
    mutate,
    refusal,
    validate,
)
from simulator.kubernetes_api.writing import apply_object, patch_object
from tests.support.kubernetes.webhook_server import Body, WebhookServer, allow, patching

RULE = {
    "operations": ["*"],
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "resources": ["*"],
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    made = WebhookServer(tmp_path_factory.mktemp("webhook"), "127.0.0.1")
    yield made
    made.stop()


@pytest.fixture
def hook(served: WebhookServer) -> WebhookServer:
    served.rule = allow
    served.seen.clear()
    return served


def webhook(hook: WebhookServer, **changes: object) -> Body:
    client = {"url": hook.url, "caBundle": hook.authority}
    return {"name": "a.b.c", "clientConfig": client, "rules": [RULE], **changes}


def review_of(
    resource: Resource = PODS,
    *,
    obj: Body | None = None,
    operation: str = "CREATE",
    store: ObjectStore | None = None,
) -> WriteReview:
    reported = {"metadata": {"name": "x"}, "spec": {}} if obj is None else obj
    key = ("ns" if resource.is_namespaced else "", "x")
    is_deletion = operation == "DELETE"
    return WriteReview(
        Write(store or ObjectStore(), resource, key, "kubectl"),
        operation,
        None if is_deletion else reported,
        reported if is_deletion else None,
    )


def answering(**changes: object) -> Any:  # noqa: ANN401 - A rule.
    return lambda request: {**allow(request), **changes}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"patch": "W10="}, "without a patchType"),
        ({"patchType": "JSONPatch"}, "without a patchType"),
        ({"patch": "W10=", "patchType": "MergePatch"}, "without a patchType"),
        ({"patch": "nonsense", "patchType": "JSONPatch"}, "failed to call"),
        ({"uid": "another"}, "expected response.uid"),
    ],
)
def test_an_answer_that_cannot_be_meant_is_none(
    hook: WebhookServer, changes: dict[str, str], said: str
) -> None:
    hook.rule = answering(**changes)

    with pytest.raises(CallError, match=said):
        call_webhook(ObjectStore(), webhook(hook), {"uid": "u"})


@pytest.mark.parametrize("response", [None, "no"])
def test_an_answer_without_a_response_is_none(hook: WebhookServer, response: object) -> None:
    hook.rule = lambda _: response  # type: ignore[assignment,return-value]

    with pytest.raises(CallError, match="response was absent"):
        call_webhook(ObjectStore(), webhook(hook), {"uid": "u"})


def test_an_answer_of_another_version_is_none(hook: WebhookServer) -> None:
    hook.version = "admission.k8s.io/v1beta1"
    try:
        with pytest.raises(CallError, match="expected webhook response of"):
            call_webhook(ObjectStore(), webhook(hook), {"uid": "u"})
    finally:
        hook.version = ""


def test_an_answer_with_an_error_code_is_none(hook: WebhookServer) -> None:
    hook.code = 503
    try:
        with pytest.raises(CallError, match="answered 503"):
            call_webhook(ObjectStore(), webhook(hook), {"uid": "u"})
    finally:
        hook.code = 200


def test_a_service_inside_the_cluster_leads_nowhere(hook: WebhookServer) -> None:
    store = ObjectStore()
    store.put(SERVICES, ("ns", "hook"), {"metadata": {"name": "hook"}, "spec": {}})
    client = {"service": {"name": "hook", "namespace": "ns"}}

    with pytest.raises(CallError, match="no endpoints available"):
        call_webhook(store, webhook(hook, clientConfig=client), {"uid": "u"})


def test_a_service_is_not_found_where_there_are_none(hook: WebhookServer) -> None:
    service = {"service": {"name": "gpu-ledger", "namespace": "gpu-ledger"}}

    with pytest.raises(CallError, match='service "gpu-ledger" not found'):
        call_webhook(ObjectStore(), webhook(hook, clientConfig=service), {"uid": "u"})


def test_without_an_authority_of_its_own_the_systems_are_asked(hook: WebhookServer) -> None:
    with pytest.raises(CallError, match="certificate verify failed"):
        call_webhook(ObjectStore(), webhook(hook, clientConfig={"url": hook.url}), {"uid": "u"})


def test_who_wants_to_be_asked_again_is_after_a_later_change(hook: WebhookServer) -> None:
    store = ObjectStore()
    webhooks = [
        webhook(hook, name="first.b.c", reinvocationPolicy="IfNeeded"),
        webhook(hook, name="second.b.c", reinvocationPolicy="IfNeeded"),
    ]
    store.put(MUTATING_WEBHOOKS, ("", "m"), {"metadata": {"name": "m"}, "webhooks": webhooks})

    def once(request: Body) -> Body:
        if len(hook.seen) != 2:
            return allow(request)
        path = {"op": "add", "path": "/spec/late", "value": "change"}
        return patching(path)(request)

    hook.rule = once

    review = mutate(review_of(store=store))

    assert review.obj is not None
    assert review.obj["spec"] == {"late": "change"}
    assert ["late" in one["object"]["spec"] for one in hook.seen] == [False, False, True]


def test_a_deletion_is_asked_about_and_not_mutated(hook: WebhookServer) -> None:
    store = ObjectStore()
    store.put(
        MUTATING_WEBHOOKS, ("", "m"), {"metadata": {"name": "m"}, "webhooks": [webhook(hook)]}
    )
    hook.rule = patching({"op": "add", "path": "/spec/x", "value": 1})

    review = mutate(review_of(operation="DELETE", store=store))

    assert review.obj is None
    assert hook.seen[0]["options"] == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}


def test_a_deletion_that_is_a_dry_run_by_its_options_is_one_for_webhooks(
    hook: WebhookServer,
) -> None:
    store = ObjectStore()
    store.put(NODES, ("", "n"), {"metadata": {"name": "n", "uid": "u"}})
    configuration = {"metadata": {"name": "v"}, "webhooks": [webhook(hook)]}
    store.put(VALIDATING_WEBHOOKS, ("", "v"), configuration)

    delete_object(Write(store, NODES, ("", "n"), "kubectl"), {"dryRun": ["All"]})

    assert [request["dryRun"] for request in hook.seen] == [True]
    assert store.get(NODES, ("", "n")) is not None


def test_no_webhook_is_asked_about_webhooks(hook: WebhookServer) -> None:
    store = ObjectStore()
    configuration = {"metadata": {"name": "v"}, "webhooks": [webhook(hook)]}
    store.put(VALIDATING_WEBHOOKS, ("", "v"), configuration)

    validate(review_of(VALIDATING_WEBHOOKS, obj=configuration, store=store))

    assert hook.seen == []
    assert not concerns(webhook(hook), review_of(MUTATING_WEBHOOKS))


@pytest.mark.parametrize(
    ("resource", "scope", "expected"),
    [
        (PODS, "*", True),
        (PODS, "Namespaced", True),
        (PODS, "Cluster", False),
        (NODES, "Cluster", True),
        (NODES, "Namespaced", False),
        (NAMESPACES, "Cluster", True),
    ],
)
def test_a_rule_may_be_about_one_scope(resource: Resource, scope: str, expected: bool) -> None:  # noqa: FBT001 - A table.
    rule = {**RULE, "scope": scope}

    assert concerns({"rules": [rule]}, review_of(resource)) is expected


@pytest.mark.parametrize(
    ("operation", "expected"), [("CREATE", True), ("UPDATE", True), ("DELETE", True)]
)
def test_a_namespace_is_selected_by_its_own_labels(
    operation: str,
    expected: bool,  # noqa: FBT001 - A table.
) -> None:
    selector = {"matchLabels": {"managed": "yes"}}
    obj = {"metadata": {"name": "x", "labels": {"managed": "yes"}}}
    review = review_of(NAMESPACES, obj=obj, operation=operation)

    chosen = concerns({"rules": [RULE], "namespaceSelector": selector}, review)
    other = concerns(
        {"rules": [RULE], "namespaceSelector": {"matchLabels": {"managed": "no"}}},
        review,
    )

    assert (chosen, other) == (expected, False)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "tier", "operator": "In", "values": ["gold"]}, True),
        ({"key": "tier", "operator": "NotIn", "values": ["gold"]}, False),
        ({"key": "tier", "operator": "Exists"}, True),
        ({"key": "tier", "operator": "DoesNotExist"}, False),
        ({"key": "other", "operator": "In", "values": ["gold"]}, False),
        ({"key": "other", "operator": "NotIn", "values": ["gold"]}, True),
    ],
)
def test_expressions_select_objects(expression: Body, expected: bool) -> None:  # noqa: FBT001 - A table.
    obj = {"metadata": {"name": "x", "labels": {"tier": "gold"}}}
    reported = {"rules": [RULE], "objectSelector": {"matchExpressions": [expression]}}

    assert concerns(reported, review_of(obj=obj)) is expected


def test_a_refusal_keeps_the_webhooks_reason_and_details() -> None:
    status = {"reason": "Forbidden", "code": 403, "details": {"causes": []}}

    error = refusal("a.b.c", status)

    assert error.code == 403
    assert error.body["message"] == 'admission webhook "a.b.c" denied the request: Forbidden'
    assert error.body["reason"] == "Forbidden"
    assert error.body["details"] == {"causes": []}


def test_a_refusal_is_never_a_success() -> None:
    error = refusal("a.b.c", {"code": 200})

    assert error.code == 400
    assert "reason" not in error.body


def test_a_write_begins_again_when_another_came_in_between(
    hook: WebhookServer, tmp_path: Path
) -> None:
    del tmp_path
    store = ObjectStore()
    store.put(NODES, ("", "n"), {"metadata": {"name": "n", "uid": "u"}, "spec": {}, "status": {}})
    changing = {**RULE, "operations": ["UPDATE"]}
    store.put(
        VALIDATING_WEBHOOKS,
        ("", "v"),
        {"metadata": {"name": "v"}, "webhooks": [webhook(hook, rules=[changing])]},
    )

    def meddle(request: Body) -> Body:
        if len(hook.seen) == 1:
            live = store.get(NODES, ("", "n")) or {}
            metadata = {**live["metadata"], "labels": {"theirs": "kept"}}
            store.put(NODES, ("", "n"), {**live, "metadata": metadata})
        return allow(request)

    hook.rule = meddle

    body = {"metadata": {"labels": {"ours": "too"}}}
    patch_object(Write(store, NODES, ("", "n"), "us"), body, "application/merge-patch+json")

    stored = store.get(NODES, ("", "n")) or {}
    assert stored["metadata"]["labels"] == {"theirs": "kept", "ours": "too"}
    assert len(hook.seen) == 2


def test_a_write_that_never_comes_to_its_turn_is_a_conflict(hook: WebhookServer) -> None:
    store = ObjectStore()
    store.put(NODES, ("", "n"), {"metadata": {"name": "n", "uid": "u"}, "spec": {}, "status": {}})
    store.put(
        VALIDATING_WEBHOOKS, ("", "v"), {"metadata": {"name": "v"}, "webhooks": [webhook(hook)]}
    )

    def meddle(request: Body) -> Body:
        live = store.get(NODES, ("", "n")) or {}
        store.put(NODES, ("", "n"), {**live, "spec": {"count": len(hook.seen)}})
        return allow(request)

    hook.rule = meddle

    body = {"metadata": {"labels": {"ours": "too"}}}
    write = Write(store, NODES, ("", "n"), "us")
    with pytest.raises(StatusError) as caught:
        patch_object(write, body, "application/merge-patch+json")
    intent = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "b"}}}
    with pytest.raises(StatusError) as applied:
        apply_object(write, intent)

    assert caught.value.code == applied.value.code == 409
    assert "labels" not in (store.get(NODES, ("", "n")) or {})["metadata"]


def test_what_a_webhook_is_reported_is_a_copy() -> None:
    obj = {"metadata": {"name": "x"}, "spec": {"list": [1]}}

    request = json.loads(json.dumps(review_of(obj=obj).request("u")))
    request["object"]["spec"]["list"].append(2)

    assert obj["spec"] == {"list": [1]}
    assert base64.b64encode(b"[]").decode() == "W10="


def test_a_webhook_that_wants_to_know_who_asks_is_shown_a_certificate(tmp_path: Path) -> None:
    caller = make_identity(tmp_path / "caller")
    strict = WebhookServer(tmp_path / "strict", "127.0.0.1", trusting=caller.authority_pem)
    store, request = ObjectStore(), {"uid": "u"}
    try:
        with pytest.raises(CallError):
            call_webhook(store, webhook(strict), request)
        store.client_certificate = (
            str(caller.client_certificate_path),
            str(caller.client_key_path),
        )

        assert call_webhook(store, webhook(strict), request)["allowed"]
    finally:
        strict.stop()

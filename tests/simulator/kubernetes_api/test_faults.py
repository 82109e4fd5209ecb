"""Ordered faults: the requests they are for get them, as often as ordered, and no longer."""

import pytest

from simulator.kubernetes_api import KubernetesAPI
from simulator.kubernetes_api.resources import NODES
from tests.support.kubernetes.wire import Wire

PODS = "/api/v1/pods"
NODE_PATH = "/api/v1/nodes"


def put_nodes(api: KubernetesAPI, *names: str) -> str:
    """Write nodes, and return the version from before."""
    version = str(api.store.version)
    for name in names:
        api.store.put(NODES, ("", name), {"metadata": {"name": name}, "spec": {}, "status": {}})
    return version


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (409, "Conflict"),
        (429, "TooManyRequests"),
        (503, "ServiceUnavailable"),
    ],
)
def test_the_next_requests_are_answered_with_an_error(
    api: KubernetesAPI, wire: Wire, code: int, reason: str
) -> None:
    api.fail_next(code, times=2)

    replies = [wire.get(PODS) for _ in range(3)]

    assert [reply.code for reply in replies] == [code, code, 200]
    assert replies[0].body["kind"] == "Status"
    assert (replies[0].body["reason"], replies[0].body["code"]) == (reason, code)
    assert "Retry-After" not in replies[0].headers


def test_an_error_may_say_when_to_come_again(api: KubernetesAPI, wire: Wire) -> None:
    api.fail_next(429, retry_after_seconds=7)

    reply = wire.get(PODS)

    assert reply.headers["Retry-After"] == "7"
    assert reply.body["details"]["retryAfterSeconds"] == 7


def test_only_the_verb_and_the_resource_that_are_meant_meet_it(
    api: KubernetesAPI, wire: Wire
) -> None:
    api.fail_next(503, verb="list", resource="pods")

    others = [wire.get(NODE_PATH).code, wire.get("/api/v1/namespaces/a/pods/b").code]
    meant = wire.get("/api/v1/namespaces/a/pods")

    assert others == [200, 404]
    assert meant.code == 503


def test_a_subresource_is_another_resource(api: KubernetesAPI, wire: Wire) -> None:
    api.fail_next(429, verb="create", resource="pods/eviction")

    assert wire.post("/api/v1/namespaces/a/pods", {}).code == 404
    assert wire.post("/api/v1/namespaces/a/pods/b/eviction", {}).code == 429


def test_orders_are_met_in_the_order_in_which_they_came(api: KubernetesAPI, wire: Wire) -> None:
    api.fail_next(500)
    api.fail_next(503)

    assert [wire.get(PODS).code for _ in range(3)] == [500, 503, 200]


def test_orders_that_are_purged_are_met_by_nobody(api: KubernetesAPI, wire: Wire) -> None:
    api.fail_next(500, times=100)
    api.reset_faults()

    assert wire.get(PODS).code == 200


def test_what_is_compacted_ends_open_watches_and_refuses_old_ones(
    api: KubernetesAPI, wire: Wire
) -> None:
    version = put_nodes(api, "six", "seven")

    api.store.compact()

    (event,) = wire.watch(NODE_PATH, resourceVersion=version)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["reason"] == "Expired"
    assert event["object"]["message"] == (
        f"too old resource version: {version} ({api.store.version})"
    )

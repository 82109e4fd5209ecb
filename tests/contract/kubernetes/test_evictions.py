"""Evictions: a pod is asked to go, and its budget may stand against it."""

import pytest

from tests.contract.kubernetes.conftest import (
    Core,
    bind,
    pod_body,
    set_phase,
    wait_for,
)
from tests.support.kubernetes.server import Server
from tests.support.kubernetes.wire import Body, Reply, Wire

APP = {"app": "serving"}


def run_pod(core: Core, namespace: str, name: str) -> Body:
    """Start a pod that is ready on a node nobody runs; return it."""
    body = pod_body(name)
    body["metadata"]["labels"] = APP
    core.create_namespaced_pod(namespace, body)
    bind(core, namespace, name)
    set_phase(core, namespace, name, "Running", is_ready=True)
    found: Body = core.read_namespaced_pod(name, namespace).to_dict()
    return found


def budgets(server: Server, namespace: str) -> str:
    return f"/apis/{server.policy}/namespaces/{namespace}/poddisruptionbudgets"


def make_budget(
    wire: Wire, server: Server, namespace: str, least: int, *, healthy: int, name: str = "serving"
) -> None:
    """Make a budget, and wait until the server has counted the pods."""
    path = budgets(server, namespace)
    body = {
        "apiVersion": server.policy,
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": least, "selector": {"matchLabels": APP}},
    }
    assert wire.post(path, body).code == 201
    wait_for(lambda: _counted(wire, f"{path}/{name}") == (1, healthy))


def _counted(wire: Wire, path: str) -> tuple[int, int]:
    status = wire.get(path).body.get("status", {})
    return status.get("observedGeneration", 0), status["currentHealthy"]


def allowed(wire: Wire, server: Server, namespace: str) -> int:
    found: int = wire.get(f"{budgets(server, namespace)}/serving").body["status"][
        "disruptionsAllowed"
    ]
    return found


def evict(wire: Wire, server: Server, namespace: str, name: str, **options: object) -> Reply:
    body = {
        "apiVersion": server.policy,
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        **({"deleteOptions": options} if options else {}),
    }
    return wire.post(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)


def is_ending(core: Core, namespace: str, name: str) -> bool:
    return core.read_namespaced_pod(name, namespace).metadata.deletion_timestamp is not None


def test_without_a_budget_a_pod_ends_with_its_own_grace(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    run_pod(core, namespace, "a")

    reply = evict(wire, server, namespace, "a")

    assert (reply.code, reply.body["kind"], reply.body["status"]) == (201, "Status", "Success")
    assert is_ending(core, namespace, "a")
    assert core.read_namespaced_pod("a", namespace).metadata.deletion_grace_period_seconds == 30


def test_the_grace_may_be_reported(core: Core, wire: Wire, server: Server, namespace: str) -> None:
    run_pod(core, namespace, "a")

    evict(wire, server, namespace, "a", gracePeriodSeconds=5)

    assert core.read_namespaced_pod("a", namespace).metadata.deletion_grace_period_seconds == 5


def test_a_budget_that_would_be_violated_refuses(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    run_pod(core, namespace, "a")
    make_budget(wire, server, namespace, 1, healthy=1)

    reply = evict(wire, server, namespace, "a")

    assert (reply.code, reply.body["reason"]) == (429, "TooManyRequests")
    assert reply.message == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = reply.body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert "needs 1 healthy pods and has 1 currently" in cause["message"]
    # Nobody knows when it will be possible, so the server shows no time.
    assert "Retry-After" not in reply.headers
    assert not is_ending(core, namespace, "a")


def test_a_budget_lets_as_many_go_as_it_can_spare(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    for name in ("a", "b"):
        run_pod(core, namespace, name)
    make_budget(wire, server, namespace, 1, healthy=2)

    replies = [evict(wire, server, namespace, name).code for name in ("a", "b")]

    assert replies == [201, 429]
    assert is_ending(core, namespace, "a")
    assert not is_ending(core, namespace, "b")
    assert allowed(wire, server, namespace) == 0


def test_a_budget_recovers_when_another_pod_is_ready(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    run_pod(core, namespace, "a")
    make_budget(wire, server, namespace, 1, healthy=1)
    run_pod(core, namespace, "b")
    wait_for(lambda: allowed(wire, server, namespace) == 1)

    assert evict(wire, server, namespace, "a").code == 201


def test_two_budgets_about_one_pod_are_more_than_the_server_can_weigh(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    run_pod(core, namespace, "a")
    make_budget(wire, server, namespace, 0, healthy=1)
    make_budget(wire, server, namespace, 0, healthy=1, name="another")

    reply = evict(wire, server, namespace, "a")

    assert reply.code == 500
    assert reply.message.startswith("This pod has more than one PodDisruptionBudget")
    assert not is_ending(core, namespace, "a")


def test_another_pod_of_the_same_name_is_not_evicted(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    run_pod(core, namespace, "a")
    other = "00000000-0000-4000-8000-000000000000"

    reply = evict(wire, server, namespace, "a", preconditions={"uid": other})

    assert (reply.code, reply.body["reason"]) == (409, "Conflict")
    assert f"the UID in the precondition ({other}) does not match" in reply.message
    assert not is_ending(core, namespace, "a")


def test_the_pod_that_is_meant_is_evicted(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    uid = run_pod(core, namespace, "a")["metadata"]["uid"]

    assert evict(wire, server, namespace, "a", preconditions={"uid": uid}).code == 201
    assert is_ending(core, namespace, "a")


def test_a_dry_run_ends_nothing_and_takes_nothing_from_the_budget(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    for name in ("a", "b"):
        run_pod(core, namespace, name)
    make_budget(wire, server, namespace, 1, healthy=2)

    reply = evict(wire, server, namespace, "a", dryRun=["All"])

    assert reply.code == 201
    assert not is_ending(core, namespace, "a")
    assert allowed(wire, server, namespace) == 1


def test_a_dry_run_shows_of_a_budget_that_would_be_violated(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    run_pod(core, namespace, "a")
    make_budget(wire, server, namespace, 1, healthy=1)

    assert evict(wire, server, namespace, "a", dryRun=["All"]).code == 429


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_no_budget_keeps_a_pod_that_does_not_run(
    core: Core, wire: Wire, server: Server, namespace: str, phase: str
) -> None:
    run_pod(core, namespace, "a")
    make_budget(wire, server, namespace, 1, healthy=1)
    set_phase(core, namespace, "a", phase, is_ready=True)

    assert evict(wire, server, namespace, "a").code == 201


def test_a_pod_that_is_not_there_is_not_found(wire: Wire, server: Server, namespace: str) -> None:
    reply = evict(wire, server, namespace, "nobody")

    assert (reply.code, reply.message) == (404, 'pods "nobody" not found')


def test_the_name_in_the_body_is_the_pod_on_the_path(
    core: Core, wire: Wire, server: Server, namespace: str
) -> None:
    run_pod(core, namespace, "a")
    body = {"apiVersion": server.policy, "kind": "Eviction", "metadata": {"name": "other"}}

    reply = wire.post(f"/api/v1/namespaces/{namespace}/pods/a/eviction", body)

    assert reply.code == 400
    assert not is_ending(core, namespace, "a")


@pytest.mark.needs("policy/v1")
def test_an_eviction_of_the_older_version_is_understood(
    core: Core, wire: Wire, namespace: str
) -> None:
    run_pod(core, namespace, "a")
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "a"}}

    assert wire.post(f"/api/v1/namespaces/{namespace}/pods/a/eviction", body).code == 201


def test_a_budget_says_either_what_stays_or_what_goes(
    wire: Wire, server: Server, namespace: str
) -> None:
    body = {
        "apiVersion": server.policy,
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "both"},
        "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {"matchLabels": APP}},
    }

    reply = wire.post(budgets(server, namespace), body)

    assert reply.code == 422
    assert wire.get(budgets(server, namespace)).body["items"] == []

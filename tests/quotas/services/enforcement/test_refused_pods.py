"""A divided limit moves to the namespace whose pods a quota refuses, and holds meanwhile."""

from datetime import datetime, timedelta

import pytest

from quotas.domain.enforcement.refused_pods import RefusedWorkload
from quotas.models import EnforcementTarget
from quotas.services.enforcement.refused_pods import refresh_refused_pods
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import hold, make_limit
from tests.support.quotas.enforcing import GPU, SYSTEM, apply, refresh, target_of

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SOON = AT + 15 * SECOND


@pytest.fixture
def hopper(cast: Cast) -> Cluster:
    """Return a cluster without admission; a project with nine units has two namespaces."""
    cluster = make_cluster("hopper")
    bind(cluster, "a", cast.llm)
    bind(cluster, "b", cast.llm)
    make_limit(cast.acme, cast.llm, units=9)
    assert reconcile(AT) == {"a": 5, "b": 4}
    return cluster


def read(at: datetime) -> int:
    return refresh_refused_pods(enforcer=SimulatedQuotaEnforcer(), actor=SYSTEM, at=at)


def reconcile(at: datetime) -> dict[str, int]:
    """Read, plan and apply as the task does; return what the namespaces say at the end."""
    read(at)
    for _ in range(3):
        refresh(at)
        for target in EnforcementTarget.objects.all():
            apply(target.namespace, at=at)
    quotas = SimulatedQuotaEnforcer.cluster("hopper").quotas
    return {name: quota.hard[GPU] for name, quota in sorted(quotas.items())}


def refuse(
    live: ReceivingCluster, namespace: str, units: int, *, pods: int = 1, at: datetime = SOON
) -> None:
    workload = RefusedWorkload(namespace, "Job/train", {GPU: units}, pods, at)
    live.refused.append((workload, at))


@pytest.mark.usefixtures("hopper")
def test_a_job_of_one_pod_with_six_units_gets_them(live: ReceivingCluster) -> None:
    refuse(live, "b", 6)

    assert reconcile(SOON) == {"a": 2, "b": 7}


def test_a_pod_of_five_gets_them_beside_what_runs(hopper: Cluster, live: ReceivingCluster) -> None:
    hold(hopper, "a", units=3)
    refuse(live, "b", 5)

    assert reconcile(SOON) == {"a": 4, "b": 5}


def test_what_does_not_fit_beside_what_runs_moves_nothing(
    hopper: Cluster, live: ReceivingCluster
) -> None:
    hold(hopper, "a", units=4)
    refuse(live, "b", 6)

    assert reconcile(SOON) == {"a": 5, "b": 4}


@pytest.mark.usefixtures("hopper")
def test_units_of_pods_that_wait_for_a_node_are_not_given_away(live: ReceivingCluster) -> None:
    live.use("a", {GPU: 4})
    refuse(live, "b", 6)

    moved = reconcile(SOON)

    assert moved["a"] < 4
    assert moved["b"] <= 5


@pytest.mark.usefixtures("hopper")
def test_it_stays_there_after_the_refusal_is_over(live: ReceivingCluster) -> None:
    refuse(live, "b", 6)
    moved = reconcile(SOON)
    live.refused.clear()

    assert reconcile(SOON + 15 * SECOND) == moved


@pytest.mark.usefixtures("hopper")
def test_two_namespaces_that_ask_are_served_in_order(live: ReceivingCluster) -> None:
    refuse(live, "a", 6, at=SOON + SECOND)
    refuse(live, "b", 6, at=SOON)

    first = reconcile(SOON + SECOND)
    second = reconcile(SOON + 20 * SECOND)
    live.refused.pop()

    assert first == second
    assert first["b"] >= 6
    assert reconcile(SOON + 40 * SECOND)["a"] >= 6


@pytest.mark.usefixtures("hopper")
def test_an_old_refusal_moves_nothing(live: ReceivingCluster) -> None:
    refuse(live, "b", 6, at=SOON)

    assert reconcile(SOON + 20 * MINUTE + SECOND) == {"a": 5, "b": 4}


@pytest.mark.usefixtures("hopper")
def test_a_cluster_that_cannot_be_read_keeps_its_last_reading_for_five_minutes(
    live: ReceivingCluster,
) -> None:
    refuse(live, "b", 6)
    read(SOON)
    live.failure = "timeout"

    read(SOON + 5 * MINUTE)
    refresh(SOON + 5 * MINUTE + SECOND)
    late = target_of("a").desired_hard[GPU]
    refresh(SOON + 5 * MINUTE)

    assert late == 5
    assert target_of("a").desired_hard[GPU] < 5


@pytest.mark.usefixtures("hopper")
def test_a_cluster_is_read_once_for_each_plan_by_the_clock(live: ReceivingCluster) -> None:
    refuse(live, "b", 6)

    assert [read(SOON), read(SOON + SECOND), read(SOON + 15 * SECOND)] == [1, 0, 1]
    assert target_of("b").refused_pods == [
        {
            "workload": "Job/train",
            "requested": {GPU: 6},
            "pods": 1,
            "asked_at": SOON.isoformat(),
            "is_burst": False,
        }
    ]
    assert target_of("a").refused_pods == []


@pytest.mark.usefixtures("hopper")
def test_preemptible_pods_move_burst_units_alone(cast: Cast, live: ReceivingCluster) -> None:
    cast.llm.quota_limits.update(burst_units=4)
    reconcile(SOON)
    workload = RefusedWorkload("b", "Job/train", {GPU: 4}, 1, SOON, is_burst=True)
    live.refused.append((workload, SOON))

    after = reconcile(SOON + 20 * SECOND)

    assert after == {"a": 5, "b": 4}
    assert live.quotas["b"].burst[GPU] == 4

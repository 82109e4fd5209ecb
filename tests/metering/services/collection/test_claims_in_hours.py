"""Device claims in an hour: billed once, split among the pods they were reserved for."""

from dataclasses import replace
from datetime import timedelta

import pytest

from metering.domain.collection.windows import DEFAULT_POLICY, WindowState
from metering.models import (
    CapacityRecord,
    MeteringException,
    MeteringWindow,
    UsageRecord,
    WatchSpan,
    WindowRecheck,
)
from metering.selectors.explain import allocation_of
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.collecting import Collection, collect_window
from metering.services.collection.sealing import seal_window
from metering.services.corrections.rechecking import recheck_due
from tenants.models import Cluster, Project
from tests.support.metering.allocations.watched import ledgered, offered, reserved, watched
from tests.support.metering.collecting import DUE, claim, collect, exceptions
from tests.support.metering.seen import ACTOR, HOUR, LATER, moment, observation, worker

CLAIM = "claim/gpu.nvidia.com"
NAMED = "claim/c1/gpu.nvidia.com"


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:  # noqa: ARG001 - The open window.
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster)
    offered(cluster)


def shares() -> list[tuple[object, ...]]:
    return list(
        UsageRecord.objects.order_by("pod_uid").values_list(
            "pod_uid", "pod_name", "owner", "resource", "unit_seconds", "split_among"
        )
    )


def test_a_claim_of_one_pod_is_that_pods(cluster: Cluster) -> None:
    ledgered(cluster, "c1", resource=CLAIM, pod_name="training")
    reserved(cluster, "c1", "p1", -600)

    assert collect(observation()).state is WindowState.RECONCILED

    assert shares() == [("p1", "pod-p1", "owner-of-p1", NAMED, 3600, 1)]
    assert exceptions() == []


def test_pods_that_share_a_claim_split_it_and_the_parts_add_up(cluster: Cluster) -> None:
    ledgered(cluster, "c1", resource=CLAIM, units=2)
    reserved(cluster, "c1", "p1", -600)
    reserved(cluster, "c1", "p2", 0)
    reserved(cluster, "c1", "p3", 1800, 1807)

    collect(observation())

    assert [(row[0], row[4], row[5]) for row in shares()] == [
        ("p1", 3598, 3),
        ("p2", 3597, 3),
        ("p3", 5, 3),
    ]


def test_time_nobody_uses_it_stays_with_the_claim(cluster: Cluster) -> None:
    ledgered(cluster, "c1", 0, 3000, resource=CLAIM, pod_name="training", owner="alice")
    reserved(cluster, "c1", "p1", 600, 1200)

    collect(observation())

    assert shares() == [
        ("c1", "training", "alice", NAMED, 2400, 2),
        ("p1", "pod-p1", "owner-of-p1", NAMED, 600, 1),
    ]
    record = UsageRecord.objects.get(pod_uid="p1")
    assert (record.begin_at, record.end_at, record.end_kind) == (moment(600), moment(1200), "exact")


def test_two_claims_of_one_pod_are_two_records(cluster: Cluster) -> None:
    for uid in ("c1", "c2"):
        ledgered(cluster, uid, resource=CLAIM)
        reserved(cluster, uid, "p1", 0)

    collect(observation())

    assert [(row[0], row[3], row[4]) for row in shares()] == [
        ("p1", NAMED, 3600),
        ("p1", "claim/c2/gpu.nvidia.com", 3600),
    ]


def test_a_claims_hour_balances_and_seals_with_its_split(cluster: Cluster) -> None:
    offered(cluster, "node-2", {CLAIM: 1})
    ledgered(cluster, "c1", resource=CLAIM, node="node-2")
    reserved(cluster, "c1", "p1", 0)
    reserved(cluster, "c1", "p2", 0)
    collect(observation())

    capacity = CapacityRecord.objects.get(node="node-2")
    assert (capacity.resource, capacity.billed_unit_seconds, capacity.idle_unit_seconds) == (
        CLAIM,
        3600,
        0,
    )
    window = MeteringWindow.objects.get()
    assert len(seal_window(window_id=window.pk, actor=ACTOR, at=DUE)) == 64
    assert [(row[4], row[5]) for row in shares()] == [(1800, 2), (1800, 2)]


def test_a_claim_of_two_classes_or_allocated_again_is_distinguished(cluster: Cluster) -> None:
    ledgered(cluster, "c1", 0, 1000, resource=CLAIM)
    ledgered(cluster, "c1", 2000, 3000, resource=f"{CLAIM}#2")
    ledgered(cluster, "c1", 0, 1000, resource="claim/mig.nvidia.com")
    reserved(cluster, "c1", "p1", 0, 500)

    assert collect(observation()).state is WindowState.RECONCILED

    assert [(row[0], row[3], row[4]) for row in sorted(shares(), key=str)] == [
        ("c1", "claim/c1/gpu.nvidia.com#2", 1000),
        ("c1", NAMED, 500),
        ("c1", "claim/c1/mig.nvidia.com", 500),
        ("p1", NAMED, 500),
        ("p1", "claim/c1/mig.nvidia.com", 500),
    ]


def test_a_claim_that_is_allocated_again_takes_what_the_node_offers_of_its_class(
    cluster: Cluster,
) -> None:
    offered(cluster, "node-2", {CLAIM: 1})
    ledgered(cluster, "c1", 0, 1000, resource=CLAIM, node="node-2")
    ledgered(cluster, "c1", 2000, 3000, resource=f"{CLAIM}#2", node="node-2")

    assert collect(observation()).state is WindowState.RECONCILED

    capacity = CapacityRecord.objects.filter(node="node-2").values_list(
        "resource", "billed_unit_seconds", "idle_unit_seconds"
    )
    assert list(capacity) == [(CLAIM, 2000, 1600)]


def test_a_part_of_a_claim_is_explained_by_the_claims_allocation(cluster: Cluster) -> None:
    row = ledgered(cluster, "c1", resource=CLAIM)
    reserved(cluster, "c1", "p1", -600)
    collect(observation())

    assert allocation_of(UsageRecord.objects.get(pod_uid="p1")) == row


def test_a_claim_is_billed_until_the_watch_fell_silent_and_that_is_reported(
    cluster: Cluster,
) -> None:
    WatchSpan.objects.update(until_at=moment(1200))
    ledgered(cluster, "c1", resource=CLAIM)
    reserved(cluster, "c1", "p1", -600)

    assert collect_at_last().state is WindowState.RECONCILED

    assert [(row[0], row[4]) for row in shares()] == [("p1", 1200)]
    assert [(kind, subject) for kind, subject, _ in exceptions()] == [
        ("single_source", ""),
        ("uncertain_end", "c1 claim_gpu_nvidia_com"),
    ]


def silent_since(second: int) -> None:
    WatchSpan.objects.update(until_at=moment(second))


def collect_at_last() -> Collection:
    """Meter the one window when it has been waited for long enough."""
    return collect_window(
        claimed=claim(),
        source=worker(observation()).source,
        actor=ACTOR,
        at=DUE,
        policy=replace(DEFAULT_POLICY, coverage_attempts_max=1),
    )


def attempts(count: int) -> list[WindowState]:
    return [collect(observation()).state for _ in range(count)]


def test_a_silent_watch_is_waited_for_where_devices_are_claimed(cluster: Cluster) -> None:
    silent_since(1200)
    ledgered(cluster, "c1", resource=CLAIM)
    reserved(cluster, "c1", "p1", -600)

    assert attempts(2) == [WindowState.OPEN] * 2
    assert (shares(), exceptions()) == ([], [("low_coverage", "", 0)])

    WatchSpan.objects.update(until_at=moment(7200))
    assert collect(observation()).state is WindowState.RECONCILED
    assert [(row[0], row[4]) for row in shares()] == [("p1", 3600)]
    assert exceptions() == []


def test_a_watch_that_lost_a_part_of_the_hour_for_good_is_not_waited_for(cluster: Cluster) -> None:
    silent_since(1200)
    watched(cluster, 2400)
    ledgered(cluster, "c1", resource=CLAIM)
    reserved(cluster, "c1", "p1", -600)

    assert collect(observation()).state is WindowState.RECONCILED
    assert [kind for kind, *_ in exceptions()] == ["single_source"]


def test_an_hour_without_its_claims_says_so_and_is_looked_at_again_when_the_watch_is_back(
    cluster: Cluster,
) -> None:
    silent_since(-1200)
    reserved(cluster, "c0", "p0", -6000, -5000)
    metering = worker(observation())
    collect_at_last()
    window = MeteringWindow.objects.get()
    seal_window(window_id=window.pk, actor=ACTOR, at=DUE)
    reported = MeteringException.objects.get(window=window, kind="single_source")
    assert reported.summary == (
        "This hour rests on Prometheus, because the watch of the Kubernetes API was away for some "
        "of it. What device claims held then may be missing; the hour is looked at again when the "
        "watch is back."
    )
    assert reported.details["device_claims"] == "may be missing"
    assert recheck_due(worker=metering, at=DUE).made == 0

    begin = 3600 + LATER + 60
    watched(cluster, begin, begin, is_resumed=True)
    ledgered(cluster, "c1", 0, 1800, resource=CLAIM)
    reserved(cluster, "c1", "p1", 0)
    done = recheck_due(worker=metering, at=DUE + timedelta(minutes=2))

    assert (done.made, done.done, done.corrections) == (1, 1, 1)
    assert [(row[0], row[4]) for row in shares()] == [("p1", 1800)]
    assert WindowRecheck.objects.get().reason == "watch"
    assert recheck_due(worker=metering, at=DUE + timedelta(minutes=3)).made == 0

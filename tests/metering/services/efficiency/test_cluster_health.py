"""Cluster health by hour: nodes, queue and errors; what nobody knew is None, never 0."""

from datetime import timedelta

import pytest

from metering.models import (
    CapacityRecord,
    ClusterHealth,
    ClusterWatch,
    NodeRecord,
    QueuedPod,
)
from metering.services.efficiency.deriving import write_cluster_health
from tests.support.metering.waste_world import DAY, HOUR, WasteWorld, derive, make_waste_world, seal
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def world() -> WasteWorld:
    """A cluster without hours."""
    return make_waste_world()


def derived(world: WasteWorld) -> ClusterHealth:
    """Return the health of the first hour of the day."""
    seal(world.window(0))
    derive()
    return ClusterHealth.objects.get()


def node(world: WasteWorld, name: str, begin: int, end: int | None, *, is_ready: bool) -> None:
    """Write what a node was between two minutes of the hour."""
    NodeRecord.objects.create(
        cluster=world.cluster,
        node=name,
        node_uid=name,
        is_ready=is_ready,
        begin_at=DAY + timedelta(minutes=begin),
        end_at=None if end is None else DAY + timedelta(minutes=end),
    )


def queued(world: WasteWorld, name: str, created: int, **times: int) -> None:
    """Write a pod's way to a node, in minutes of the hour."""
    QueuedPod.objects.create(
        cluster=world.cluster,
        pod_uid=name,
        namespace="llm",
        pod_name=name,
        created_at=DAY + timedelta(minutes=created),
        **{key: DAY + timedelta(minutes=at) for key, at in times.items()},
    )


def test_nodes_count_by_the_time_they_were_ready(world: WasteWorld) -> None:
    node(world, "node-1", -60, None, is_ready=True)
    node(world, "node-2", -60, 15, is_ready=True)
    node(world, "node-2", 15, 45, is_ready=False)
    node(world, "node-2", 45, None, is_ready=True)
    node(world, "node-3", 30, None, is_ready=True)
    node(world, "gone", -60, 0, is_ready=True)

    found = derived(world)

    assert (found.nodes, found.node_source) == (3, "kubernetes")
    assert (found.expected_seconds, found.ready_seconds) == (9000, 7200)


def test_without_a_watch_nodes_count_by_the_time_they_offered(world: WasteWorld) -> None:
    window = world.window(0)
    for name, seconds in (("node-1", 3600), ("node-2", 1800)):
        CapacityRecord.objects.create(
            window=window,
            window_start=window.start_at,
            cluster=world.cluster,
            node=name,
            resource="nvidia.com/gpu",
            allocatable_units=8,
            capacity_unit_seconds=8 * seconds,
            billed_unit_seconds=0,
            held_unit_seconds=0,
            idle_unit_seconds=8 * seconds,
        )
    seal(window)
    derive()

    found = ClusterHealth.objects.get()
    assert (found.nodes, found.node_source) == (2, "prometheus")
    assert (found.expected_seconds, found.ready_seconds) == (7200, 5400)
    assert (found.queued_pods, found.pending_pods, found.wait_seconds_max) == (None, None, None)


def test_what_no_source_knows_is_none(world: WasteWorld) -> None:
    found = derived(world)

    assert (found.nodes, found.node_source) == (0, "")
    assert (found.expected_seconds, found.ready_seconds, found.queued_pods) == (None, None, None)


def test_the_queue_shows_how_many_waited_and_how_long(world: WasteWorld) -> None:
    ClusterWatch.objects.create(cluster=world.cluster)
    queued(world, "before", -30, bound_at=0)
    queued(world, "quick", 10, bound_at=11)
    queued(world, "slow", -10, bound_at=20)
    queued(world, "gave-up", 0, gone_at=5)
    queued(world, "waits", 50)
    queued(world, "later", 40, bound_at=70)
    queued(world, "next-hour", 60)

    found = derived(world)

    assert (found.queued_pods, found.pending_pods) == (5, 2)
    assert (found.wait_seconds_p50, found.wait_seconds_max) == (600, 1800)


def test_an_empty_queue_is_zero_without_a_wait(world: WasteWorld) -> None:
    ClusterWatch.objects.create(cluster=world.cluster)

    found = derived(world)

    assert (found.queued_pods, found.pending_pods, found.wait_seconds_p50) == (0, 0, None)


def test_errors_count_by_what_they_are_about(world: WasteWorld) -> None:
    world.hold()
    window = world.window(0)
    world.use(window, world.held[0])
    world.measure(window, world.held[0])
    for second, (kind, code, severity) in enumerate(
        [
            ("ecc", "double_bit", "fail"),
            ("row_remap", "uncorrectable_rows", "warn"),
            ("xid", "63", "warn"),
            ("xid", "79", "fail"),
            ("xid", "31", "application"),
        ]
    ):
        world.fail(window, second, kind=kind, code=code, severity=severity)
    seal(window)
    derive()

    found = ClusterHealth.objects.get()
    assert (found.memory_errors, found.failures, found.devices) == (3, 2, 1)


def test_an_hour_is_reported_once_and_only_when_sealed(world: WasteWorld) -> None:
    window = world.window(0)

    assert not write_cluster_health(window_id=window.pk, at=DAY + HOUR)
    seal(window)
    assert write_cluster_health(window_id=window.pk, at=DAY + HOUR)
    assert not write_cluster_health(window_id=window.pk, at=DAY + 2 * HOUR)
    assert ClusterHealth.objects.get().created_at == DAY + HOUR

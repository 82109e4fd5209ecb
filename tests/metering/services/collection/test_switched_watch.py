"""A cluster's watch is switched on or off: sealed hours stay as they are, and live use is right."""

import pytest

from metering.models import MeteringException, MeteringWindow, PodAllocation
from metering.selectors.allocations.held import held_units
from metering.services.catalogue import ensure_catalogue
from tenants.models import Cluster, Project
from tests.support.metering.allocations.watched import ledgered, offered, watched
from tests.support.metering.collecting import collect, exceptions, usage
from tests.support.metering.rechecking import corrections, recheck, seal_hour, sums
from tests.support.metering.seen import ACTOR, HOUR, ended_pod, moment, observation, pod

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:  # noqa: ARG001 - The tenant's binding.
    ensure_catalogue(actor=ACTOR, at=HOUR)


def switch_off() -> None:
    Cluster.objects.update(is_watched=False)


def end_of(uid: str) -> tuple[object, str, int]:
    row = PodAllocation.objects.get(pod_uid=uid)
    return row.end_at, row.end_kind, row.end_slack_seconds


def test_a_sealed_hour_is_looked_at_as_it_was_sealed_though_the_watch_is_off(
    cluster: Cluster,
) -> None:
    watched(cluster, until=10 * 3600)
    offered(cluster)
    ledgered(cluster, "a", end=1800)
    ledgered(cluster, "b")
    metering = seal_hour(pod("a"), ended_pod("b", -600, 1800), ended_pod("g", 0, 1800))
    before = sums()
    switch_off()

    recheck(metering)

    assert MeteringWindow.objects.get(start_at=HOUR).is_watched
    assert (before, sums(), corrections()) == ({"a": 1800, "b": 1800}, before, [])
    assert not MeteringException.objects.exclude(state="open").exists()


def test_a_sealed_hour_is_looked_at_as_it_was_sealed_though_there_is_a_watch_now(
    cluster: Cluster,
) -> None:
    metering = seal_hour(pod("a"))
    watched(cluster, until=10 * 3600)
    offered(cluster)
    ledgered(cluster, "b")

    recheck(metering)

    assert not MeteringWindow.objects.get(start_at=HOUR).is_watched
    assert (sums(), corrections()) == ({"a": 3600}, [])


def test_prometheus_ends_what_a_watch_that_is_off_had_begun(cluster: Cluster) -> None:
    watched(cluster, until=-600)
    ledgered(cluster, "a", -1200)
    switch_off()

    seal_hour(ended_pod("a", -1200, 1800))

    assert end_of("a") == (moment(1800), "exact", 0)
    assert held_units() == ()


def test_what_nobody_sees_any_more_ended_after_the_last_heartbeat_of_the_watch(
    cluster: Cluster,
) -> None:
    watched(cluster, until=-600)
    ledgered(cluster, "a", -1200)
    ledgered(cluster, "c", -1200, resource="claim/gpu.nvidia.com")
    switch_off()

    seal_hour()

    assert end_of("a") == end_of("c") == (moment(-600), "vanished_in_gap", 600)
    assert held_units() == ()


def test_what_the_watch_saw_into_the_hour_is_left_to_the_next_one(cluster: Cluster) -> None:
    watched(cluster, until=600)
    ledgered(cluster, "a", -1200)
    switch_off()

    seal_hour()

    assert end_of("a") == (None, "open", 0)


def test_while_there_is_a_watch_prometheus_ends_nothing_it_reported(cluster: Cluster) -> None:
    watched(cluster, until=10 * 3600)
    ledgered(cluster, "a", -1200)

    seal_hour(ended_pod("a", -1200, 1800))

    assert end_of("a") == (None, "open", 0)


def test_a_cluster_watched_from_mid_hour_has_nothing_to_dispute(cluster: Cluster) -> None:
    watched(cluster, begin=1800)
    ledgered(cluster, "a", -600)

    collect(observation(pod("a"), ended_pod("b", 0, 1700)))

    assert [(row[0], row[6]) for row in usage()] == [("a", 3600), ("b", 1700)]
    assert [kind for kind, _, held in exceptions() if held] == []

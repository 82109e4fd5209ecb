"""One process leads a cluster's watch; what any other still has in flight is refused."""

from collections.abc import Callable

import pytest

from metering.domain.errors import LeaseLostError
from metering.models import ClusterWatch, PodAllocation, WatchCursor, WatchSpan
from metering.services.allocations.leases import Lease, release_lease, renew_lease, take_lease
from tenants.models import AuditEntry, Cluster
from tests.support.metering.allocations.states import (
    LEASE_SECONDS,
    Watching,
    event,
    lead,
    reported_pod,
)
from tests.support.metering.seen import ACTOR, HOUR


def take(cluster: Cluster, holder: str) -> Lease | None:
    return take_lease(
        cluster_id=cluster.id, holder=holder, lease_seconds=LEASE_SECONDS, actor=ACTOR, at=HOUR
    )


def let_run_out() -> None:
    ClusterWatch.objects.update(lease_until=HOUR.replace(year=2020))


def leaders() -> list[tuple[str, str, int]]:
    entries = AuditEntry.objects.filter(action="metering:watch:lead").order_by("id")
    return [(e.facts["former"], e.facts["holder"], e.facts["fence"]) for e in entries]


def test_the_first_to_come_leads_and_the_second_waits(cluster: Cluster) -> None:
    first, second = take(cluster, "a"), take(cluster, "b")

    assert first == Lease(cluster_id=cluster.id, holder="a", fence=1)
    assert second is None
    assert leaders() == [("", "a", 1)]


def test_a_lease_that_ran_out_is_taken_over_with_a_higher_fence(cluster: Cluster) -> None:
    first = take(cluster, "a")
    let_run_out()
    second = take(cluster, "b")

    assert first is not None
    assert second == Lease(cluster_id=cluster.id, holder="b", fence=2)
    assert not renew_lease(lease=first, lease_seconds=LEASE_SECONDS)
    assert renew_lease(lease=second, lease_seconds=LEASE_SECONDS)
    assert leaders() == [("", "a", 1), ("a", "b", 2)]


def test_the_same_holder_coming_back_raises_the_fence_and_is_no_news(cluster: Cluster) -> None:
    first, again = take(cluster, "a"), take(cluster, "a")

    assert first is not None
    assert again is not None
    assert again.fence == 2
    assert not renew_lease(lease=first, lease_seconds=LEASE_SECONDS)
    assert leaders() == [("", "a", 1)]


def test_a_lease_is_not_renewed_after_it_ran_out(cluster: Cluster) -> None:
    lease = take(cluster, "a")
    let_run_out()

    assert lease is not None
    assert not renew_lease(lease=lease, lease_seconds=LEASE_SECONDS)


def test_a_released_lease_lets_another_lead_at_once(cluster: Cluster) -> None:
    lease = take(cluster, "a")
    assert lease is not None
    release_lease(lease=lease)

    assert not renew_lease(lease=lease, lease_seconds=LEASE_SECONDS)
    assert take(cluster, "b") == Lease(cluster_id=cluster.id, holder="b", fence=2)


def test_releasing_a_lost_lease_leaves_the_new_leader_alone(cluster: Cluster) -> None:
    former = take(cluster, "a")
    let_run_out()
    leader = take(cluster, "b")
    assert former is not None
    assert leader is not None

    release_lease(lease=former)

    assert renew_lease(lease=leader, lease_seconds=LEASE_SECONDS)


WRITES: list[Callable[[Watching], object]] = [
    lambda watching: watching.list(10, reported_pod()),
    lambda watching: watching.tell(event(reported_pod(), 10)),
    lambda watching: watching.beat(10),
]


@pytest.mark.parametrize("write", WRITES, ids=["list", "events", "beat"])
def test_a_former_leader_writes_nothing(
    cluster: Cluster, watching: Watching, write: Callable[[Watching], object]
) -> None:
    before = list(WatchCursor.objects.values_list("kind", "resource_version"))
    let_run_out()
    lead(cluster.id, "another")

    with pytest.raises(LeaseLostError) as refused:
        write(watching)

    assert refused.value.code == "metering_lease_lost"
    assert PodAllocation.objects.count() == 0
    assert list(WatchCursor.objects.values_list("kind", "resource_version")) == before
    assert WatchSpan.objects.get().until_at == HOUR


@pytest.mark.parametrize("write", WRITES, ids=["list", "events", "beat"])
def test_a_leader_that_came_back_under_its_own_name_refuses_its_former_self(
    cluster: Cluster, watching: Watching, write: Callable[[Watching], object]
) -> None:
    back = lead(cluster.id, watching.lease.holder)

    with pytest.raises(LeaseLostError):
        write(watching)
    assert PodAllocation.objects.count() == 0

    write(back)


def test_a_leader_whose_lease_ran_out_writes_nothing_even_if_nobody_took_it(
    watching: Watching,
) -> None:
    let_run_out()

    with pytest.raises(LeaseLostError):
        watching.tell(event(reported_pod(), 10))

    assert PodAllocation.objects.count() == 0


def test_a_cluster_nobody_ever_led_is_written_by_nobody(cluster: Cluster) -> None:
    stranger = Watching(Lease(cluster_id=cluster.id, holder="x", fence=0))

    with pytest.raises(LeaseLostError):
        stranger.beat(0)

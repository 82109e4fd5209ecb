"""Leaders at once: one takes the lease; a write overtaken while it waited is refused."""

import threading

import psycopg
import pytest
from django.db import connections

from metering.domain.errors import LeaseLostError
from metering.models import ClusterWatch, PodAllocation
from metering.services.allocations.leases import Lease, take_lease
from tests.metering.services.collection.test_concurrency import at_once
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.allocations.states import LEASE_SECONDS, event, lead, reported_pod
from tests.support.metering.seen import ACTOR, HOUR

_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
LOOKS_MAX = 100_000


@pytest.mark.usefixtures("committed_db")
def test_of_many_that_come_at_once_one_leads() -> None:
    cluster = make_cluster(metered_from=HOUR, is_watched=True)
    taken: list[Lease | None] = []

    def come(holder: str) -> None:
        taken.append(
            take_lease(
                cluster_id=cluster.id,
                holder=holder,
                lease_seconds=LEASE_SECONDS,
                actor=ACTOR,
                at=HOUR,
            )
        )

    at_once(*(lambda name=f"w{index}": come(name) for index in range(5)))

    [leader] = [lease for lease in taken if lease is not None]
    assert len(taken) == 5
    assert leader.fence == 1
    assert ClusterWatch.objects.get().lease_owner == leader.holder


def test_a_write_that_was_overtaken_while_it_waited_is_refused(superuser_url: str) -> None:
    cluster = make_cluster(metered_from=HOUR, is_watched=True)
    bind(cluster, "team-nlp", make_project(make_organization()))
    former = lead(cluster.id)
    refusals: list[LeaseLostError] = []

    def write() -> None:
        try:
            former.tell(event(reported_pod(), 5))
        except LeaseLostError as error:
            refusals.append(error)
        finally:
            connections.close_all()

    with psycopg.connect(superuser_url) as successor:
        # The successor has the row; the former leader's write comes to it and waits.
        successor.execute("UPDATE metering_clusterwatch SET fence = fence + 1, lease_owner = 'b'")
        writing = threading.Thread(target=write)
        writing.start()
        with psycopg.connect(superuser_url, autocommit=True) as looking:
            assert any(_waits(looking) for _ in range(LOOKS_MAX))
        successor.commit()
        writing.join(timeout=30)

    assert [error.code for error in refusals] == ["metering_lease_lost"]
    assert PodAllocation.objects.count() == 0


def _waits(looking: psycopg.Connection[tuple[int]]) -> bool:
    row = looking.execute(_WAITING).fetchone()
    return bool(row and row[0])

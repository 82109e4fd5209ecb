"""The ticks of live use: they pass the settings on, and `tick` does the work of all."""

from datetime import UTC, datetime, timedelta

import pytest

from quotas.models import QuotaCounter, QuotaLimit, Reservation
from quotas.services.limits.changes import open_counter
from quotas.tasks import look_after_live_use, tick_live_use, tick_repair
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import ask, counted
from tests.support.quotas.builders import hold, make_limit
from tests.support.shared_rows import shared_rows


@shared_rows
def cluster(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm)
    return cluster


@shared_rows
def limit(cast: Cast) -> QuotaLimit:
    limit = make_limit(cast.acme)
    open_counter(limit=limit, at=AT)
    return limit


def test_a_tick_lets_reservations_follow_their_pods(cluster: Cluster, limit: QuotaLimit) -> None:
    hold(cluster, "llm", units=2)
    ask(cluster, at=datetime.now(tz=UTC) - timedelta(hours=1))

    tick_live_use()

    assert counted(limit) == (2, 0, 0, 0)


@pytest.mark.usefixtures("limit")
def test_a_tick_repairs_counters_and_reads_the_month(cluster: Cluster) -> None:
    QuotaLimit.objects.update(monthly_unit_hours=1)
    ask(cluster)
    QuotaCounter.objects.update(reserved_units=5)

    tick_repair()

    counter = QuotaCounter.objects.get()
    assert (counter.reserved_units, counter.drift_units) == (1, 4)
    assert counter.month == datetime.now(tz=UTC).date().replace(day=1)


def test_without_celery_one_call_does_it_all(cluster: Cluster, limit: QuotaLimit) -> None:
    hold(cluster, "llm")

    assert (look_after_live_use(AT), look_after_live_use(AT)) == (1, 0)
    assert counted(limit) == (1, 0, 0, 0)
    assert Reservation.objects.get().origin == "found"

"""What a month has used stands on the counters of limits with an allowance."""

from datetime import timedelta

import pytest
from django.db import connection

from metering.models import MeteringWindow, PodAllocation, UsageRecord
from metering.services.catalogue import ensure_catalogue
from quotas.models import QuotaLimit
from quotas.services.admission.live_use import refresh_allowances
from quotas.services.limits.changes import open_counter
from tenants.domain.actors import system_actor
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.metering.usage_rows import write_record
from tests.support.quotas.admitting import ask
from tests.support.quotas.builders import hold, make_limit
from tests.support.shared_rows import shared_rows

HOUR = timedelta(hours=1)
ACTOR = system_actor("tests")


@shared_rows
def cluster(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm, default_owner=cast.carol)
    return cluster


def make_allowance(limit: QuotaLimit, hours: int = 10, **fields: object) -> QuotaLimit:
    QuotaLimit.objects.filter(pk=limit.pk).update(monthly_unit_hours=hours, **fields)
    open_counter(limit=limit, at=AT)
    return limit


def used(limit: QuotaLimit) -> tuple[str, int]:
    counter = QuotaLimit.objects.get(pk=limit.pk).counter
    return str(counter.month), counter.month_unit_seconds


def record_use(cast: Cast, allocation: PodAllocation, *, hour: int, state: str) -> None:
    """Write the use of a whole hour of the day, in a window of a state."""
    start_at = AT.replace(hour=hour)
    ensure_catalogue(actor=ACTOR, at=AT)
    window = MeteringWindow.objects.create(
        cluster=allocation.cluster, start_at=start_at, not_before=start_at
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions(%s, 1)", [start_at])
    write_record(
        UsageRecord(
            window=window,
            window_start=start_at,
            cluster=allocation.cluster,
            organization=cast.acme,
            project=cast.llm,
            owner="carol",
            namespace="llm",
            pod_name=allocation.pod_name,
            pod_uid=allocation.pod_uid,
            resource=allocation.resource,
            node="node-1",
            size=allocation.size,
            price_group=allocation.price_group,
            sharing_mode="whole",
            share_numerator=1,
            share_denominator=1,
            units=allocation.units,
            begin_at=start_at,
            end_at=start_at + HOUR,
            seconds=3_600,
            unit_seconds=3_600 * allocation.units,
            end_kind="open",
            catalogue_version=1,
        )
    )
    MeteringWindow.objects.filter(pk=window.pk).update(state=state)


def test_what_pods_hold_counts_before_any_window_shows(cast: Cast, cluster: Cluster) -> None:
    limit = make_allowance(make_limit(cast.acme))
    carols = make_allowance(make_limit(cast.acme, cast.llm, cast.carol))
    bobs = make_allowance(make_limit(cast.acme, cast.llm, cast.bob))
    hold(cluster, "llm", units=2)
    hold(cluster, "llm", owner="bob", end_at=AT.replace(hour=2))
    hold(cluster, "llm", size="small")

    written = refresh_allowances(actor=ACTOR, at=AT)

    assert written == 3
    assert used(limit) == ("2026-11-01", (2 * 8 + 1) * 3_600)
    assert used(carols) == ("2026-11-01", 2 * 8 * 3_600)
    assert used(bobs) == ("2026-11-01", 3_600)


def test_recorded_hours_count_once(cast: Cast, cluster: Cluster) -> None:
    limit = make_allowance(make_limit(cast.acme))
    other = make_allowance(make_limit(cast.umbrella))
    allocation = hold(cluster, "llm", units=2)
    record_use(cast, allocation, hour=7, state="collected")

    refresh_allowances(actor=ACTOR, at=AT)

    recorded, since = 2 * 3_600, 2 * 3_600
    assert used(limit) == ("2026-11-01", recorded + since)
    assert used(other) == ("2026-11-01", 0)


def test_a_window_that_is_not_collected_is_reported_by_its_pods(
    cast: Cast, cluster: Cluster
) -> None:
    limit = make_allowance(make_limit(cast.acme))
    record_use(cast, hold(cluster, "llm"), hour=7, state="open")

    refresh_allowances(actor=ACTOR, at=AT)

    assert used(limit) == ("2026-11-01", 8 * 3_600)


def test_only_what_is_of_the_model_counts_for_its_limit(cast: Cast, cluster: Cluster) -> None:
    limit = make_allowance(make_limit(cast.acme), model_group="A100")
    hold(cluster, "llm")

    refresh_allowances(actor=ACTOR, at=AT)

    assert used(limit) == ("2026-11-01", 0)


def test_a_used_up_allowance_refuses_the_next_pod(cast: Cast, cluster: Cluster) -> None:
    make_allowance(make_limit(cast.acme, units=99), hours=8)
    hold(cluster, "llm")

    before = ask(cluster, uid="pod-1").code
    refresh_allowances(actor=ACTOR, at=AT)
    after = ask(cluster, uid="pod-2").code

    assert (before, after) == ("allowed", "allowance_used")


@pytest.mark.usefixtures("cluster")
def test_without_an_allowance_nothing_is_read(
    cast: Cast, django_assert_num_queries: object
) -> None:
    make_limit(cast.acme)

    with django_assert_num_queries(3):  # type: ignore[operator] # pytest-django's fixture.
        assert refresh_allowances(actor=ACTOR, at=AT) == 0

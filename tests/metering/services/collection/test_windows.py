"""Windows come from the clock and the clusters, and each claim is one worker's."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from psycopg.errors import LockNotAvailable

from metering.domain.collection.windows import MeteringPolicy
from metering.domain.corrections.exceptions import REMEDIES, ExceptionKind
from metering.models import MeteringException, MeteringWindow
from metering.protocols import ClusterTarget
from metering.services.collection import windows
from metering.services.collection.windows import claim_windows, ensure_partitions, open_due_windows
from tenants.models import Cluster
from tenants.services.clusters import close_cluster
from tests.support.builders import make_cluster
from tests.support.metering.seen import ACTOR, HOUR, LATER, moment

pytestmark = pytest.mark.django_db

DUE = moment(3600 + LATER)


def starts() -> list[tuple[str, int]]:
    rows = MeteringWindow.objects.order_by("cluster__slug", "start_at")
    return [
        (slug, int((start - HOUR) / timedelta(hours=1)))
        for slug, start in rows.values_list("cluster__slug", "start_at")
    ]


def refuse_partitions(
    execute: Callable[..., object], sql: str, params: object, *rest: object
) -> object:
    """Hold the lock that a month's partition takes, as a backup does."""
    if "metering_ensure_partitions" in sql:
        raise OperationalError("canceling statement due to lock timeout") from LockNotAvailable()
    return execute(sql, params, *rest)


# ---------------------------------------------------------------- opening


def test_every_hour_that_is_due_is_opened_once() -> None:
    make_cluster(metered_from=HOUR)
    at = DUE + timedelta(hours=2)

    assert open_due_windows(at=at) == 3
    assert open_due_windows(at=at) == 0
    assert starts() == [("hopper", 0), ("hopper", 1), ("hopper", 2)]
    assert MeteringWindow.objects.earliest("start_at").not_before == DUE


def test_an_hour_is_not_opened_before_it_is_due() -> None:
    make_cluster(metered_from=HOUR)

    assert open_due_windows(at=DUE - timedelta(seconds=1)) == 0


def test_a_slowly_scraped_cluster_is_due_four_scrapes_after_the_hour() -> None:
    make_cluster(metered_from=HOUR, scrape_interval_seconds=300)

    assert open_due_windows(at=moment(3600 + 1199)) == 0
    assert open_due_windows(at=moment(3600 + 1200)) == 1


def test_the_first_window_is_the_first_whole_hour() -> None:
    make_cluster(metered_from=moment(1))

    open_due_windows(at=DUE + timedelta(hours=1))

    assert starts() == [("hopper", 1)]


@pytest.mark.parametrize(
    ("closed_at", "hours"),
    [(HOUR, []), (moment(1), [0]), (moment(3600), [0]), (moment(3601), [0, 1])],
)
def test_a_closed_cluster_is_metered_for_the_hours_begun_before(
    closed_at: datetime, hours: list[int]
) -> None:
    make_cluster(metered_from=HOUR, state="closed", closed_at=closed_at)

    assert open_due_windows(at=DUE + timedelta(days=9)) == len(hours)
    assert open_due_windows(at=DUE + timedelta(days=10)) == 0
    assert starts() == [("hopper", hour) for hour in hours]


def test_closing_a_cluster_strands_no_hour_that_is_not_due_yet() -> None:
    cluster = make_cluster(metered_from=HOUR)
    close_cluster(cluster=cluster, actor=ACTOR, at=moment(3700))

    assert open_due_windows(at=DUE) == 1
    assert open_due_windows(at=DUE + timedelta(hours=1)) == 1
    assert open_due_windows(at=DUE + timedelta(hours=9)) == 0
    assert starts() == [("hopper", 0), ("hopper", 1)]


def test_metering_from_an_earlier_hour_fills_in_what_is_missing() -> None:
    cluster = make_cluster(metered_from=HOUR)
    open_due_windows(at=DUE)
    cluster.metered_from = HOUR - timedelta(hours=2)
    cluster.save(update_fields=["metered_from"])

    assert open_due_windows(at=DUE) == 2
    assert starts() == [("hopper", -2), ("hopper", -1), ("hopper", 0)]


def test_opening_makes_the_months_partitions() -> None:
    make_cluster(metered_from=HOUR.replace(year=2024, month=11))

    assert open_due_windows(at=DUE.replace(year=2025, month=1)) > 1400

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'metering_usagerecord'::regclass"
            " AND inhrelid::regclass::text BETWEEN 'metering_usagerecord_2024_11'"
            " AND 'metering_usagerecord_2025_01'"
        )
        assert cursor.fetchone() == (3,)


def test_what_one_call_does_not_open_the_next_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "OPENED_MAX", 4)
    make_cluster(metered_from=HOUR)
    assert open_due_windows(at=DUE) == 1
    Cluster.objects.update(metered_from=HOUR - timedelta(hours=6))

    assert [open_due_windows(at=DUE) for _ in range(3)] == [4, 2, 0]

    assert starts() == [("hopper", hour) for hour in range(-6, 1)]


def test_a_month_whose_partition_cannot_be_made_leaves_out_only_its_own_hours() -> None:
    make_cluster("first", metered_from=HOUR.replace(year=2024, month=11))
    make_cluster("second", metered_from=HOUR)
    ensure_partitions(from_month=HOUR, months=1)

    with connection.execute_wrapper(refuse_partitions):
        opened = open_due_windows(at=DUE)

    found = MeteringWindow.objects.order_by("start_at")
    assert opened == found.count() > 0
    assert found.filter(cluster__slug="second").count() == 1
    assert found[0].start_at == HOUR.replace(day=1, hour=0)
    assert open_due_windows(at=DUE) > 0
    assert found[0].start_at == HOUR.replace(year=2024, month=11)


def test_one_statement_opens_the_windows_of_any_number_of_clusters() -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            open_due_windows(at=DUE)
        return len(queries)

    make_cluster("first", metered_from=HOUR)
    # The first that come to a month also ask for its tables.
    open_due_windows(at=DUE)
    make_cluster("second", metered_from=HOUR)
    few = count()
    for index in range(20):
        make_cluster(f"more-{index}", metered_from=HOUR)

    assert count() == few
    assert len(starts()) == 22


# ---------------------------------------------------------------- claiming


def test_a_claim_takes_the_oldest_windows_first_and_raises_the_fence() -> None:
    make_cluster("b", metered_from=HOUR)
    make_cluster("a", metered_from=HOUR + timedelta(hours=1))
    at = DUE + timedelta(hours=2)
    open_due_windows(at=at)

    claimed = claim_windows(worker="worker-1", limit=3, at=at)

    assert [c.start_at for c in claimed] == [HOUR, *[HOUR + timedelta(hours=1)] * 2]
    assert {(c.fence, c.attempt, c.failures) for c in claimed} == {(1, 1, 0)}
    rows = MeteringWindow.objects.filter(state="collecting")
    assert set(rows.values_list("lease_owner", flat=True)) == {"worker-1"}


def test_a_claim_brings_what_a_source_needs_to_know() -> None:
    make_cluster(
        metered_from=HOUR,
        user_label="billing.example.com/user",
        label_aliases={"hostname": ["hostname", "Hostname"]},
        prometheus_credential_reference="file:hopper/mimir",
        prometheus_scope_org_id="research",
    )
    open_due_windows(at=DUE)

    [claimed] = claim_windows(worker="w", limit=1, at=DUE)

    assert claimed.end_at == moment(3600)
    assert claimed.target == ClusterTarget(
        slug="hopper",
        prometheus_url="http://127.0.0.1:9/",
        prometheus_credential_reference="file:hopper/mimir",
        prometheus_scope_org_id="research",
        scrape_interval_seconds=30,
        user_label="billing_example_com_user",
        label_aliases={"hostname": ("hostname", "Hostname")},
    )


def test_a_claimed_window_is_not_claimed_again_while_its_lease_lasts() -> None:
    make_cluster(metered_from=HOUR)
    open_due_windows(at=DUE)

    assert len(claim_windows(worker="one", limit=9, at=DUE)) == 1
    assert claim_windows(worker="two", limit=9, at=DUE) == []


def test_a_dead_workers_window_is_taken_over_with_a_higher_fence() -> None:
    make_cluster(metered_from=HOUR)
    open_due_windows(at=DUE)
    claim_windows(worker="dead", limit=1, at=DUE, policy=MeteringPolicy(lease_seconds=-1))

    [claimed] = claim_windows(worker="alive", limit=1, at=DUE)

    assert (claimed.fence, claimed.attempt) == (2, 2)


def test_a_window_that_kills_every_worker_is_quarantined() -> None:
    make_cluster(metered_from=HOUR)
    open_due_windows(at=DUE)
    expired = MeteringPolicy(lease_seconds=-1)
    for _ in range(8):
        assert len(claim_windows(worker="w", limit=1, at=DUE, policy=expired)) == 1

    assert claim_windows(worker="w", limit=1, at=DUE, policy=expired) == []

    window = MeteringWindow.objects.get()
    assert (window.state, window.lease_until, window.lease_owner) == ("quarantined", None, "")
    assert window.last_error == "No worker that claimed this window ever reported back."
    found = MeteringException.objects.get()
    assert (found.window, found.window_start, found.kind, found.subject, found.state) == (
        window,
        HOUR,
        "quarantined",
        "",
        "open",
    )
    assert (found.summary, found.details) == (window.last_error, {"claims": 8})
    assert found.remedy == REMEDIES[ExceptionKind.QUARANTINED]
    assert found.created_at == DUE
    assert claim_windows(worker="w", limit=1, at=DUE, policy=expired) == []


def test_a_claim_can_be_narrowed_to_a_cluster() -> None:
    first, second = make_cluster("a", metered_from=HOUR), make_cluster("b", metered_from=HOUR)
    open_due_windows(at=DUE)

    [of_second] = claim_windows(worker="w", limit=9, clusters=[second.id], at=DUE)
    assert of_second.cluster_id == second.id
    [of_first] = claim_windows(worker="w", limit=9, at=DUE)
    assert of_first.cluster_id == first.id


def test_a_window_is_not_claimed_before_its_retry_is_due() -> None:
    make_cluster(metered_from=HOUR)
    open_due_windows(at=DUE)
    MeteringWindow.objects.update(not_before=DUE + timedelta(seconds=1))

    assert claim_windows(worker="w", limit=1, at=DUE) == []

"""Every answer of the corpus in a whole collection: asked again, reported, never half-written.

The corpus is that of the adapter's own tests; here it meets the database.
"""

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection

from metering.adapters.prometheus import PrometheusUsageSource
from metering.domain.collection.windows import DEFAULT_POLICY
from metering.models import MeteringException, MeteringWindow, UsageRecord
from metering.services.collection.collecting import Collection, collect_window
from metering.services.collection.sweeping import CollectionSweep, Worker, meter_due
from metering.services.collection.windows import claim_windows, open_due_windows
from metering.services.devices.collection import DeviceSweep, collect_due_devices
from tenants.models import Cluster, NamespaceBinding
from tests.metering.adapters.prometheus.test_broken_answers import BROKEN
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering import prometheus as canned
from tests.support.metering.prometheus import Reply, World, serving, sound_world
from tests.support.metering.seen import ACTOR

pytestmark = pytest.mark.django_db
DUE = canned.HOUR + timedelta(hours=1, minutes=20)
TOLD_ONLY = {"metering_meteringwindow", "metering_meteringexception"}
"""What a refused answer may leave behind: the window, tried again, and the reason."""


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[World, str]]:
    """Serve one world for all of the corpus; each test puts its own answers into it."""
    world = World()
    with serving(world) as url:
        yield world, url


@pytest.fixture
def world(server: tuple[World, str]) -> World:
    """Return the world that the one cluster's Prometheus shows; a namespace of it is bound."""
    found, url = server
    cluster = make_cluster(
        prometheus_url=url, scrape_interval_seconds=canned.SCRAPE, metered_from=canned.HOUR
    )
    bind(cluster, "team-nlp", make_project(make_organization()))
    NamespaceBinding.objects.update(valid=(canned.HOUR - timedelta(days=30), None))
    Cluster.objects.filter(pk=cluster.pk).update(user_label="user")
    return found


def become(world: World, other: World) -> None:
    """Let the server answer as another world from now on."""
    vars(world).update(vars(other))


def collect(at: datetime) -> Collection:
    """Meter the one window."""
    open_due_windows(at=at)
    MeteringWindow.objects.update(not_before=at)
    (claimed,) = claim_windows(worker="w", limit=1, at=at)
    return collect_window(claimed=claimed, source=PrometheusUsageSource(), actor=ACTOR, at=at)


def written() -> dict[str, int]:
    """Return how many rows each table of metering holds, those with none left out."""
    tables = [name for name in connection.introspection.table_names() if "metering_" in name]
    with connection.cursor() as cursor:
        counted = {}
        for table in tables:
            cursor.execute(f'SELECT count(*) FROM "{table}"')  # noqa: S608 - A table of ours.
            counted[table] = cursor.fetchone()[0]
    return {table: rows for table, rows in counted.items() if rows}


@pytest.mark.parametrize(("broken", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_answer_is_asked_for_again_and_leaves_only_its_reason(
    world: World, broken: Callable[[], World], reason: str
) -> None:
    become(world, broken())
    before = written().keys()

    collection = collect(DUE)

    assert (collection.state, collection.records) == ("open", 0)
    assert written().keys() - before <= TOLD_ONLY
    window = MeteringWindow.objects.get()
    assert (window.state, window.failures, window.record_count) == ("open", 1, 0)
    assert (window.coverage, window.evidence, window.lease_owner) == (None, [], "")
    assert "secret" not in window.last_error
    reported = MeteringException.objects.get()
    assert (reported.kind, reported.state, reported.details) == (
        "source_unavailable",
        "open",
        {"reason": reason},
    )


def test_the_corpus_has_more_than_thirty_ways_to_be_broken() -> None:
    assert len(BROKEN) >= 30
    assert len({reason for _, reason in BROKEN.values()}) >= 14


def test_the_same_window_is_written_once_the_answer_is_whole(world: World) -> None:
    become(world, BROKEN["warnings"][0]())
    collect(DUE)
    become(world, sound_world())

    collection = collect(DUE + timedelta(minutes=1))

    assert (collection.state, collection.records, collection.unit_seconds) == (
        "reconciled",
        1,
        3600,
    )
    assert MeteringException.objects.get().state == "resolved"


@pytest.mark.parametrize("query", ["exporters", "devices", "figures", "health"])
def test_an_hour_whose_device_queries_are_refused_is_billed_and_its_devices_follow(
    world: World, query: str
) -> None:
    become(world, sound_world())
    setattr(world, query, Reply(b"query processing would load too many samples", 422))
    worker = Worker(name="w", source=PrometheusUsageSource(), actor=ACTOR)

    assert meter_due(worker=worker, at=DUE) == CollectionSweep(opened=1, sealed=1)
    assert collect_due_devices(worker=worker, at=DUE) == DeviceSweep(retried=1)

    window = MeteringWindow.objects.select_related("devices").get()
    assert (window.state, window.devices.state, window.devices.failures) == ("sealed", "due", 1)
    assert UsageRecord.objects.get().unit_seconds == 3600
    assert not MeteringException.objects.exists()

    become(world, sound_world())
    later = window.devices.not_before
    assert collect_due_devices(worker=worker, at=later) == DeviceSweep(sealed=1)

    record = UsageRecord.objects.select_related("activity").get()
    assert record.activity is not None
    assert record.activity.busy_ratio == Decimal("0.98")


@pytest.mark.soak
def test_a_source_that_stays_too_slow_is_never_quarantined(world: World) -> None:
    become(world, sound_world())
    world.facts = Reply(b"", silence_seconds=2)
    source = PrometheusUsageSource(seconds_max=1.2)
    attempts = DEFAULT_POLICY.attempts_max + 2
    open_due_windows(at=DUE)

    for attempt in range(attempts):
        at = DUE + attempt * timedelta(minutes=20)
        MeteringWindow.objects.filter(start_at=canned.HOUR).update(not_before=at)
        began = time.monotonic()
        (claimed,) = claim_windows(worker="w", limit=1, at=at)
        collect_window(claimed=claimed, source=source, actor=ACTOR, at=at)
        assert time.monotonic() - began < DEFAULT_POLICY.lease_seconds / 10

    window = MeteringWindow.objects.get(start_at=canned.HOUR)
    assert (window.state, window.attempt, window.failures) == ("open", 0, attempts)
    assert "too long" in window.last_error or "in time" in window.last_error

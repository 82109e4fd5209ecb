"""A round beside another worker: what that one is at is left to it, and nobody waits for long."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO

import psycopg
import pytest
from django.core.management import call_command
from django.db import OperationalError, connection
from django.test import override_settings
from structlog.testing import capture_logs

from metering import tasks
from metering.domain.collection.windows import window_containing
from metering.models import ClusterHealth, MeteringWindow, WindowRecheck
from metering.selectors import locks
from metering.services.collection.sweeping import meter_due
from metering.services.collection.windows import (
    ensure_each_month,
    ensure_partitions,
    open_due_windows,
)
from metering.services.corrections.rechecks import make_due_rechecks
from metering.services.efficiency.deriving import Derived, derive_windows
from tenants.models import SweepCrash
from tenants.selectors.clock import crashes_by_event
from tests.metering.test_tasks import EmptySource
from tests.support.builders import make_cluster
from tests.support.metering.seen import HOUR, LATER, moment, worker
from tests.support.metering.waste_world import DAY, TICK, WasteWorld, make_waste_world, seal

DUE = moment(3600 + LATER)


@contextmanager
def another(url: str, statement: str, *given: object) -> Iterator[psycopg.Connection]:
    """Let another process be in the midst of a transaction that has made a statement."""
    with psycopg.connect(url) as other:
        other.execute(statement, given)
        yield other
        other.rollback()


@contextmanager
def another_tick(url: str, name: str) -> Iterator[None]:
    statement = "SELECT pg_advisory_xact_lock(%s, hashtext(%s))"
    with another(url, statement, locks.TICK_LOCK_CLASS, name):
        yield


def sealed_hours(count: int) -> WasteWorld:
    """Return a world with so many sealed hours from which nothing was derived."""
    world = make_waste_world()
    for hour in range(count):
        seal(world.window(hour))
    return world


def derive() -> Derived | None:
    return derive_windows(actor=TICK, at=DAY + timedelta(days=2))


def test_deriving_that_another_worker_is_at_is_left_to_it(superuser_url: str) -> None:
    sealed_hours(2)

    with another_tick(superuser_url, "metering.tick_waste"):
        assert derive() is None
        tasks.tick_waste()
        assert not ClusterHealth.objects.exists()

    assert derive() == Derived(windows=2)


@pytest.mark.usefixtures("committed_db")
def test_with_nothing_to_derive_nobody_is_at_it() -> None:
    assert derive() == Derived()


def test_a_window_that_fails_keeps_no_other_from_being_derived(superuser_url: str) -> None:
    sealed_hours(3)
    assert derive_windows(actor=TICK, at=DAY, limit=1) == Derived(windows=1)
    first, second, third = MeteringWindow.objects.order_by("start_at").values_list("pk", flat=True)
    being_written = """
        INSERT INTO metering_clusterhealth SELECT (jsonb_populate_record(h,
          jsonb_build_object('window_id', %s::bigint))).* FROM metering_clusterhealth h"""

    with another(superuser_url, being_written, second):
        tasks.tick_waste()

    kept = ClusterHealth.objects.order_by("window_start").values_list("window_id", flat=True)
    assert list(kept) == [first, third]
    assert crashes_by_event() == {"metering.derive.failed": 1}


def test_hours_that_another_worker_opens_are_left_to_it(superuser_url: str) -> None:
    make_cluster(metered_from=HOUR)

    with another_tick(superuser_url, "metering.tick_windows"):
        assert open_due_windows(at=DUE) == 0
        assert meter_due(worker=worker(), at=DUE).is_idle

    assert not MeteringWindow.objects.exists()
    assert open_due_windows(at=DUE) == 1


def test_rechecks_that_another_worker_asks_for_are_left_to_it(superuser_url: str) -> None:
    make_cluster(metered_from=HOUR)
    assert meter_due(worker=worker(), at=DUE).sealed == 1
    late = DUE + timedelta(days=2)

    with another_tick(superuser_url, "metering.tick_rechecks"):
        assert make_due_rechecks(at=late) == 0

    assert not WindowRecheck.objects.exists()
    assert make_due_rechecks(at=late) == 1


def test_months_that_are_there_wait_for_nobody(superuser_url: str) -> None:
    month = datetime(2031, 3, 1, tzinfo=UTC)
    assert ensure_partitions(from_month=month, months=2) == 2
    making = "SELECT pg_advisory_xact_lock(hashtext('metering_ensure_partitions'))"

    with another(superuser_url, making) as other:
        other.execute("LOCK metering_usagerecord IN ACCESS EXCLUSIVE MODE")
        assert ensure_partitions(from_month=month, months=2) == 0


@pytest.fixture
def empty_source() -> Iterator[None]:
    """Let the settings name a source that saw empty hours."""
    tasks.process_source.cache_clear()
    backend = f"{EmptySource.__module__}.{EmptySource.__qualname__}"
    with override_settings(USAGE_SOURCE={"BACKEND": backend, "OPTIONS": {}}):
        yield
    tasks.process_source.cache_clear()


def has_partition(month: datetime) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s)", [f"metering_usagerecord_{month:%Y_%m}"])
        found = cursor.fetchone()
    return found is not None and found[0] is not None


@pytest.mark.usefixtures("empty_source")
def test_a_round_beside_a_worker_that_reads_and_derives_fails_nowhere(superuser_url: str) -> None:
    now = datetime.now(tz=UTC)
    metered_from = window_containing(now - timedelta(hours=4))
    make_cluster(metered_from=metered_from)
    ensure_each_month([metered_from, now])
    ahead = now.replace(day=28) + timedelta(days=60)
    reported = StringIO()

    reading = "LOCK metering_usagerecord IN ACCESS SHARE MODE"
    with (
        another_tick(superuser_url, "metering.tick_waste"),
        another(superuser_url, reading),
        capture_logs() as logs,
    ):
        call_command("tick", "--once", stdout=reported)

    lines = dict(line.split(": ", 1) for line in reported.getvalue().splitlines())
    assert lines["waste"] == "is under way elsewhere"
    assert "failed 0" in lines["metering"]
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == [
        "metering.partitions.postponed"
    ]
    assert not SweepCrash.objects.exists()
    assert not has_partition(ahead)
    tasks.tick(at=now, actor=TICK)
    assert has_partition(ahead)


@pytest.mark.usefixtures("committed_db")
def test_partitions_that_cannot_be_made_for_another_reason_fail_the_round() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 1")

    with pytest.raises(OperationalError, match="statement timeout"):
        tasks.tick(at=datetime(2031, 3, 1, tzinfo=UTC), actor=TICK)

"""A process whose clock is wrong: what it opens, what it refuses, and where it is reported."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import Client, override_settings
from structlog.testing import capture_logs

from billing.tasks import tick_accrual
from metering import tasks
from metering.domain.collection.windows import GapPolicy, MeteringPolicy, window_containing
from metering.management.commands import watch_cluster
from metering.models import MeteringWindow, WatchCursor
from metering.protocols import ClusterTarget, Observation
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.collection.windows import claim_windows, open_due_windows
from quotas.models import Reservation
from quotas.tasks import tick_live_use
from tenants.domain.actors import system_actor
from tenants.domain.refusals import ClockOffError
from tenants.models import ProcessClock
from tenants.tasks import tick_notifications
from tests.metering.test_tasks import EmptySource
from tests.support.builders import bind, make_cluster
from tests.support.cast import make_cast
from tests.support.metering.seen import ReplayedSource
from tests.support.quotas.builders import make_reservation

pytestmark = pytest.mark.django_db

WAIVING = MeteringPolicy(gap_policy=GapPolicy.WAIVE)


@pytest.fixture(autouse=True)
def empty_source() -> Iterator[None]:
    """Let the settings name a source that saw empty hours, and waive every gap."""
    tasks.process_source.cache_clear()
    backend = f"{EmptySource.__module__}.{EmptySource.__qualname__}"
    with override_settings(USAGE_SOURCE={"BACKEND": backend, "OPTIONS": {}}, GAP_POLICY="waive"):
        yield
    tasks.process_source.cache_clear()


@pytest.fixture
def now() -> datetime:
    return datetime.now(tz=UTC)


class BlinkingSource(ReplayedSource):
    """A source that scraped each hour once, at its end."""

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Return what was seen of the hour."""
        found = super().observe(target, start_at=start_at, end_at=end_at, as_of=as_of)
        return replace(found, ticks=(end_at,))


def hours_ahead(hours: int) -> time_machine.travel:
    return time_machine.travel(datetime.now(tz=UTC) + timedelta(hours=hours))


def make_clusters(now: datetime) -> None:
    """Register three clusters that are metered from two hours ago."""
    for slug in ("a", "b", "c"):
        make_cluster(slug, metered_from=window_containing(now - timedelta(hours=2)))


def future_windows(now: datetime) -> int:
    """Count the windows of hours that are not over."""
    return MeteringWindow.objects.filter(start_at__gt=now - timedelta(hours=1)).count()


def test_a_task_of_a_worker_30_hours_ahead_is_refused_and_opens_nothing(now: datetime) -> None:
    make_clusters(now)

    with capture_logs() as logs, hours_ahead(30), pytest.raises(ClockOffError) as refused:
        tasks.tick_windows()

    assert MeteringWindow.objects.count() == 0
    assert re.search(r"10(7999|8000) s ahead of the database", str(refused.value))
    assert [entry["log_level"] for entry in logs if entry["event"] == "tenants.clock.skewed"] == [
        "error"
    ]
    assert ProcessClock.objects.get().offset_seconds in {107_999, 108_000}


@pytest.mark.parametrize("task", [tick_accrual, tick_live_use, tick_notifications])
def test_no_task_of_any_app_runs_on_a_wrong_clock(task: Callable[[], None]) -> None:
    with hours_ahead(-30), pytest.raises(ClockOffError, match="behind"):
        task()


def test_the_command_of_a_process_30_hours_ahead_is_refused(now: datetime) -> None:
    make_clusters(now)

    with hours_ahead(30), pytest.raises(CommandError, match=r"10(7999|8000) s ahead"):
        call_command("tick")

    assert MeteringWindow.objects.count() == 0


@pytest.mark.soak
def test_a_worker_some_minutes_off_works_by_the_databases_clock_and_is_reported(
    now: datetime,
) -> None:
    begin = window_containing(now)
    make_cluster(metered_from=begin - timedelta(hours=1))
    due = 1 if now >= begin + timedelta(minutes=15) else 0

    with capture_logs() as logs, time_machine.travel(now + timedelta(seconds=299)):
        tasks.tick_windows()

    assert MeteringWindow.objects.count() == due
    assert [entry["log_level"] for entry in logs if entry["event"] == "tenants.clock.skewed"] == [
        "warning"
    ]
    assert ProcessClock.objects.get().offset_seconds in {298, 299}

    tasks.tick_windows()

    assert not ProcessClock.objects.exists()


def test_a_worker_some_minutes_ahead_expires_no_reservation_early(now: datetime) -> None:
    cluster, llm = make_cluster(), make_cast().llm
    bind(cluster, "llm", llm)
    pod = make_reservation(cluster, llm)
    Reservation.objects.update(admitted_at=now, expires_at=now + timedelta(seconds=200))

    with time_machine.travel(now + timedelta(seconds=299)):
        tick_live_use()

    pod.refresh_from_db()
    assert (pod.state, pod.released_at) == ("reserved", None)


def test_a_clock_that_is_off_is_a_metric_and_stands_in_readiness() -> None:
    with time_machine.travel(datetime.now(tz=UTC) + timedelta(seconds=100)):
        tasks.tick_partitions()

    scrape = Client().get("/metrics", SERVER_PORT=str(settings.METRICS_PORT))
    metrics = scrape.content.decode()
    ready = Client().get("/readyz").json()

    [line] = [line for line in metrics.splitlines() if line.startswith("gpu_ledger_clock_offset_")]
    assert line.split()[-1] in {"99.0", "100.0"}
    assert ready["status"] == "ready"
    [reported] = ready["clocks"]
    assert "s ahead of the database's" in reported


def test_a_web_process_with_a_wrong_clock_is_not_ready_and_says_why() -> None:
    with hours_ahead(30):
        response = Client().get("/readyz")

    assert response.status_code == 503
    assert re.search(r"10(7999|8000) s ahead", response.json()["checks"]["clock"])


def test_services_open_and_give_up_nothing_before_its_time_whatever_they_are_passed(
    now: datetime,
) -> None:
    make_clusters(now)
    worker = Worker(
        name="ahead", source=ReplayedSource(), actor=system_actor("test"), policy=WAIVING
    )

    meter_due(worker=worker, at=now + timedelta(hours=30))

    assert MeteringWindow.objects.exists()
    assert future_windows(now) == 0
    assert not MeteringWindow.objects.filter(sealed_at__gt=now + timedelta(minutes=1)).exists()


def test_an_hour_that_saw_too_little_is_not_given_up_by_a_time_to_come(now: datetime) -> None:
    make_cluster(metered_from=window_containing(now - timedelta(hours=2)))
    worker = Worker(
        name="ahead", source=BlinkingSource(), actor=system_actor("test"), policy=WAIVING
    )

    meter_due(worker=worker, at=now + timedelta(hours=30))

    windows = MeteringWindow.objects.all()
    assert {window.state for window in windows} == {"open"}
    assert all(window.not_before < now + timedelta(minutes=20) for window in windows)


def test_no_window_is_claimed_before_it_is_due(now: datetime) -> None:
    make_cluster(metered_from=window_containing(now - timedelta(hours=3)))
    open_due_windows(at=now)
    MeteringWindow.objects.update(not_before=now + timedelta(hours=1))

    assert claim_windows(worker="ahead", limit=10, at=now + timedelta(hours=30)) == []


def test_a_watch_on_a_wrong_clock_reads_nothing() -> None:
    make_cluster(is_watched=True)

    with hours_ahead(-30), pytest.raises(CommandError, match=r"108000 s behind"):
        call_command("watch_cluster", "--all", "--once")

    assert not WatchCursor.objects.exists()
    with hours_ahead(-30):
        assert watch_cluster.clusters_to_watch(()) == ()
    assert len(watch_cluster.clusters_to_watch(())) == 1

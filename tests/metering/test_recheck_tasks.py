"""The clock's kinds of work in rechecks: what a tick asks for, and what a wake-up does."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.conf import settings
from django.test import override_settings

from config.celery import app
from config.management.commands.tick import TICKS
from metering import tasks
from metering.domain.collection.windows import DEFAULT_POLICY, window_containing
from metering.models import MeteringWindow, WindowRecheck
from metering.selectors import locks
from metering.services.corrections.rechecking import RecheckSweep
from tests.metering.test_tasks import EmptySource
from tests.support.builders import make_cluster
from tests.support.metering.seen import ACTOR


@pytest.fixture(autouse=True)
def empty_source() -> Iterator[None]:
    """Let the settings name a source that saw empty hours."""
    tasks.process_source.cache_clear()
    backend = f"{EmptySource.__module__}.{EmptySource.__qualname__}"
    with override_settings(USAGE_SOURCE={"BACKEND": backend, "OPTIONS": {}}):
        yield
    tasks.process_source.cache_clear()


def seal_an_hour() -> MeteringWindow:
    """Return an hour that was sealed by the wall clock three hours ago."""
    now = datetime.now(tz=UTC)
    start = window_containing(now - timedelta(hours=4))
    return MeteringWindow.objects.create(
        cluster=make_cluster(metered_from=start),
        start_at=start,
        state="sealed",
        not_before=start,
        as_of=start + timedelta(minutes=75),
        collected_at=start + timedelta(minutes=75),
        sealed_at=start + timedelta(minutes=75),
    )


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the kinds of work that are woken."""
    found: list[str] = []
    monkeypatch.setattr(tasks, "wake", found.append)
    return found


def test_rechecks_are_wired_into_the_clock() -> None:
    entry = app.conf.beat_schedule["metering.tick_rechecks"]

    assert (entry["task"], entry["schedule"]) == ("metering.tick_rechecks", 300)
    assert app.conf.task_routes["metering.recheck_windows"] == {"queue": "metering"}
    assert ("rechecks", tasks.recheck) in TICKS


def test_the_policy_follows_the_settings() -> None:
    assert (settings.RECHECK_SECONDS, settings.POST_LATE_USAGE) == ((3600, 21_600, 86_400), True)

    with override_settings(
        RECHECK_SECONDS=(600,), RECHECK_RETENTION_SECONDS=86_400, POST_LATE_USAGE=False
    ):
        assert tasks.policy_from_settings() == replace(
            DEFAULT_POLICY,
            recheck_seconds=(600,),
            recheck_retention_seconds=86_400,
            posts_late_usage=False,
        )


@pytest.mark.django_db
def test_a_tick_asks_for_what_is_due_and_wakes_one_kind_of_work(woken: list[str]) -> None:
    seal_an_hour()

    tasks.tick_rechecks()

    made = WindowRecheck.objects.get()
    assert (woken, made.state, made.key) == ([tasks.recheck_windows.name], "due", "3600")


@pytest.mark.django_db
@pytest.mark.usefixtures("woken")
def test_a_wake_up_does_what_is_due_once() -> None:
    seal_an_hour()
    tasks.tick_rechecks()

    tasks.recheck_windows()
    tasks.recheck_windows()

    made = WindowRecheck.objects.get()
    assert (made.state, made.fence) == ("done", 1)


@pytest.mark.django_db
def test_manage_tick_does_the_same_without_a_broker() -> None:
    seal_an_hour()
    at = datetime.now(tz=UTC)

    assert tasks.recheck(at=at, actor=ACTOR) == RecheckSweep(made=1, done=1)
    assert tasks.recheck(at=at, actor=ACTOR) == RecheckSweep()


@pytest.mark.usefixtures("woken")
def test_a_tick_that_another_process_makes_is_left_to_it(superuser_url: str) -> None:
    seal_an_hour()

    with psycopg.connect(superuser_url) as other:
        other.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))",
            [locks.TICK_LOCK_CLASS, "metering.tick_rechecks"],
        )
        tasks.tick_rechecks()

    assert not WindowRecheck.objects.exists()

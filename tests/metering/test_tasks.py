"""Celery's kinds of work in metering: opening what is due, and metering it window by window."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import override_settings

from metering import tasks
from metering.domain.collection.windows import MeteringPolicy, window_containing
from metering.models import MeteringWindow
from metering.services.collection import sweeping
from metering.services.collection.collecting import Collection
from metering.services.collection.composed import ClaimedWindow
from metering.services.collection.division.collecting import collect_claimed
from metering.services.collection.sweeping import CollectionSweep
from metering.services.collection.windows import open_due_windows
from tenants.domain.actors import system_actor
from tenants.selectors.clock import crashes_by_event
from tests.support.builders import make_cluster
from tests.support.metering.seen import ReplayedSource

pytestmark = pytest.mark.django_db


class EmptySource(ReplayedSource):
    """A source that saw nothing in any hour, named by its dotted path."""


@pytest.fixture(autouse=True)
def empty_source() -> Iterator[None]:
    """Let the settings name a source that saw empty hours."""
    tasks.process_source.cache_clear()
    backend = f"{EmptySource.__module__}.{EmptySource.__qualname__}"
    with override_settings(USAGE_SOURCE={"BACKEND": backend, "OPTIONS": {}}):
        yield
    tasks.process_source.cache_clear()


@pytest.fixture
def now() -> datetime:
    return datetime.now(tz=UTC)


@pytest.fixture
def two_due(now: datetime) -> list[int]:
    """Two hours that are due by the wall clock, and their ids once they are opened."""
    make_cluster(metered_from=window_containing(now - timedelta(hours=3, minutes=16)))
    open_due_windows(at=now)
    ids = list(MeteringWindow.objects.order_by("start_at").values_list("id", flat=True))
    MeteringWindow.objects.filter(id__in=ids[2:]).update(state="gap")
    return ids[:2]


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the kinds of work that are woken."""
    found: list[str] = []
    monkeypatch.setattr(tasks, "wake", found.append)
    return found


def test_a_tick_opens_what_is_due_and_wakes_one_kind_of_work(
    now: datetime, woken: list[str]
) -> None:
    make_cluster(metered_from=window_containing(now - timedelta(hours=9)))

    tasks.tick_windows()

    assert woken == [tasks.meter_windows.name] * 2
    assert set(MeteringWindow.objects.values_list("state", flat=True)) == {"open"}
    assert MeteringWindow.objects.count() in {8, 9}


@pytest.mark.parametrize(
    ("broken", "event"),
    [
        ("behind AS MATERIALIZED", "metering.open.failed"),
        ("JOIN jsonb_to_recordset", "metering.waiting.failed"),
    ],
)
def test_a_step_of_a_tick_that_fails_stops_no_other(
    two_due: list[int], woken: list[str], broken: str, event: str
) -> None:
    MeteringWindow.objects.filter(id=two_due[0]).update(
        state="reconciled", as_of=datetime.now(tz=UTC)
    )

    def fail(execute: Callable[..., object], sql: str, *rest: object) -> object:
        if broken in sql:
            raise OperationalError("canceling statement due to lock timeout")
        return execute(sql, *rest)

    with connection.execute_wrapper(fail):
        tasks.tick_windows()

    assert woken == [tasks.meter_windows.name]
    assert MeteringWindow.objects.get(id=two_due[0]).state == "sealed"
    assert crashes_by_event() == {event: 1}


def test_a_tick_seals_what_a_dead_worker_left_reconciled(
    two_due: list[int], woken: list[str]
) -> None:
    MeteringWindow.objects.filter(id=two_due[0]).update(
        state="reconciled", as_of=datetime.now(tz=UTC)
    )

    tasks.tick_windows()

    assert woken == [tasks.meter_windows.name]
    assert MeteringWindow.objects.get(id=two_due[0]).state == "sealed"


def test_another_worker_is_woken_once_and_before_the_first_window_is_metered(
    two_due: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[set[str]] = []
    windows = MeteringWindow.objects.filter(id__in=two_due).values_list("state", flat=True)
    monkeypatch.setattr(tasks, "wake_beside", lambda: states.append(set(windows)))

    tasks.meter_windows()
    tasks.meter_windows()

    assert states == [{"collecting"}]


def test_a_wake_up_meters_every_window_that_is_due(two_due: list[int]) -> None:
    tasks.meter_windows()

    states = dict(MeteringWindow.objects.values_list("id", "state"))
    assert {states[window_id] for window_id in two_due} == {"sealed"}


def test_a_window_that_fails_stops_none_behind_it(
    two_due: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail_for_first(*, claimed: ClaimedWindow, **given: Any) -> Collection:  # noqa: ANN401
        if claimed.id == two_due[0]:
            raise ZeroDivisionError
        return collect_claimed(claimed=claimed, **given)

    monkeypatch.setattr(sweeping, "collect_claimed", fail_for_first)

    tasks.meter_windows()

    states = dict(MeteringWindow.objects.values_list("id", "state"))
    assert [states[window_id] for window_id in two_due] == ["collecting", "sealed"]
    assert crashes_by_event() == {"metering.window.failed": 1}


def test_nothing_due_is_nothing_done() -> None:
    tasks.meter_windows()

    assert not MeteringWindow.objects.exists()


def test_partitions_are_made_for_three_months_ahead() -> None:
    tasks.tick_partitions()

    ahead = f"metering_usagerecord_{datetime.now(tz=UTC) + timedelta(days=89):%Y_%m}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [ahead])
        assert cursor.fetchone() == (True,)


def test_one_round_without_celery_meters_all_that_is_due(now: datetime, two_due: list[int]) -> None:
    heard: list[CollectionSweep] = []

    done = tasks.tick(at=now, actor=system_actor("manage.tick"), progress=heard.append)

    assert (done.sealed, done.retried, done.failed) == (2, 0, 0)
    assert [sweep.sealed for sweep in heard] == [1, 2]
    states = MeteringWindow.objects.filter(id__in=two_due).values_list("state", flat=True)
    assert set(states) == {"sealed"}


def test_the_settings_make_the_policy() -> None:
    with override_settings(WINDOW_LATENESS_SECONDS=120, HOLE_SECONDS_MAX=90):
        assert tasks.policy_from_settings() == MeteringPolicy(
            lateness_seconds=120,
            hole_seconds_max=90,
        )


def test_the_source_is_kept_for_the_process() -> None:
    first, second = tasks.worker_from_settings(), tasks.worker_from_settings()

    assert first.source is second.source
    assert isinstance(first.source, EmptySource)

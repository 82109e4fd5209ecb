"""Celery's doors: hints for what is due, and one window at a time."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import override_settings
from kombu.exceptions import OperationalError

from metering import tasks
from metering.domain.policy import MeteringPolicy
from metering.domain.window import window_containing
from metering.models import MeteringWindow
from metering.services.sweeping import Sweep
from metering.services.windows import open_due_windows
from tenants.domain.actors import system_actor
from tests.builders import make_cluster
from tests.metering.seen import ReplayedSource

pytestmark = pytest.mark.django_db


Capture = Callable[..., AbstractContextManager[object]]


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
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the window ids for which a message was sent, each with an end."""
    messages: list[int] = []

    def send(args: tuple[int], *, expires: int) -> None:
        assert expires == 120
        messages.extend(args)

    monkeypatch.setattr(tasks.collect_window, "apply_async", send)
    return messages


def test_a_tick_opens_what_is_due_and_hints_at_it(
    now: datetime, sent: list[int], django_capture_on_commit_callbacks: Capture
) -> None:
    make_cluster(metered_from=window_containing(now - timedelta(hours=2, minutes=16)))

    with django_capture_on_commit_callbacks(execute=True):
        assert tasks.tick_windows() == MeteringWindow.objects.count()

    assert sorted(sent) == sorted(MeteringWindow.objects.values_list("id", flat=True))
    assert len(sent) in {1, 2}


def test_a_broker_that_is_away_costs_a_tick_and_nothing_else(
    two_due: list[int], monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Capture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OperationalError("no broker")

    monkeypatch.setattr(tasks.collect_window, "apply_async", refuse)

    with django_capture_on_commit_callbacks(execute=True):
        assert tasks.tick_windows() == len(two_due)

    assert set(MeteringWindow.objects.values_list("fence", flat=True)) == {0}


def test_a_message_meters_its_window_and_no_other(two_due: list[int]) -> None:
    first, second = two_due

    assert tasks.collect_window(first) is True
    assert tasks.collect_window(first) is False

    states = dict(MeteringWindow.objects.values_list("id", "state"))
    assert (states[first], states[second]) == ("sealed", "open")


def test_a_message_about_a_window_left_reconciled_seals_it(two_due: list[int]) -> None:
    MeteringWindow.objects.filter(id=two_due[0]).update(
        state="reconciled", as_of=datetime.now(tz=UTC)
    )

    assert tasks.collect_window(two_due[0]) is True

    assert MeteringWindow.objects.get(id=two_due[0]).state == "sealed"


def test_a_message_about_no_window_does_nothing() -> None:
    assert tasks.collect_window(0) is False


def test_partitions_are_made_for_three_months_ahead() -> None:
    tasks.tick_partitions()

    ahead = f"metering_usagerecord_{datetime.now(tz=UTC) + timedelta(days=89):%Y_%m}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [ahead])
        assert cursor.fetchone() == (True,)


def test_one_round_without_celery_meters_all_that_is_due(now: datetime, two_due: list[int]) -> None:
    heard: list[Sweep] = []

    done = tasks.tick(at=now, actor=system_actor("manage.tick"), progress=heard.append)

    assert (done.sealed, done.retried, done.failed) == (2, 0, 0)
    assert heard == [done]
    states = MeteringWindow.objects.filter(id__in=two_due).values_list("state", flat=True)
    assert set(states) == {"sealed"}


def test_the_settings_make_the_policy() -> None:
    with override_settings(WINDOW_LATENESS_SECONDS=120, MINIMUM_COVERAGE="0.5"):
        assert tasks.policy_from_settings() == MeteringPolicy(
            lateness_seconds=120,
            minimum_coverage="0.5",  # type: ignore[arg-type]
        )


def test_the_source_is_kept_for_the_process() -> None:
    first, second = tasks.worker_from_settings(), tasks.worker_from_settings()

    assert first.source is second.source
    assert isinstance(first.source, EmptySource)

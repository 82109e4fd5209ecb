"""`manage.py tick`: the ticks of every app without Celery."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from structlog.testing import capture_logs

from config.management.commands import tick as command
from metering import tasks
from metering.domain.collection.windows import window_containing
from metering.models import MeteringWindow
from tenants.models import SweepCrash
from tests.metering.test_tasks import EmptySource
from tests.support.builders import make_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def empty_source() -> Iterator[None]:
    """Let the settings name a source that saw empty hours."""
    tasks.process_source.cache_clear()
    backend = f"{EmptySource.__module__}.{EmptySource.__qualname__}"
    with override_settings(USAGE_SOURCE={"BACKEND": backend, "OPTIONS": {}}):
        yield
    tasks.process_source.cache_clear()


def run(*arguments: str) -> list[str]:
    out = StringIO()
    call_command("tick", *arguments, stdout=out)
    return out.getvalue().splitlines()


def test_it_works_until_nothing_is_due_and_shows_a_line_per_app() -> None:
    make_cluster(metered_from=window_containing(datetime.now(tz=UTC) - timedelta(hours=4)))

    reported = {line.partition(":")[0]: line for line in run()}

    windows = MeteringWindow.objects.count()
    assert windows in {3, 4}
    assert set(MeteringWindow.objects.values_list("state", flat=True)) == {"sealed"}
    assert reported["metering"].startswith(f"metering: opened {windows}, sealed {windows}")
    assert reported["waste"] == f"waste: windows {windows}, corrected 0, credits 0, findings 0"
    assert re.match(rf"billing: windows {windows}\b", reported["billing"])
    assert list(reported) == [app for app, _ in command.TICKS]


def test_with_nothing_due_it_makes_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[object] = []

    def tick(**given: object) -> int:
        rounds.append(given["actor"])
        return 0

    monkeypatch.setattr(command, "TICKS", (("one", tick),))

    assert run() == ["one: done 0"]
    assert rounds == [command.ACTOR]


def test_rounds_go_on_while_something_is_done_and_once_makes_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [2, 1, 0, 2, 1, 0]
    monkeypatch.setattr(command, "TICKS", (("one", lambda **_: left.pop(0)),))

    assert run() == ["one: done 3"]
    assert run("--once") == ["one: done 2"]


def test_work_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "TICKS", (("one", lambda **_: 1),))

    assert run() == [f"one: done {command.ROUNDS_MAX}"]


def test_a_step_that_fails_is_counted_once_and_the_others_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [2, 1, 0]
    tried: list[str] = []

    def crash(**_: object) -> int:
        tried.append("crash")
        raise ZeroDivisionError

    def tick(**_: object) -> int:
        return left.pop(0)

    monkeypatch.setattr(
        command, "TICKS", (("first", lambda **_: 0), ("live use", crash), ("later", tick))
    )
    out = StringIO()

    with capture_logs() as logs, pytest.raises(CommandError) as refused:
        call_command("tick", stdout=out)

    assert out.getvalue().splitlines() == ["first: done 0", "live use: failed", "later: done 3"]
    assert str(refused.value) == "These failed, and the log says why: live use."
    assert refused.value.returncode == 1
    assert (tried, left) == (["crash"], [])
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("tick.live_use.failed", "error")
    ]
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)
    row = SweepCrash.objects.get()
    assert (row.event, row.count, row.last_error) == (
        "tick.live_use.failed",
        1,
        "ZeroDivisionError",
    )


def test_what_another_process_is_at_is_reported_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "TICKS", (("one", lambda **_: None), ("two", lambda **_: 0)))

    assert run("--once") == ["one: is under way elsewhere", "two: done 0"]
    assert not SweepCrash.objects.exists()


def test_what_was_elsewhere_and_is_taken_in_a_later_round_is_reported_as_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, others = [None, 3, 0], [1, 1, 0]
    steps = (("one", lambda **_: left.pop(0)), ("two", lambda **_: others.pop(0)))
    monkeypatch.setattr(command, "TICKS", steps)

    assert run() == ["one: done 3", "two: done 2"]


def test_what_a_step_did_before_another_process_took_it_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [3, None]
    monkeypatch.setattr(command, "TICKS", (("one", lambda **_: left.pop(0)),))

    assert run() == ["one: done 3, is under way elsewhere"]


def test_what_a_step_did_before_it_failed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([4])
    monkeypatch.setattr(command, "TICKS", (("one", lambda **_: next(left)),))
    out = StringIO()

    with pytest.raises(CommandError, match=r"^These failed, and the log says why: one\.$"):
        call_command("tick", stdout=out)

    assert out.getvalue().splitlines() == ["one: done 4, failed"]
    assert SweepCrash.objects.get().last_error == "StopIteration"

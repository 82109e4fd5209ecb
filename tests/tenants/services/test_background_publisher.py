"""Wake-ups after commit are published beside the request, and their loss is no error."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event

import pytest
import time_machine
from django.db import transaction
from structlog.testing import capture_logs

from quotas.services.limits.changes import wake_enforcement
from quotas.tasks import tick_enforcement
from tenants.services import wakeups
from tenants.services.wakeups import PUBLISHER, BackgroundPublisher
from tests.support.builders import AT

Capture = Callable[..., AbstractContextManager[list[Callable[[], object]]]]
ROOT = Path(__file__).resolve().parents[3]


class RefusedError(Exception):
    """Makes a transaction roll back."""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the kinds of work that were woken; what a test before woke is published by now."""
    PUBLISHER.wait()
    found: list[str] = []
    monkeypatch.setattr(wakeups, "wake", found.append)
    return found


@pytest.mark.django_db
def test_a_wake_up_is_sent_after_the_commit_and_names_its_kind_alone(
    sent: list[str], django_capture_on_commit_callbacks: Capture
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        wake_enforcement()
        before = list(sent)
    PUBLISHER.wait()

    assert before == []
    assert sent == [tick_enforcement.name]


@pytest.mark.django_db
def test_what_rolls_back_wakes_no_worker(
    sent: list[str], django_capture_on_commit_callbacks: Capture
) -> None:
    def change_and_fail() -> None:
        with transaction.atomic():
            wake_enforcement()
            raise RefusedError

    with django_capture_on_commit_callbacks(execute=True), pytest.raises(RefusedError):
        change_and_fail()
    PUBLISHER.wait()

    assert sent == []


def test_a_mistake_with_one_kind_is_logged_and_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def fail_for_first(kind: str) -> None:
        asked.append(kind)
        if kind == "first":
            raise RuntimeError("Planted.")

    monkeypatch.setattr(wakeups, "wake", fail_for_first)
    publisher = BackgroundPublisher()
    with capture_logs() as lines:
        for kind in ("first", "second", "third"):
            publisher.publish(kind)
        publisher.wait()

    assert asked == ["first", "second", "third"]
    assert not publisher.is_publishing
    assert [(line["event"], line["kind"], line["exc_info"]) for line in lines] == [
        ("wakeup.crashed", "first", True)
    ]


class SlowBroker:
    """Answers no wake-up before it may."""

    def __init__(self) -> None:
        self.is_asked = Event()
        self.may_answer = Event()
        self.sent: list[str] = []

    def __call__(self, kind: str) -> None:
        self.sent.append(kind)
        self.is_asked.set()
        self.may_answer.wait(timeout=30)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowBroker]:
    broker = SlowBroker()
    monkeypatch.setattr(wakeups, "wake", broker)
    yield broker
    broker.may_answer.set()


def logged(lines: Iterable[Mapping[str, object]]) -> list[tuple[object, object]]:
    return [(line["event"], line["wakeups"]) for line in lines]


def test_a_closed_publisher_ends_its_thread_and_publishes_no_more(sent: list[str]) -> None:
    publisher = BackgroundPublisher()
    publisher.publish("first")
    publisher.wait()

    with capture_logs() as lines:
        publisher.close()
        publisher.publish("second")
        publisher.wait()
        publisher.close()

    assert sent == ["first"]
    assert lines == []


def test_what_is_left_when_a_publisher_is_closed_is_logged_once(slow: SlowBroker) -> None:
    publisher = BackgroundPublisher()
    publisher.publish("first")
    assert slow.is_asked.wait(timeout=30)
    for kind in ("second", "second", "third"):
        publisher.publish(kind)

    with capture_logs() as lines:
        publisher.close(seconds_max=0)
        slow.may_answer.set()
        publisher.wait()
        publisher.close()

    assert logged(lines) == [("wakeup.unsent", 3)]
    assert slow.sent == ["first"]


def test_the_wake_up_that_is_being_sent_is_waited_for(slow: SlowBroker) -> None:
    publisher = BackgroundPublisher()
    publisher.publish("first")
    assert slow.is_asked.wait(timeout=30)

    with capture_logs() as lines:
        slow.may_answer.set()
        publisher.close(seconds_max=30)

    assert lines == []
    assert not publisher.is_publishing


def test_a_forked_process_waits_for_no_thread_of_its_parent(slow: SlowBroker) -> None:
    publisher = BackgroundPublisher()
    publisher.publish("first")
    assert slow.is_asked.wait(timeout=30)
    publisher.publish("second")

    publisher.reset()
    slow.may_answer.set()
    publisher.publish("third")
    publisher.wait()

    assert "third" in slow.sent
    assert "second" not in slow.sent


def test_a_process_that_ends_while_the_broker_is_away_says_so_and_nothing_else() -> None:
    script = (
        "import django; django.setup()\n"
        "import config.celery\n"
        "from tenants.services.wakeups import PUBLISHER\n"
        "for kind in ('quotas.tick_enforcement', 'quotas.tick_live_use'): PUBLISHER.publish(kind)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings.test"},
    )

    assert ended.stdout == ""
    assert [line.split()[3] for line in ended.stderr.splitlines()] == ["wakeup.unsent"]


def test_a_clock_that_stands_still_keeps_nobody_trying_to_reach_a_broker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("kombu.utils.functional.sleep", pauses.append)

    with time_machine.travel(AT, tick=False):
        assert not wakeups.wake(tick_enforcement.name)

    assert 0 < len(pauses) < 10

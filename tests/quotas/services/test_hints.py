"""A hint rings after commit, carries one id, and its loss is nobody's error."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Event
from uuid import UUID

import pytest
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError
from structlog.testing import capture_logs

from quotas.services.hints import BELL, Bell, hint_changed
from quotas.tasks import enforce_organization

Capture = Callable[..., AbstractContextManager[list[Callable[[], object]]]]
ROOT = Path(__file__).resolve().parents[3]
ACME = UUID(int=7)
OTHER = UUID(int=8)
THIRD = UUID(int=9)


class RefusedError(Exception):
    """Makes a transaction roll back."""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str], bool]]:
    found: list[tuple[str, list[str], bool]] = []
    monkeypatch.setattr(
        current_app,
        "send_task",
        lambda name, args, *, retry: found.append((name, args, retry)),
    )
    return found


@pytest.mark.django_db
def test_a_hint_is_sent_after_the_commit_and_names_the_organization(
    sent: list[tuple[str, list[str], bool]], django_capture_on_commit_callbacks: Capture
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        hint_changed(ACME)
        before = list(sent)
    BELL.wait()

    assert before == []
    assert sent == [(enforce_organization.name, [str(ACME)], False)]


@pytest.mark.django_db
def test_what_rolls_back_hints_nobody(
    sent: list[tuple[str, list[str], bool]], django_capture_on_commit_callbacks: Capture
) -> None:
    def change_and_fail() -> None:
        with transaction.atomic():
            hint_changed(ACME)
            raise RefusedError

    with django_capture_on_commit_callbacks(execute=True), pytest.raises(RefusedError):
        change_and_fail()
    BELL.wait()

    assert sent == []


@pytest.mark.django_db
def test_a_broker_that_is_away_is_logged_and_no_error(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Capture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OperationalError

    monkeypatch.setattr(current_app, "send_task", refuse)

    with capture_logs() as logs:
        with django_capture_on_commit_callbacks(execute=True):
            hint_changed(ACME)
        BELL.wait()

    assert [(line["event"], line["organization"]) for line in logs] == [
        ("quotas.enforcement.unhinted", str(ACME))
    ]


def test_whatever_one_hint_fails_with_is_told_and_keeps_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def fail_for_acme(_name: str, args: list[str], *, retry: bool) -> None:
        assert not retry
        asked.extend(args)
        if args == [str(ACME)]:
            raise RuntimeError("Planted.")

    monkeypatch.setattr(current_app, "send_task", fail_for_acme)
    bell = Bell()
    with capture_logs() as lines:
        for organization_id in (ACME, OTHER, THIRD):
            bell.ring(organization_id)
        bell.wait()

    assert asked == [str(ACME), str(OTHER), str(THIRD)]
    assert not bell.is_ringing
    assert [(line["event"], line["organization"], line["exc_info"]) for line in lines] == [
        ("quotas.enforcement.hint_crashed", str(ACME), True)
    ]


class SlowBroker:
    """Takes no hint before it is let go, and then says that it is away."""

    def __init__(self) -> None:
        self.is_asked = Event()
        self.may_answer = Event()
        self.sent: list[list[str]] = []

    def __call__(self, name: str, args: list[str], *, retry: bool) -> None:
        assert (name, retry) == (enforce_organization.name, False)
        self.sent.append(args)
        self.is_asked.set()
        self.may_answer.wait(timeout=30)
        raise OperationalError


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowBroker]:
    broker = SlowBroker()
    monkeypatch.setattr(current_app, "send_task", broker)
    yield broker
    broker.may_answer.set()


def told(lines: Iterable[Mapping[str, object]]) -> list[tuple[object, object]]:
    return [(line["event"], line.get("organization", line.get("hints"))) for line in lines]


def test_a_bell_that_is_closed_ends_its_thread_and_rings_no_more(
    sent: list[tuple[str, list[str], bool]],
) -> None:
    bell = Bell()
    bell.ring(ACME)
    bell.wait()

    with capture_logs() as lines:
        bell.close()
        bell.ring(OTHER)
        bell.wait()
        bell.close()

    assert [args for _, args, _ in sent] == [[str(ACME)]]
    assert lines == []


def test_what_is_left_when_a_bell_is_closed_is_told_once(slow: SlowBroker) -> None:
    bell = Bell()
    bell.ring(ACME)
    assert slow.is_asked.wait(timeout=30)
    bell.ring(OTHER)
    bell.ring(OTHER)
    bell.ring(THIRD)

    with capture_logs() as lines:
        bell.close(seconds_max=0)
        # The thread comes back from the broker when nobody has a log for it any more.
        slow.may_answer.set()
        bell.wait()
        bell.close()

    assert told(lines) == [("quotas.enforcement.hints_left", 3)]
    assert slow.sent == [[str(ACME)]]


def test_the_hint_that_is_being_sent_is_waited_for(slow: SlowBroker) -> None:
    bell = Bell()
    bell.ring(ACME)
    assert slow.is_asked.wait(timeout=30)

    with capture_logs() as lines:
        slow.may_answer.set()
        bell.close(seconds_max=30)

    assert told(lines) == [("quotas.enforcement.unhinted", str(ACME))]
    assert not bell.is_ringing


def test_a_forked_process_waits_for_no_thread_of_its_parent(slow: SlowBroker) -> None:
    bell = Bell()
    bell.ring(ACME)
    assert slow.is_asked.wait(timeout=30)
    bell.ring(OTHER)

    bell.begin_anew()
    slow.may_answer.set()
    bell.ring(THIRD)
    bell.wait()

    assert [str(THIRD)] in slow.sent
    assert [str(OTHER)] not in slow.sent


def test_a_process_that_ends_while_the_broker_is_away_says_so_and_nothing_else() -> None:
    script = (
        "import django; django.setup()\n"
        "import config.celery\n"
        "from uuid import UUID\n"
        "from quotas.services.hints import BELL\n"
        "for number in (7, 8): BELL.ring(UUID(int=number))\n"
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
    assert [line.split()[3] for line in ended.stderr.splitlines()] == [
        "quotas.enforcement.hints_left"
    ]

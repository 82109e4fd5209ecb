"""A hint rings after commit, carries one id, and its loss is nobody's error."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from uuid import UUID

import pytest
from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError
from structlog.testing import capture_logs

from quotas.services.hints import BELL, hint_changed
from quotas.tasks import enforce_organization

Capture = Callable[..., AbstractContextManager[list[Callable[[], object]]]]
ACME = UUID(int=7)


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

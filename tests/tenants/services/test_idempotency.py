"""Tests of answering a request once."""

from datetime import timedelta

import pytest
from django.db import transaction

from tenants.domain.actors import Actor, ActorKind, system_actor
from tenants.domain.refusals import IdempotencyKeyInUseError
from tenants.models import IdempotencyRecord, Organization
from tenants.services.idempotency import StoredResponse, answer_once, purge_responses
from tests.support.builders import AT, make_organization
from tests.support.threads import in_thread

ALICE = Actor(kind=ActorKind.PERSON, id="1", label="alice")
PRINT = b"\x01" * 32


def make_acme() -> StoredResponse:
    make_organization("acme")
    return StoredResponse(status=201, body={"slug": "acme"}, headers={"ETag": '"1"'})


@pytest.mark.usefixtures("committed_db")
def test_while_the_first_is_being_answered_the_second_is_refused() -> None:
    refusals: list[str] = []

    def second() -> str:
        try:
            answer_once(key="k", fingerprint=PRINT, respond=make_acme, actor=ALICE, at=AT)
        except IdempotencyKeyInUseError as error:
            return error.code
        return "answered"

    def first() -> StoredResponse:
        answer = make_acme()
        refusals.append(in_thread(second))
        return answer

    answer_once(key="k", fingerprint=PRINT, respond=first, actor=ALICE, at=AT)

    assert refusals == ["idempotency_key_in_use"]
    assert Organization.objects.count() == 1
    assert in_thread(second) == "answered"
    assert Organization.objects.count() == 1


@pytest.mark.usefixtures("committed_db")
def test_a_crash_after_the_effect_leaves_neither_effect_nor_answer() -> None:
    def crash() -> StoredResponse:
        make_acme()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        answer_once(key="k", fingerprint=PRINT, respond=crash, actor=ALICE, at=AT)

    assert not Organization.objects.exists()
    assert not IdempotencyRecord.objects.exists()


@pytest.mark.django_db
def test_a_stored_answer_is_reported_with_its_headers() -> None:
    first = answer_once(key="k", fingerprint=PRINT, respond=make_acme, actor=ALICE, at=AT)
    again = answer_once(key="k", fingerprint=PRINT, respond=make_acme, actor=ALICE, at=AT)

    assert (first.is_replayed, again.is_replayed) == (False, True)
    assert (again.status, again.body, again.headers) == (
        first.status,
        first.body,
        first.headers,
    )


@pytest.mark.django_db
def test_answers_are_purged_after_a_week() -> None:
    with transaction.atomic():
        answer_once(key="k", fingerprint=PRINT, respond=make_acme, actor=ALICE, at=AT)
    sweep = system_actor("tenants.tick")

    assert purge_responses(actor=sweep, at=AT + timedelta(days=7)) == 0
    assert purge_responses(actor=sweep, at=AT + timedelta(days=7, seconds=1)) == 1
    with pytest.raises(ValueError, match="service itself"):
        purge_responses(actor=ALICE, at=AT)

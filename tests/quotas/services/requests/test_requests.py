"""Requests are made by one person and decided by another, exactly once."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError

from quotas.domain.errors import (
    OwnQuotaRequestError,
    PersonRequiredError,
    QuotaHierarchyBrokenError,
    QuotaInputError,
    QuotaRequestDecidedError,
    QuotaRequestOutdatedError,
)
from quotas.models import QuotaLimit, QuotaRequest
from quotas.services.requests.deciding import (
    approve_request,
    cancel_request,
    reject_request,
)
from tenants.domain.actors import Actor, ActorKind, system_actor
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.domain.identity.roles import Role
from tenants.domain.refusals import ProjectClosedError
from tenants.models import AuditEntry
from tests.support.builders import AT, grant
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions, make_limit, submit_request


def submit(cast: Cast, **further: object) -> QuotaRequest:
    given: dict[str, Any] = {
        "project": cast.llm,
        "size": "large",
        "requested_units": 8,
        "justification": "A bigger model.",
        "actor": actor_of(cast.bob),
        "at": AT,
    }
    return submit_request(**{**given, **further})


def test_a_submitted_request_waits_and_grants_nothing(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=4)

    request = submit(cast)

    assert (request.state, request.requested_units, request.units_before) == ("submitted", 8, 4)
    assert (request.requested_by, request.organization) == (cast.bob, cast.acme)
    assert QuotaLimit.objects.get().limit_units == 4
    assert audit_actions() == ["quotas:request:submit"]


def test_everything_wrong_with_a_request_is_reported_at_once(cast: Cast) -> None:
    with pytest.raises(QuotaInputError) as refusal:
        submit(cast, size="huge", requested_units=-1, justification=" ")

    assert [p.field for p in refusal.value.problems] == [
        "size",
        "requested_units",
        "justification",
    ]
    assert not QuotaRequest.objects.exists()


@pytest.mark.parametrize("name", ["carol", "mallory", "ann", "dora", "frank"])
def test_who_may_not_ask_for_the_project_is_refused(cast: Cast, name: str) -> None:
    with pytest.raises(ForbiddenError):
        submit(cast, actor=actor_of(getattr(cast, name)))

    assert not QuotaRequest.objects.exists()
    assert audit_actions() == []


def test_a_program_does_not_sign_requests(cast: Cast) -> None:
    with pytest.raises(PersonRequiredError):
        submit(cast, actor=system_actor("tests"))

    assert not QuotaRequest.objects.exists()


def test_a_closed_project_asks_for_nothing(cast: Cast) -> None:
    cast.llm.state = "closed"
    cast.llm.save()

    with pytest.raises(ProjectClosedError):
        submit(cast)

    assert not QuotaRequest.objects.exists()


def test_approving_sets_the_projects_limit_in_the_same_step(cast: Cast) -> None:
    request = submit(cast)

    decided = approve_request(
        request_id=request.pk, note="Fine.", actor=actor_of(cast.alice), at=AT
    )

    decided.refresh_from_db()
    assert (decided.state, decided.decided_by, decided.decided_at) == ("approved", cast.alice, AT)
    assert (decided.decision_note, decided.version) == ("Fine.", 2)
    limit = QuotaLimit.objects.get()
    assert (limit.project, limit.size, limit.limit_units) == (cast.llm, "large", 8)
    assert audit_actions() == [
        "quotas:request:submit",
        "quotas:limit:set",
        "quotas:request:approve",
    ]


def test_a_second_approval_changes_nothing(cast: Cast) -> None:
    request = submit(cast)
    approve_request(request_id=request.pk, note="One.", actor=actor_of(cast.alice), at=AT)
    before = audit_actions()

    again = approve_request(request_id=request.pk, note="Two.", actor=actor_of(cast.frank), at=AT)

    assert (again.state, again.decision_note, again.decided_by) == ("approved", "One.", cast.alice)
    assert (again.version, QuotaLimit.objects.get().generation) == (2, 1)
    assert audit_actions() == before


@pytest.mark.parametrize("decide", [approve_request, reject_request])
def test_nobody_decides_their_own_request(cast: Cast, decide: Callable[..., QuotaRequest]) -> None:
    request = submit(cast, actor=actor_of(cast.alice))

    with pytest.raises(OwnQuotaRequestError) as refusal:
        decide(request_id=request.pk, actor=actor_of(cast.alice), at=AT)

    assert refusal.value.code == "own_quota_request"
    assert QuotaRequest.objects.get().state == "submitted"
    assert not QuotaLimit.objects.exists()
    assert audit_actions() == ["quotas:request:submit"]


def test_not_even_with_a_second_role(cast: Cast) -> None:
    grant(cast.bob, Role.PLATFORM_ADMIN)
    request = submit(cast)

    with pytest.raises(OwnQuotaRequestError):
        approve_request(request_id=request.pk, actor=actor_of(cast.bob), at=AT)

    assert not QuotaLimit.objects.exists()


@pytest.mark.parametrize("name", ["bob", "carol", "dora", "ann", "mallory"])
@pytest.mark.parametrize("decide", [approve_request, reject_request])
def test_who_may_not_decide_for_the_organization_is_refused(
    cast: Cast, name: str, decide: Callable[..., QuotaRequest]
) -> None:
    request = submit(cast, actor=actor_of(cast.alice))

    with pytest.raises(ForbiddenError):
        decide(request_id=request.pk, actor=actor_of(getattr(cast, name)), at=AT)

    assert QuotaRequest.objects.get().state == "submitted"
    assert not QuotaLimit.objects.exists()


def test_a_program_does_not_decide(cast: Cast) -> None:
    request = submit(cast)
    account = Actor(ActorKind.SERVICE_ACCOUNT, "x", "robot", actor_of(cast.alice).grants)

    for actor in (account, system_actor("tests")):
        with pytest.raises(PersonRequiredError):
            approve_request(request_id=request.pk, actor=actor, at=AT)

    assert QuotaRequest.objects.get().state == "submitted"


def test_an_approval_that_would_break_the_tree_shows_every_violation(cast: Cast) -> None:
    make_limit(cast.acme, units=6)
    make_limit(cast.acme, cast.vision, units=4)
    make_limit(cast.acme, cast.llm, cast.carol, units=5)
    request = submit(cast, requested_units=3)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        approve_request(request_id=request.pk, actor=actor_of(cast.alice), at=AT)

    assert [(p.field, p.code) for p in refusal.value.problems] == [
        ("requested_units", "projects_exceed_organization"),
        ("requested_units", "user_exceeds_project"),
    ]
    assert QuotaRequest.objects.get().state == "submitted"
    assert not QuotaLimit.objects.filter(project=cast.llm, user=None).exists()
    assert audit_actions() == ["quotas:request:submit"]


def test_a_request_made_under_another_limit_is_not_approved(cast: Cast) -> None:
    first, second = submit(cast, requested_units=8), submit(cast, requested_units=6)
    approve_request(request_id=first.pk, actor=actor_of(cast.alice), at=AT)

    with pytest.raises(QuotaRequestOutdatedError) as refusal:
        approve_request(request_id=second.pk, actor=actor_of(cast.alice), at=AT)

    assert refusal.value.facts == {"units_before": None, "units_now": 8}
    assert QuotaLimit.objects.get().limit_units == 8


def test_a_rejected_request_grants_nothing_and_stays_rejected(cast: Cast) -> None:
    request = submit(cast)
    reject_request(request_id=request.pk, note="No.", actor=actor_of(cast.alice), at=AT)
    reject_request(request_id=request.pk, note="No!", actor=actor_of(cast.frank), at=AT)

    with pytest.raises(QuotaRequestDecidedError):
        approve_request(request_id=request.pk, actor=actor_of(cast.alice), at=AT)

    request.refresh_from_db()
    assert (request.state, request.decision_note) == ("rejected", "No.")
    assert not QuotaLimit.objects.exists()
    assert audit_actions() == ["quotas:request:submit", "quotas:request:reject"]


def test_anyone_who_may_ask_may_withdraw(cast: Cast) -> None:
    request = submit(cast)

    cancelled = cancel_request(request_id=request.pk, actor=actor_of(cast.bob), at=AT)
    again = cancel_request(request_id=request.pk, actor=actor_of(cast.bob), at=AT)

    assert cancelled.state == again.state == "cancelled"
    assert audit_actions() == ["quotas:request:submit", "quotas:request:cancel"]


@pytest.mark.parametrize("name", ["carol", "mallory", "ann"])
def test_nobody_else_withdraws(cast: Cast, name: str) -> None:
    request = submit(cast)

    with pytest.raises(ForbiddenError):
        cancel_request(request_id=request.pk, actor=actor_of(getattr(cast, name)), at=AT)

    assert QuotaRequest.objects.get().state == "submitted"


def test_an_approved_request_is_not_withdrawn(cast: Cast) -> None:
    request = submit(cast)
    approve_request(request_id=request.pk, actor=actor_of(cast.alice), at=AT)

    with pytest.raises(QuotaRequestDecidedError):
        cancel_request(request_id=request.pk, actor=actor_of(cast.bob), at=AT)

    assert QuotaLimit.objects.get().limit_units == 8


@pytest.mark.parametrize("decide", [approve_request, reject_request, cancel_request])
def test_a_request_that_is_not_there_and_a_note_that_cannot_be_kept_are_refused(
    cast: Cast, decide: Callable[..., QuotaRequest]
) -> None:
    request = submit(cast)

    with pytest.raises(NotFoundError):
        decide(request_id=new_id(), actor=actor_of(cast.alice), at=AT)
    with pytest.raises(QuotaInputError):
        decide(request_id=request.pk, note="x" * 4_001, actor=actor_of(cast.alice), at=AT)

    assert QuotaRequest.objects.get().state == "submitted"
    assert AuditEntry.objects.count() == 1


def test_nobody_decides_what_is_for_themselves(cast: Cast) -> None:
    request = submit(cast, user=cast.alice)

    for decide in (approve_request, reject_request):
        with pytest.raises(OwnQuotaRequestError, match="is for you"):
            decide(request_id=request.pk, actor=actor_of(cast.alice), at=AT)

    request.refresh_from_db()
    assert request.state == "submitted"
    assert not QuotaLimit.objects.exists()


def test_the_database_keeps_people_from_approving_what_is_for_themselves(cast: Cast) -> None:
    request = submit(cast, user=cast.alice)

    with pytest.raises(IntegrityError, match="approver_is_not_user"):
        QuotaRequest.objects.filter(pk=request.pk).update(
            state="approved", decided_by=cast.alice, decided_at=AT
        )

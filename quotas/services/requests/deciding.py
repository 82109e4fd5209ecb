"""Decide quota requests: step by step, exactly once, by people other than the requester."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from quotas.domain.errors import (
    OwnQuotaRequestError,
    PersonRequiredError,
    QuotaHierarchyBrokenError,
    QuotaRequestDecidedError,
    QuotaRequestDecidedTwiceError,
)
from quotas.domain.limits.input import note_problems, refuse_problems
from quotas.domain.requests.routing import (
    LADDER,
    OUTCOME,
    SUBMITTED,
    RequestLevel,
    RequestMove,
    raised,
)
from quotas.models import QuotaRequest, RequestState, RequestStep, StepOutcome
from quotas.selectors.locks import lock_holders_of, lock_request
from quotas.selectors.requests import policy_of
from quotas.services.requests.granting import as_visible_to, grant_request, refuse_outdated
from quotas.services.requests.news import notify_deciders, notify_decision
from tenants.access import require_capability
from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import NotFoundError
from tenants.services.audit import record

SUBMIT: Final = "quotas:request:submit"
DECIDE: Final = "quotas:request:decide"
FUND: Final = "quotas:request:fund"
REVIEW: Final = "quotas:request:review"


@transaction.atomic
def approve_request(
    *, request_id: UUID, note: str = "", actor: Actor, at: datetime
) -> QuotaRequest:
    """Approve the open step; the last approval puts the request into force.

    Approving what is approved changes nothing and returns the request as it was decided.

    Raises:
        NotFoundError: There is no such request.
        QuotaInputError: The note cannot be kept.
        ForbiddenError: The actor may not decide the open step.
        OwnQuotaRequestError: The actor made the request, or it is for them.
        QuotaRequestDecidedTwiceError: The actor decided an earlier step.
        QuotaRequestDecidedError: It was rejected, withdrawn, or has expired.
        QuotaRequestOutdatedError: The limit has changed since it was asked.
        QuotaHierarchyBrokenError: The tree of limits would break its rules; every violation is
            reported, with the numbers of limits the actor may read.
    """
    request = _locked_for_decision(request_id, note=note, actor=actor)
    if not moves(request, RequestMove.APPROVE):
        return request
    person_id = person_of(actor=actor)
    _refuse_twice(request, person_id=person_id)
    refuse_outdated(request, at=at)
    step = open_step(request)
    if step is not None:
        _sign(step, StepOutcome.APPROVED, person_id=person_id, note=note, at=at)
    if open_next(request, at=at) is not None:
        request.version += 1
        request.save(update_fields=["version"])
        record_request(request, "approve_step", actor=actor, at=at)
        return request
    lock_holders_of(request)
    try:
        grant_request(request, actor=actor, at=at)
    except QuotaHierarchyBrokenError as error:
        raise as_visible_to(error, request=request, actor=actor) from error
    return finish(request, RequestMove.APPROVE, note=note, actor=actor, at=at)


@transaction.atomic
def reject_request(*, request_id: UUID, note: str = "", actor: Actor, at: datetime) -> QuotaRequest:
    """Reject a request at any step; the limit stays. Rejecting again changes nothing.

    Raises:
        NotFoundError: There is no such request.
        QuotaInputError: The note cannot be kept.
        ForbiddenError: The actor may not decide the open step.
        OwnQuotaRequestError: The actor made the request, or it is for them.
        QuotaRequestDecidedTwiceError: The actor decided an earlier step.
        QuotaRequestDecidedError: It was approved, withdrawn, or has expired.
    """
    request = _locked_for_decision(request_id, note=note, actor=actor)
    if not moves(request, RequestMove.REJECT):
        return request
    person_id = person_of(actor=actor)
    _refuse_twice(request, person_id=person_id)
    step = open_step(request)
    if step is not None:
        _sign(step, StepOutcome.REJECTED, person_id=person_id, note=note, at=at)
    return finish(request, RequestMove.REJECT, note=note, actor=actor, at=at)


@transaction.atomic
def cancel_request(*, request_id: UUID, note: str = "", actor: Actor, at: datetime) -> QuotaRequest:
    """Withdraw an undecided request. Cancelling again changes nothing.

    Raises:
        NotFoundError: There is no such request.
        QuotaInputError: The note cannot be kept.
        ForbiddenError: The actor may not request for this project.
        PersonRequiredError: The actor is not a person.
        QuotaRequestDecidedError: It was approved or rejected, or has expired.
    """
    refuse_problems(note_problems(note))
    request = _locked(request_id)
    require_capability(
        actor,
        SUBMIT,
        organization_id=request.organization_id,
        project_id=request.project_id,
    )
    person_of(actor=actor)
    if not moves(request, RequestMove.CANCEL):
        return request
    return finish(request, RequestMove.CANCEL, note=note, actor=actor, at=at)


def _locked(request_id: UUID) -> QuotaRequest:
    request = lock_request(request_id)
    if request is None:
        raise NotFoundError("There is no such quota request.")
    return request


def _locked_for_decision(request_id: UUID, *, note: str, actor: Actor) -> QuotaRequest:
    """Lock and return a request that the actor may decide now; never their own."""
    refuse_problems(note_problems(note))
    request = _locked(request_id)
    _refuse_own(request, actor=actor)
    step = open_step(request)
    require_capability(actor, **_duty(_level_of(step), request=request))
    person_of(actor=actor)
    return request


def _refuse_own(request: QuotaRequest, *, actor: Actor) -> None:
    """Refuse the requester and the user it is for before the role check: no role would help."""
    if actor.kind is not ActorKind.PERSON:
        return
    if request.requested_by_id == int(actor.id):
        raise OwnQuotaRequestError("You made this request, so somebody else decides it.")
    if request.user_id == int(actor.id):
        raise OwnQuotaRequestError("This request is for you, so somebody else decides it.")


def _refuse_twice(request: QuotaRequest, *, person_id: int) -> None:
    if RequestStep.objects.filter(request=request, decided_by_id=person_id).exists():
        raise QuotaRequestDecidedTwiceError("You decided an earlier step of this request.")


def moves(request: QuotaRequest, move: RequestMove) -> bool:
    """Whether a move changes the request; False when it has been made before.

    Raises:
        QuotaRequestDecidedError: The request ended in another way.
    """
    if request.state not in {SUBMITTED, OUTCOME[move]}:
        raise QuotaRequestDecidedError(
            f"The request is {request.state}; it can no longer be {OUTCOME[move]}.",
            facts={"state": str(request.state)},
        )
    return request.state == SUBMITTED


def person_of(*, actor: Actor) -> int:
    """Return the primary key of the person behind an actor.

    Raises:
        PersonRequiredError: It is a program.
    """
    if actor.kind is not ActorKind.PERSON:
        raise PersonRequiredError("Quota requests are made and decided by people.")
    return int(actor.id)


def finish(
    request: QuotaRequest, move: RequestMove, *, note: str, actor: Actor, at: datetime
) -> QuotaRequest:
    """End a request: close its open steps and notify the requester."""
    request.state = RequestState(OUTCOME[move])
    request.decided_by_id = int(actor.id) if actor.kind is ActorKind.PERSON else None
    request.decided_at = at
    request.decision_note = note
    request.version += 1
    request.save(
        update_fields=[
            "state",
            "decided_by",
            "decided_at",
            "decision_note",
            "is_automatic",
            "version",
        ]
    )
    RequestStep.objects.filter(
        request=request, outcome__in=(StepOutcome.WAITING, StepOutcome.OPEN)
    ).update(outcome=StepOutcome.CLOSED)
    record_request(request, move.value, actor=actor, at=at)
    if move is not RequestMove.CANCEL:
        notify_decision(request, at=at)
    return request


def record_request(request: QuotaRequest, verb: str, *, actor: Actor, at: datetime) -> None:
    """Leave the entry of what happened to a request."""
    record(
        actor=actor,
        at=at,
        action=f"quotas:request:{verb}",
        object_kind="quota_request",
        object_id=request.pk,
        organization_id=request.organization_id,
        facts={
            "project_id": str(request.project_id),
            "user": None if request.user is None else request.user.username,
            "size": request.size,
            "model_group": request.model_group,
            "cluster": None if request.cluster is None else request.cluster.slug,
            "requested_units": request.requested_units,
            "burst_units": request.burst_units,
            "begin_at": None if request.begin_at is None else request.begin_at.isoformat(),
            "end_at": None if request.end_at is None else request.end_at.isoformat(),
            "units_before": request.units_before,
            "is_automatic": request.is_automatic,
            "state": str(request.state),
        },
    )


def make_steps(
    request: QuotaRequest,
    levels: Iterable[RequestLevel],
    *,
    escalate_after: timedelta | None,
    at: datetime,
) -> None:
    """Store the deciding levels of a request, open the first step, and notify its deciders."""
    steps = [
        RequestStep(request=request, position=position, level=level.value)
        for position, level in enumerate(levels)
    ]
    steps[0].outcome = StepOutcome.OPEN
    steps[0].escalates_at = None if escalate_after is None else at + escalate_after
    RequestStep.objects.bulk_create(steps)
    notify_deciders(request, steps[0], at=at)


def open_step(request: QuotaRequest) -> RequestStep | None:
    """Return the open step; None when there is none."""
    return RequestStep.objects.filter(request=request, outcome=StepOutcome.OPEN).first()


def open_next(request: QuotaRequest, *, at: datetime) -> RequestStep | None:
    """Open the next step, and notify its deciders; None when all are decided."""
    waiting = RequestStep.objects.filter(request=request, outcome=StepOutcome.WAITING)
    step = waiting.order_by("position").first()
    if step is None:
        return None
    escalate_after = policy_of(request.organization_id).escalate_after
    step.outcome = StepOutcome.OPEN
    step.escalates_at = None if escalate_after is None else at + escalate_after
    step.save(update_fields=["outcome", "escalates_at"])
    notify_deciders(request, step, at=at)
    return step


def _sign(
    step: RequestStep, outcome: StepOutcome, *, person_id: int, note: str, at: datetime
) -> None:
    """Write down what a person decided."""
    step.outcome, step.decided_by_id = outcome, person_id
    step.decided_at, step.note = at, note
    step.save(update_fields=["outcome", "decided_by", "decided_at", "note"])


def raise_step(
    request: QuotaRequest, step: RequestStep, *, escalate_after: timedelta, at: datetime
) -> bool:
    """Escalate to the next level; False at the highest.

    If the next step has that level already, it is opened. Otherwise the step itself moves up. A
    step of finance is never skipped.
    """
    above = raised(RequestLevel(step.level))
    if above is None:
        return False
    following = RequestStep.objects.filter(
        request=request, outcome=StepOutcome.WAITING, level=above.value
    )
    if following.exists():
        step.outcome = StepOutcome.ESCALATED
        step.save(update_fields=["outcome"])
        following.update(is_raised=True)
        open_next(request, at=at)
        return True
    step.level, step.is_raised = above.value, True
    step.escalates_at = at + escalate_after
    step.save(update_fields=["level", "is_raised", "escalates_at"])
    notify_deciders(request, step, at=at)
    return True


def _level_of(step: RequestStep | None) -> RequestLevel:
    """Return the level that decides; without open steps it is the organization's."""
    return RequestLevel.ORGANIZATION_ADMIN if step is None else RequestLevel(step.level)


def _duty(level: RequestLevel, *, request: QuotaRequest) -> dict[str, Any]:
    """Return the capability that decides at a level, and over what."""
    organization = {"organization_id": request.organization_id}
    project = {**organization, "project_id": request.project_id}
    duties: dict[RequestLevel, dict[str, Any]] = {
        RequestLevel.PROJECT_LEAD: {"capability": REVIEW, **project},
        RequestLevel.ORGANIZATION_ADMIN: {"capability": DECIDE, **organization},
        RequestLevel.PLATFORM: {"capability": DECIDE},
        RequestLevel.FINANCE: {"capability": FUND},
    }
    return duties[level]


def may_decide(request: QuotaRequest, *, actor: Actor) -> bool:
    """Whether an actor may decide now: not their own request, not one for them, and not twice."""
    if request.state != RequestState.SUBMITTED or actor.kind is not ActorKind.PERSON:
        return False
    person_id = int(actor.id)
    if person_id in {request.requested_by_id, request.user_id}:
        return False
    level = _level_of(open_step(request))
    has_decided = RequestStep.objects.filter(request=request, decided_by_id=person_id)
    return actor.may(**_duty(level, request=request)) and not has_decided.exists()


def highest_level(*, actor: Actor, request: QuotaRequest) -> RequestLevel | None:
    """Return the highest level that an actor has; None for none."""
    for level in reversed(LADDER):
        if actor.may(**_duty(level, request=request)):
            return level
    return None

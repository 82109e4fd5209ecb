"""Decide quota requests: step by step, exactly once, by people other than the requester."""

from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from quotas.domain.errors import OwnQuotaRequestError, QuotaHierarchyBrokenError
from quotas.domain.limits.input import note_problems, refuse_problems
from quotas.domain.requests.routing import RequestMove
from quotas.models import QuotaRequest, StepOutcome
from quotas.protocols.costs import CostEstimator
from quotas.selectors.locks import lock_request
from quotas.selectors.requests import policy_of
from quotas.services.requests.asking import SUBMIT, RequestDraft, make_request
from quotas.services.requests.granting import as_seen, grant_request, refuse_outdated
from quotas.services.requests.steps import (
    open_next,
    open_step,
    refuse_twice,
    require_turn,
    sign_step,
)
from quotas.services.requests.trail import finish, moves, person_of, record_request
from tenants.access import require_capability
from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import NotFoundError
from tenants.models import Cluster, Project


@transaction.atomic
def submit_request(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    project: Project,
    size: str,
    requested_units: int,
    justification: str,
    user: User | None = None,
    model_group: str = "",
    cluster: Cluster | None = None,
    burst_units: int | None = None,
    begin_at: datetime | None = None,
    end_at: datetime | None = None,
    supersedes: QuotaRequest | None = None,
    estimator: CostEstimator | None = None,
    actor: Actor,
    at: datetime,
) -> QuotaRequest:
    """Request a total number of units of a size for a project or a user in it.

    Args:
        project: The project.
        size: "small", "medium" or "large".
        requested_units: The requested total, never the difference.
        justification: What for.
        user: The user in the project it is for; None for the whole project.
        model_group: Such as "H100"; "" for every model.
        cluster: None for every cluster.
        burst_units: The requested total of burst units; None leaves them as they are.
        begin_at: UTC; None is from the approval on.
        end_at: UTC; None is without end.
        supersedes: An undecided request that this one replaces; it is withdrawn.
        estimator: Source of prices; None without one.
        actor: The account that asks.
        at: When, UTC.

    Raises:
        DomainError: As `make_request`.
    """
    draft = RequestDraft(
        project=project,
        size=size,
        requested_units=requested_units,
        justification=justification,
        user=user,
        model_group=model_group,
        cluster=cluster,
        burst_units=burst_units,
        begin_at=begin_at,
        end_at=end_at,
        supersedes=supersedes,
    )
    return make_request(draft=draft, estimator=estimator, actor=actor, at=at)


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
    refuse_twice(request, person_id=person_id)
    refuse_outdated(request, at=at)
    step = open_step(request)
    if step is not None:
        sign_step(step, StepOutcome.APPROVED, person_id=person_id, note=note, at=at)
    escalate_after = policy_of(request.organization_id).escalate_after
    if open_next(request, escalate_after=escalate_after, at=at) is not None:
        request.version += 1
        request.save(update_fields=["version"])
        record_request(request, "approve_step", actor=actor, at=at)
        return request
    try:
        grant_request(request, actor=actor, at=at)
    except QuotaHierarchyBrokenError as error:
        raise as_seen(error, request=request, actor=actor) from error
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
    refuse_twice(request, person_id=person_id)
    step = open_step(request)
    if step is not None:
        sign_step(step, StepOutcome.REJECTED, person_id=person_id, note=note, at=at)
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
    require_turn(request, open_step(request), actor=actor)
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

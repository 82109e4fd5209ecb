"""Writing quota requests: asked by one person, decided by another, exactly once."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.errors import (
    OwnQuotaRequestError,
    PersonRequiredError,
    QuotaRequestOutdatedError,
)
from quotas.domain.limit_input import (
    justification_problems,
    note_problems,
    refuse_problems,
    size_problems,
    units_problems,
)
from quotas.domain.request_state import RequestMove, next_state
from quotas.models import QuotaRequest, RequestState
from quotas.selectors.limits import project_limit_units
from quotas.selectors.locks import lock_limit_path, lock_request
from quotas.services.holders import Holder
from quotas.services.limits import write_limit
from tenants.access import require_capability
from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import NotFoundError
from tenants.domain.refusals import ProjectClosedError
from tenants.models import Project
from tenants.models.organization import LifecycleState
from tenants.services.audit import record

SUBMIT = "quotas:request:submit"
DECIDE = "quotas:request:decide"


@transaction.atomic
def submit_request(
    *,
    project: Project,
    size: str,
    requested_units: int,
    justification: str,
    actor: Actor,
    at: datetime,
) -> QuotaRequest:
    """Ask for a project's limit of one size to become a number. Nothing is granted by asking.

    Raises:
        QuotaInputError: Size, units or justification are wrong; every problem is told.
        ForbiddenError: The actor may not ask for this project.
        PersonRequiredError: The actor is no person.
        ProjectClosedError: The project is closed.
    """
    refuse_problems(
        (
            *size_problems(size),
            *units_problems(requested_units, field="requested_units"),
            *justification_problems(justification),
        )
    )
    require_capability(
        actor, SUBMIT, organization_id=project.organization_id, project_id=project.pk
    )
    person_id = _person_id(actor)
    lock_limit_path(organization_id=project.organization_id, project_id=project.pk, user_id=None)
    if not Project.objects.filter(pk=project.pk, state=LifecycleState.ACTIVE).exists():
        raise ProjectClosedError(f"{project.name} is closed.", field="project")
    request = QuotaRequest.objects.create(
        organization_id=project.organization_id,
        project=project,
        size=size,
        requested_units=requested_units,
        units_before=project_limit_units(project_id=project.pk, size=size),
        justification=justification,
        requested_by_id=person_id,
        created_at=at,
    )
    _record(request, "submit", actor=actor, at=at)
    return request


@transaction.atomic
def approve_request(
    *, request_id: UUID, note: str = "", actor: Actor, at: datetime
) -> QuotaRequest:
    """Grant a request: the project's limit becomes what was asked, in the same transaction.

    Approving again changes nothing and returns the request as it was decided.

    Raises:
        NotFoundError: There is no such request.
        QuotaInputError: The note cannot be kept.
        ForbiddenError: The actor may not decide for the organization.
        OwnQuotaRequestError: The actor made the request.
        QuotaRequestDecidedError: It was rejected or withdrawn.
        QuotaRequestOutdatedError: The limit has changed since it was asked.
        QuotaHierarchyBrokenError: The tree of limits would not hold; every violation is told.
    """
    request = _locked_for_decision(request_id, note=note, actor=actor)
    if not _moves(request, RequestMove.APPROVE):
        return request
    _refuse_outdated(request)
    write_limit(
        holder=Holder(request.organization, request.project),
        size=GPUSize(request.size),
        limit_units=request.requested_units,
        blame="requested_units",
        actor=actor,
        at=at,
    )
    return _decide(request, RequestMove.APPROVE, note=note, actor=actor, at=at)


@transaction.atomic
def reject_request(*, request_id: UUID, note: str = "", actor: Actor, at: datetime) -> QuotaRequest:
    """Turn a request down; the limit stays. Rejecting again changes nothing.

    Raises:
        NotFoundError: There is no such request.
        QuotaInputError: The note cannot be kept.
        ForbiddenError: The actor may not decide for the organization.
        OwnQuotaRequestError: The actor made the request.
        QuotaRequestDecidedError: It was approved or withdrawn.
    """
    request = _locked_for_decision(request_id, note=note, actor=actor)
    if not _moves(request, RequestMove.REJECT):
        return request
    return _decide(request, RequestMove.REJECT, note=note, actor=actor, at=at)


@transaction.atomic
def cancel_request(*, request_id: UUID, note: str = "", actor: Actor, at: datetime) -> QuotaRequest:
    """Withdraw a request that nobody has decided. Cancelling again changes nothing.

    Raises:
        NotFoundError: There is no such request.
        QuotaInputError: The note cannot be kept.
        ForbiddenError: The actor may not ask for this project.
        PersonRequiredError: The actor is no person.
        QuotaRequestDecidedError: It was approved or rejected.
    """
    refuse_problems(note_problems(note))
    request = _locked(request_id)
    require_capability(
        actor,
        SUBMIT,
        organization_id=request.organization_id,
        project_id=request.project_id,
    )
    if not _moves(request, RequestMove.CANCEL):
        return request
    return _decide(request, RequestMove.CANCEL, note=note, actor=actor, at=at)


def _locked(request_id: UUID) -> QuotaRequest:
    request = lock_request(request_id)
    if request is None:
        raise NotFoundError("There is no such quota request.")
    return request


def _locked_for_decision(request_id: UUID, *, note: str, actor: Actor) -> QuotaRequest:
    """Return a locked request that the actor may decide: not their own."""
    refuse_problems(note_problems(note))
    request = _locked(request_id)
    require_capability(actor, DECIDE, organization_id=request.organization_id)
    if request.requested_by_id == _person_id(actor):
        raise OwnQuotaRequestError("You made this request, so somebody else decides it.")
    return request


def _person_id(actor: Actor) -> int:
    """Return the primary key of the person behind an actor."""
    if actor.kind is not ActorKind.PERSON:
        raise PersonRequiredError("Quota requests are made and decided by people.")
    return int(actor.id)


def _moves(request: QuotaRequest, move: RequestMove) -> bool:
    """Whether a move changes the request; False when it has been made before."""
    return next_state(request.state, move) != request.state


def _refuse_outdated(request: QuotaRequest) -> None:
    units_now = project_limit_units(project_id=request.project_id, size=request.size)
    if units_now != request.units_before:
        raise QuotaRequestOutdatedError(
            f"The limit is {_told(units_now)} now; it was {_told(request.units_before)} when this "
            "was asked.",
            facts={"units_before": request.units_before, "units_now": units_now},
        )


def _told(units: int | None) -> str:
    return "not set" if units is None else str(units)


def _decide(
    request: QuotaRequest, move: RequestMove, *, note: str, actor: Actor, at: datetime
) -> QuotaRequest:
    request.state = RequestState(next_state(request.state, move))
    request.decided_by_id = _person_id(actor)
    request.decided_at = at
    request.decision_note = note
    request.version += 1
    request.save(update_fields=["state", "decided_by", "decided_at", "decision_note", "version"])
    _record(request, move.value, actor=actor, at=at)
    return request


def _record(request: QuotaRequest, verb: str, *, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action=f"quotas:request:{verb}",
        object_kind="quota_request",
        object_id=request.pk,
        organization_id=request.organization_id,
        facts={
            "project_id": str(request.project_id),
            "size": request.size,
            "requested_units": request.requested_units,
            "units_before": request.units_before,
            "state": str(request.state),
        },
    )

"""What every change of a request leaves: its state, an audit entry, and news of it."""

from datetime import datetime

from quotas.domain.errors import PersonRequiredError
from quotas.domain.requests.routing import RequestMove, next_state
from quotas.models import QuotaRequest, RequestState
from quotas.services.requests.news import tell_decided
from quotas.services.requests.steps import close_steps
from tenants.domain.actors import Actor, ActorKind
from tenants.services.audit import record


def moves(request: QuotaRequest, move: RequestMove) -> bool:
    """Whether a move changes the request; False when it has been made before.

    Raises:
        QuotaRequestDecidedError: The request ended in another way.
    """
    return next_state(request.state, move) != request.state


def finish(
    request: QuotaRequest, move: RequestMove, *, note: str, actor: Actor, at: datetime
) -> QuotaRequest:
    """End a request: close its open steps and notify the requester."""
    request.state = RequestState(next_state(request.state, move))
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
    close_steps(request)
    record_request(request, move.value, actor=actor, at=at)
    if move is not RequestMove.CANCEL:
        tell_decided(request, at=at)
    return request


def person_of(*, actor: Actor) -> int:
    """Return the primary key of the person behind an actor.

    Raises:
        PersonRequiredError: It is a program.
    """
    if actor.kind is not ActorKind.PERSON:
        raise PersonRequiredError("Quota requests are made and decided by people.")
    return int(actor.id)


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
            "begin_at": _moment_text(request.begin_at),
            "end_at": _moment_text(request.end_at),
            "units_before": request.units_before,
            "is_automatic": request.is_automatic,
            "state": str(request.state),
        },
    )


def _moment_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()

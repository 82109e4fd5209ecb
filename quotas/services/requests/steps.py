"""Steps of requests: permission to decide the open one, and the transitions."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from quotas.domain.errors import QuotaRequestDecidedTwiceError
from quotas.domain.requests.routing import LADDER, RequestLevel, raised
from quotas.models import QuotaRequest, RequestState, RequestStep, StepOutcome
from quotas.services.requests.news import tell_turn
from tenants.access import require_capability
from tenants.domain.actors import Actor, ActorKind

DECIDE: Final = "quotas:request:decide"
FUND: Final = "quotas:request:fund"
REVIEW: Final = "quotas:request:review"
UNDECIDED: Final = (StepOutcome.WAITING, StepOutcome.OPEN)


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
    RequestStep.objects.bulk_create(steps)
    open_next(request, escalate_after=escalate_after, at=at)


def open_step(request: QuotaRequest) -> RequestStep | None:
    """Return the open step; None when there is none."""
    return RequestStep.objects.filter(request=request, outcome=StepOutcome.OPEN).first()


def open_next(
    request: QuotaRequest, *, escalate_after: timedelta | None, at: datetime
) -> RequestStep | None:
    """Open the next step, and notify its deciders; None when all are decided."""
    step = (
        RequestStep.objects.filter(request=request, outcome=StepOutcome.WAITING)
        .order_by("position")
        .first()
    )
    if step is None:
        return None
    step.outcome = StepOutcome.OPEN
    step.escalates_at = None if escalate_after is None else at + escalate_after
    step.save(update_fields=["outcome", "escalates_at"])
    tell_turn(request, step, at=at)
    return step


def require_turn(request: QuotaRequest, step: RequestStep | None, *, actor: Actor) -> None:
    """Raise if an actor has neither the level of a step nor a higher one.

    Args:
        request: Its scope counts.
        step: None for a request without open steps: then the organization's administrators may
            decide.
        actor: The account that decides.

    Raises:
        ForbiddenError: The actor does not.
    """
    level = RequestLevel.ORGANIZATION_ADMIN if step is None else RequestLevel(step.level)
    require_capability(actor, **_duty(level, request=request))


def stands_at(level: RequestLevel, *, actor: Actor, request: QuotaRequest) -> bool:
    """Whether an actor may decide a step of a level."""
    return actor.may(**_duty(level, request=request))


def may_decide(request: QuotaRequest, *, actor: Actor) -> bool:
    """Whether an actor may decide now: not their own request, not one for them, and not twice."""
    if request.state != RequestState.SUBMITTED or actor.kind is not ActorKind.PERSON:
        return False
    person_id = int(actor.id)
    if person_id in {request.requested_by_id, request.user_id}:
        return False
    step = open_step(request)
    level = RequestLevel.ORGANIZATION_ADMIN if step is None else RequestLevel(step.level)
    has_decided = RequestStep.objects.filter(request=request, decided_by_id=person_id)
    return stands_at(level, actor=actor, request=request) and not has_decided.exists()


def highest_level(*, actor: Actor, request: QuotaRequest) -> RequestLevel | None:
    """Return the highest level that an actor has; None for none."""
    for level in reversed(LADDER):
        if stands_at(level, actor=actor, request=request):
            return level
    return None


def refuse_twice(request: QuotaRequest, *, person_id: int) -> None:
    """Raise if a person decided an earlier step of the request.

    Raises:
        QuotaRequestDecidedTwiceError: They did.
    """
    if RequestStep.objects.filter(request=request, decided_by_id=person_id).exists():
        raise QuotaRequestDecidedTwiceError("You decided an earlier step of this request.")


def sign_step(
    step: RequestStep, outcome: StepOutcome, *, person_id: int, note: str, at: datetime
) -> None:
    """Write down what a person decided."""
    step.outcome, step.decided_by_id = outcome, person_id
    step.decided_at, step.note = at, note
    step.save(update_fields=["outcome", "decided_by", "decided_at", "note"])


def close_steps(request: QuotaRequest) -> None:
    """Close the steps that will not be opened."""
    RequestStep.objects.filter(request=request, outcome__in=UNDECIDED).update(
        outcome=StepOutcome.CLOSED
    )


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
        open_next(request, escalate_after=escalate_after, at=at)
        return True
    step.level, step.is_raised = above.value, True
    step.escalates_at = at + escalate_after
    step.save(update_fields=["level", "is_raised", "escalates_at"])
    tell_turn(request, step, at=at)
    return True


def _duty(level: RequestLevel, *, request: QuotaRequest) -> dict[str, Any]:
    """Return the capability that decides at a level, and over what."""
    organization = {"organization_id": request.organization_id}
    duties: dict[RequestLevel, dict[str, Any]] = {
        RequestLevel.PROJECT_LEAD: {
            "capability": REVIEW,
            **organization,
            "project_id": request.project_id,
        },
        RequestLevel.ORGANIZATION_ADMIN: {"capability": DECIDE, **organization},
        RequestLevel.PLATFORM: {"capability": DECIDE},
        RequestLevel.FINANCE: {"capability": FUND},
    }
    return duties[level]

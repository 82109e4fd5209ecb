"""One turn of a preemption plan: leased steps, the cluster's answers, and their storage."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction

from metering.domain.collection.crashpoints import crashpoint
from quotas.domain.preemption.states import PlanState, StepState
from quotas.models import PreemptionAction, PreemptionPlan, PreemptionStep
from quotas.protocols.workloads import EvictionOutcome
from tenants.domain.actors import Actor
from tenants.services.audit import record

RETRY_AFTER: Final = timedelta(seconds=30)
"""After the first time a cluster did not allow it; twice as long after each further one."""
RETRY_AFTER_MAX: Final = timedelta(minutes=10)
DOUBLINGS_MAX: Final = 10
TRIES_MAX: Final = 30
"""Some five hours: a budget that has not yielded by then waits for a person."""
UNANSWERED: Final = "unanswered"
"""The outcome of a step whose cluster did not answer."""
UNNEEDED: Final = "unneeded"
"""The outcome of a step that need not be taken any more."""


@dataclass(frozen=True)
class Turn:
    """The steps one worker has claimed: a whole gang.

    Attributes:
        otherwise: "" to end the gang. Else its worker died, and only whether its Job is suspended
            is asked; this is the outcome where it is not.
    """

    plan_id: UUID
    organization_id: UUID
    fence: int
    steps: tuple[PreemptionAction, ...]
    otherwise: str = ""


@dataclass(frozen=True)
class StepAnswer:
    """The result of one step.

    Attributes:
        outcome: The cluster's answer, or `UNANSWERED`.
        job_uid: Uid of the suspended Job; "" without one.
    """

    outcome: str
    step: PreemptionStep
    message: str = ""
    retry_after: timedelta | None = None
    job_uid: str = ""


@transaction.atomic
def settle_turn(
    turn: Turn,
    answers: dict[int, StepAnswer],
    *,
    next_at: datetime,
    actor: Actor,
    at: datetime,
) -> None:
    """Store the cluster's answer for every step that is still leased by this turn.

    Also for a plan that was stopped meanwhile: changes that began in a cluster are recorded.
    """
    counts: dict[str, int] = {}
    for step in turn.steps:
        answer = answers[step.pk]
        written = PreemptionAction.objects.filter(
            pk=step.pk, state=StepState.CLAIMED.value, attempt=step.attempt
        ).update(**_columns(step, answer, at=at))
        if written:
            counts[answer.outcome] = counts.get(answer.outcome, 0) + 1
    PreemptionPlan.objects.filter(
        pk=turn.plan_id, state=PlanState.RUNNING.value, fence=turn.fence
    ).update(not_before=next_at, message=_message(turn, counts))
    record_turn(
        turn,
        "step",
        facts={"step": answers[turn.steps[0].pk].step.value, "outcomes": counts},
        actor=actor,
        at=at,
    )
    crashpoint("preempt.settle.before_commit")


_STATES: Final = {
    EvictionOutcome.STARTED.value: StepState.STARTED,
    EvictionOutcome.GONE.value: StepState.FREED,
    EvictionOutcome.CHANGED.value: StepState.FREED,
    EvictionOutcome.MISCONFIGURED.value: StepState.NEEDS_PERSON,
    EvictionOutcome.BLOCKED.value: StepState.BLOCKED,
    UNANSWERED: StepState.BLOCKED,
    UNNEEDED: StepState.NEEDLESS,
}


def _columns(step: PreemptionAction, answer: StepAnswer, *, at: datetime) -> dict[str, object]:
    """Return what is written of a step."""
    state = _STATES[answer.outcome]
    not_before = None
    if state is StepState.BLOCKED:
        state = StepState.BLOCKED if step.attempt < TRIES_MAX else StepState.NEEDS_PERSON
        not_before = at + max(answer.retry_after or timedelta(0), _pause(step.attempt))
    return {
        "state": state.value,
        "step": answer.step.value,
        "outcome": answer.outcome,
        "message": answer.message,
        "not_before": not_before,
        "acted_at": at,
        "job_uid": answer.job_uid,
    }


def _pause(attempt: int) -> timedelta:
    """Return how long to wait after an attempt, counted from 1."""
    return min(RETRY_AFTER_MAX, RETRY_AFTER * (1 << min(attempt - 1, DOUBLINGS_MAX)))


def _message(turn: Turn, counts: dict[str, int]) -> str:
    outcomes = ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items()))
    return f"Last step: victim {turn.steps[0].victim + 1}, {outcomes or 'overtaken'}."


def record_turn(
    turn: Turn,
    verb: str,
    *,
    facts: Mapping[str, object] | None = None,
    actor: Actor,
    at: datetime,
) -> None:
    """Write the audit entry of a batch of steps: its lease, or its result."""
    first = turn.steps[0]
    record(
        actor=actor,
        at=at,
        action=f"quotas:preemption:{verb}",
        object_kind="preemption_plan",
        object_id=turn.plan_id,
        organization_id=turn.organization_id,
        facts={
            "victim": first.victim,
            "cluster": first.cluster.slug,
            "namespace": first.namespace,
            "pods": [step.pod_name for step in turn.steps],
            "uids": [step.pod_uid for step in turn.steps],
            **(facts or {}),
        },
    )

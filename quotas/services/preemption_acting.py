"""One turn of a preemption plan: asking the cluster, and writing down what it said."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import transaction

from metering.domain.crashpoints import crashpoint
from quotas.domain.preemption_state import PlanState, StepState
from quotas.models import PreemptionAction, PreemptionPlan, PreemptionStep
from quotas.protocols import EnforcementEndpoint
from quotas.protocols.workloads import (
    EvictionAnswer,
    EvictionOutcome,
    WorkloadEvictor,
    WorkloadReference,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
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

log = structlog.get_logger(__name__)


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
    """What became of one step.

    Attributes:
        outcome: The cluster's, or `UNANSWERED`.
        job_uid: Of the Job that was suspended; "" when none was.
    """

    outcome: str
    step: PreemptionStep
    message: str = ""
    retry_after: timedelta | None = None
    job_uid: str = ""


def endpoint_of(cluster: Cluster) -> EnforcementEndpoint:
    """Return a cluster as an evictor needs to know it."""
    return EnforcementEndpoint(
        slug=cluster.slug,
        kubernetes_url=cluster.kubernetes_url,
        credential_reference=cluster.credential_reference,
    )


def act_on(turn: Turn, evictor: WorkloadEvictor) -> dict[int, StepAnswer]:
    """Ask the cluster for every claimed step, outside any transaction; by the step's key.

    The Job of the gang is suspended where there is one that can be; else each pod is evicted.
    """
    first = turn.steps[0]
    try:
        suspended = _look(turn, evictor) if turn.otherwise else _suspend(first, evictor)
    except SourceUnavailableError as error:
        return {step.pk: _unanswered(step, error) for step in turn.steps}
    if suspended is not None:
        return {step.pk: suspended for step in turn.steps}
    return {step.pk: _evict(step, evictor) for step in turn.steps}


@transaction.atomic
def settle_turn(
    turn: Turn,
    answers: dict[int, StepAnswer],
    *,
    next_at: datetime,
    actor: Actor,
    at: datetime,
) -> None:
    """Write down what the cluster said about every step that is still the one that was claimed.

    Also of a plan that was stopped meanwhile: what has begun in a cluster is told.
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
    ).update(not_before=next_at, message=_told(turn, counts))
    record_turn(
        turn,
        "step",
        told={"step": answers[turn.steps[0].pk].step.value, "outcomes": counts},
        actor=actor,
        at=at,
    )
    crashpoint("preempt.settle.before_commit")


def _look(turn: Turn, evictor: WorkloadEvictor) -> StepAnswer:
    """Return whether the Job of a gang was suspended by a worker that died; nothing is changed.

    Raises:
        SourceUnavailableError: The cluster did not answer.
    """
    first = turn.steps[0]
    name = first.controller.partition("/")[2]
    job = evictor.find_job(endpoint_of(first.cluster), namespace=first.namespace, name=name)
    if job is None or not job.is_suspended:
        message = "A worker died at it and had not suspended the Job."
        return StepAnswer(turn.otherwise, PreemptionStep.SUSPEND, message)
    return _suspended(name, job.reference.uid)


def _suspended(name: str, uid: str) -> StepAnswer:
    return StepAnswer(
        outcome=EvictionOutcome.STARTED.value,
        step=PreemptionStep.SUSPEND,
        message=f"Job {name} is suspended.",
        job_uid=uid,
    )


def _suspend(step: PreemptionAction, evictor: WorkloadEvictor) -> StepAnswer | None:
    """Suspend the Job of a gang; None when there is none that can be suspended.

    Raises:
        SourceUnavailableError: The cluster did not answer.
    """
    kind, _, name = step.controller.partition("/")
    if kind != "Job":
        return None
    endpoint = endpoint_of(step.cluster)
    job = evictor.find_job(endpoint, namespace=step.namespace, name=name)
    if job is None or not job.can_be_suspended:
        return None
    answer = evictor.suspend_job(endpoint, job.reference, is_dry_run=False)
    if answer.outcome is not EvictionOutcome.STARTED:
        # It went, or was made anew, a moment ago; its pods are still meant by their uids.
        return None
    return _suspended(name, job.reference.uid)


def _evict(step: PreemptionAction, evictor: WorkloadEvictor) -> StepAnswer:
    pod = WorkloadReference("Pod", step.namespace, step.pod_name, step.pod_uid)
    try:
        answer: EvictionAnswer = evictor.evict_pod(
            endpoint_of(step.cluster), pod, grace_seconds=None, is_dry_run=False
        )
    except SourceUnavailableError as error:
        return _unanswered(step, error)
    return StepAnswer(
        outcome=answer.outcome.value,
        step=PreemptionStep.EVICT,
        message=answer.message,
        retry_after=answer.retry_after,
    )


def _unanswered(step: PreemptionAction, error: SourceUnavailableError) -> StepAnswer:
    log.warning("quotas.preemption.unanswered", step=step.pk, reason=error.reason)
    return StepAnswer(UNANSWERED, PreemptionStep(step.step), f"{error.reason}: {error}")


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


def _told(turn: Turn, counts: dict[str, int]) -> str:
    told = ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items()))
    return f"Last step: victim {turn.steps[0].victim + 1}, {told or 'overtaken'}."


def record_turn(
    turn: Turn,
    verb: str,
    *,
    told: Mapping[str, object] | None = None,
    actor: Actor,
    at: datetime,
) -> None:
    """Leave the audit entry of a turn: of its claim, or of what came of it."""
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
            **(told or {}),
        },
    )

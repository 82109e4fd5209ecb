"""The steps of a running preemption plan: one workload per turn, each after a new check.

A turn is leased by a conditional update, the cluster is called outside any transaction, and its
answer is written only while the lease is valid. The lease of a worker that dies expires; the step
is repeated, and does nothing the second time, since the call names the pod's uid.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F

from metering.domain.collection.crashpoints import crashpoint
from quotas.domain.preemption.choice import (
    Candidate,
    are_settled,
    gangs_of,
    is_needed,
    spared_because,
)
from quotas.domain.preemption.overage import Overage, OverageKind
from quotas.domain.preemption.states import DUE_STEPS, PlanState, StepState
from quotas.models import PreemptionAction, PreemptionPlan, PreemptionStep
from quotas.protocols.workloads import EvictionOutcome, WorkloadEvictor
from quotas.selectors.preemption import Picture, picture_of, steps_of, unapplied_targets
from quotas.services.preemption.acting import (
    UNNEEDED,
    Turn,
    record_turn,
    settle_turn,
)
from quotas.services.preemption.asking import act_on
from quotas.services.preemption.planning import overage_from_json
from quotas.services.preemption.running import end_plan
from tenants.domain.actors import Actor

CYCLE: Final = timedelta(seconds=60)
"""Between two ticks; each takes at most one step of a tenant, seen in the ledger by the next."""
NEXT_TURN_AFTER: Final = CYCLE - timedelta(seconds=15)
"""Less than a cycle: otherwise a tick one millisecond early would find no turn due and lose a
cycle."""
CLAIM_FOR: Final = timedelta(seconds=240)
"""How long a worker leases a plan: longer than the time in which a tick starts turns, plus one
turn."""

log = structlog.get_logger(__name__)


@dataclass
class _PlanSteps:
    """A plan, its steps and its organization, as they are in this turn."""

    plan: PreemptionPlan
    steps: list[PreemptionAction]
    picture: Picture
    overages: tuple[Overage, ...]

    def due(self) -> list[PreemptionAction]:
        """Return the steps that may still be taken."""
        return [one for one in self.steps if StepState(one.state) in DUE_STEPS]

    def holds(self, steps: Iterable[PreemptionAction]) -> bool:
        """Whether a pod of some steps is still there."""
        there = {(pod.cluster, pod.pod_uid) for pod in self.picture.candidates}
        return any((str(step.cluster_id), step.pod_uid) in there for step in steps)

    def started(self) -> list[PreemptionAction]:
        """Return the steps whose pods are ending."""
        return [one for one in self.steps if one.state == StepState.STARTED.value]


def step_plan(
    *,
    plan_id: UUID,
    evictor: WorkloadEvictor,
    actor: Actor,
    at: datetime,
    clock_ns: Callable[[], int] = time.monotonic_ns,
) -> PlanState:
    """Take a running plan's next step, if one is due and still needed; return the new state.

    Args:
        plan_id: Which plan. One that is not due, or that another worker has, is left alone.
        evictor: Client of the clusters.
        actor: The account that acts; usually the service itself.
        at: When, UTC.
        clock_ns: Monotonic clock in nanoseconds, for the turn's deadline.

    Raises:
        PreemptionPlan.DoesNotExist: There is no such plan.
    """
    turn = _take_turn(plan_id, actor=actor, at=at)
    crashpoint("preempt.claim.after_commit")
    if turn is not None:
        answers = act_on(turn, evictor, actor=actor, at=at, clock_ns=clock_ns)
        crashpoint("preempt.after_act")
        settle_turn(turn, answers, next_at=at + NEXT_TURN_AFTER, actor=actor, at=at)
        crashpoint("preempt.settle.after_commit")
    return PlanState(PreemptionPlan.objects.values_list("state", flat=True).get(pk=plan_id))


@transaction.atomic
def _take_turn(plan_id: UUID, *, actor: Actor, at: datetime) -> Turn | None:
    """Claim the plan's next step; None when there is none to take now."""
    taken = PreemptionPlan.objects.filter(
        pk=plan_id, state=PlanState.RUNNING.value, not_before__lte=at
    ).update(fence=F("fence") + 1, not_before=at + CLAIM_FOR)
    if not taken:
        return None
    plan = PreemptionPlan.objects.select_related("organization").get(pk=plan_id)
    turn = _next_turn(plan, actor=actor, at=at)
    crashpoint("preempt.claim.before_commit")
    return turn


def _next_turn(plan: PreemptionPlan, *, actor: Actor, at: datetime) -> Turn | None:
    look = _look_at(plan, at=at)
    if plan.expires_at <= at:
        end_plan(plan, PlanState.EXPIRED, message="It ran too long.", actor=actor, at=at)
        return None
    is_settled = are_settled(look.overages, look.picture.candidates)
    dead = _dead_suspension(look, is_settled=is_settled)
    if dead:
        otherwise = UNNEEDED if look.holds(dead) else EvictionOutcome.GONE.value
        return _claim(plan, dead, actor=actor, at=at, otherwise=otherwise)
    _note_gone(look, at=at)
    if is_settled:
        _note_needless(look.due(), at=at)
        _wait_or_end(look, actor=actor, at=at)
        return None
    waiting = unapplied_targets(organization_id=plan.organization_id)
    if waiting and look.due():
        _wait(plan, f"Waits for the quota of {len(waiting)} namespaces.", at=at)
        return None
    victim = _next_victim(look, at=at)
    if not victim:
        _wait_or_end(look, actor=actor, at=at)
        return None
    return _claim(plan, victim, actor=actor, at=at)


def _look_at(plan: PreemptionPlan, *, at: datetime) -> _PlanSteps:
    steps = steps_of(plan)
    picture = picture_of(organization_id=plan.organization_id, at=at)
    stored = [overage_from_json(one) for one in plan.overage]
    yields = (
        _yield_left(one, steps, picture.candidates)
        for one in stored
        if one.kind is OverageKind.YIELD
    )
    return _PlanSteps(
        plan, steps, picture, (*picture.overages, *(one for one in yields if one.units))
    )


def _yield_left(
    overage: Overage, steps: Iterable[PreemptionAction], candidates: Iterable[Candidate]
) -> Overage:
    """Return the burst units still to release: the requested ones minus pods deleted since."""
    there = {(pod.cluster, pod.pod_uid) for pod in candidates}
    size, cluster = overage.selector.size.value, overage.selector.cluster
    gone = sum(
        one.units.get(size, 0)
        for one in steps
        if one.is_burst
        and cluster in {"", str(one.cluster_id)}
        and (str(one.cluster_id), one.pod_uid) not in there
    )
    return Overage(
        kind=overage.kind,
        limit_id=overage.limit_id,
        holder=overage.holder,
        selector=overage.selector,
        units=max(0, overage.units - gone),
    )


def _dead_suspension(look: _PlanSteps, *, is_settled: bool) -> list[PreemptionAction]:
    """Return the steps of a Job whose worker died before it stored whether the Job is suspended.

    Only where the step is not repeated: its pods are gone, or nothing is over. A suspended Job must
    be recorded, or it could not be resumed.
    """
    claimed = [
        step
        for step in look.due()
        if step.state == StepState.CLAIMED.value and step.step == PreemptionStep.SUSPEND
    ]
    gang = [step for step in claimed if step.victim == claimed[0].victim]
    return gang if is_settled or not look.holds(gang) else []


def _note_gone(look: _PlanSteps, *, at: datetime) -> None:
    """Mark every step done whose pod holds no units any more."""
    for step in (*look.due(), *look.started()):
        if not look.holds([step]):
            _write(step, StepState.FREED, message=step.message or "It is gone.", at=at)


def _note_needless(steps: Iterable[PreemptionAction], *, at: datetime) -> None:
    for step in steps:
        message = "What was over is over no more."
        if step.state == StepState.CLAIMED.value:
            message += " A worker died at it: if it had asked, the pod ends all the same."
        _write(step, StepState.NEEDLESS, message=message, at=at)


def _next_victim(look: _PlanSteps, *, at: datetime) -> list[PreemptionAction]:
    """Return the due steps of the next gang that is needed and may go; empty for none now."""
    gangs: dict[int, list[PreemptionAction]] = {}
    for step in look.due():
        gangs.setdefault(step.victim, []).append(step)
    for steps in gangs.values():
        if any(step.not_before is not None and step.not_before > at for step in steps):
            continue
        pods = _pods_of(steps, look.picture.candidates)
        spared = next((why for why in map(spared_because, pods) if why), "")
        if spared:
            for step in steps:
                message = f"It may not go now: {spared}."
                due = at + NEXT_TURN_AFTER
                _write(step, StepState.BLOCKED, message=message, not_before=due, at=at)
        elif is_needed(pods, look.overages, look.picture.candidates) or _has_begun(look, steps):
            return steps
        else:
            _note_needless(steps, at=at)
    return []


def _pods_of(steps: Sequence[PreemptionAction], candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the pods of a gang as they are now, with those that joined it since."""
    known = {(str(step.cluster_id), step.pod_uid) for step in steps}
    return [
        pod
        for gang in gangs_of(candidates).values()
        if any((one.cluster, one.pod_uid) in known for one in gang)
        for pod in gang
    ]


def _has_begun(look: _PlanSteps, steps: Sequence[PreemptionAction]) -> bool:
    """Whether the gang is partly preempted: then the rest follows, as gangs go whole."""
    victim = steps[0].victim
    is_claimed = any(step.state == StepState.CLAIMED.value for step in steps)
    return is_claimed or any(step.victim == victim for step in look.started())


def _claim(
    plan: PreemptionPlan,
    steps: list[PreemptionAction],
    *,
    actor: Actor,
    at: datetime,
    otherwise: str = "",
) -> Turn:
    """Lease the steps of a gang; audited before any cluster is called."""
    for step in steps:
        step.state = StepState.CLAIMED.value
        step.attempt += 1
        step.save(update_fields=["state", "attempt"])
    turn = Turn(plan.pk, plan.organization_id, plan.fence, tuple(steps), otherwise)
    record_turn(turn, "claim", actor=actor, at=at)
    return turn


def _wait_or_end(look: _PlanSteps, *, actor: Actor, at: datetime) -> None:
    """Wait for pods that are ending and for budgets; end the plan when there is nothing to do."""
    waiting = [*look.due(), *look.started()]
    if waiting:
        _wait(look.plan, f"Waits for {len(waiting)} pods.", at=at)
        return
    if are_settled(look.overages, look.picture.candidates):
        message = "What is held fits the limits."
        end_plan(look.plan, PlanState.DONE, message=message, actor=actor, at=at)
        return
    left = "; ".join(one.sentence for one in look.overages)
    message = f"Nothing more can be ended automatically. Still over: {left}."
    end_plan(look.plan, PlanState.STOPPED, message=message, actor=actor, at=at)


def _wait(plan: PreemptionPlan, message: str, *, at: datetime) -> None:
    plan.not_before = at + NEXT_TURN_AFTER
    plan.message = message
    plan.save(update_fields=["not_before", "message"])


def _write(
    step: PreemptionAction,
    state: StepState,
    *,
    message: str,
    at: datetime,
    not_before: datetime | None = None,
) -> None:
    step.state = state.value
    step.message = message
    step.not_before = not_before
    step.acted_at = step.acted_at or at
    step.save(update_fields=["state", "message", "not_before", "acted_at"])

"""Executing, stopping and expiring preemption plans: the decisions; the steps are elsewhere."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import F

from quotas.domain.errors import (
    PreemptionPlanEndedError,
    PreemptionRunningError,
    QuotaNotAppliedError,
)
from quotas.domain.preemption.states import PlanState, may_become
from quotas.models import EnforcementTarget, PreemptionAction, PreemptionPlan
from quotas.selectors.preemption import unapplied_targets
from quotas.services.enforcement.targets import refresh_targets
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.domain.identity.roles import Role
from tenants.models import Organization
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record
from tenants.services.notifications.outbox import PersonalNews, notify, notify_each

WRITE: Final = "quotas:preemption:write"
RUN_FOR: Final = timedelta(hours=24)
"""How long a plan may run; budgets that have not yielded by then do not yield without a person."""
NAMES_MAX: Final = 20
"""How many namespaces a refusal names."""


@transaction.atomic
def execute_plan(
    *,
    plan_id: UUID,
    grace: timedelta,
    burst_classes: tuple[str, ...],
    actor: Actor,
    at: datetime,
) -> PreemptionPlan:
    """Start a plan: notify the users it affects, and begin after a grace. Idempotent.

    No cluster is called: the steps follow one by one, each after a new check.

    Args:
        plan_id: Which plan.
        grace: Between the notice and the first step.
        burst_classes: PriorityClasses of preemptible pods, as enforcement plans with.
        actor: The account that executes.
        at: When, UTC.

    Raises:
        NotFoundError: There is no such plan.
        ForbiddenError: The actor may not preempt.
        PreemptionPlanEndedError: It has ended, or is too old.
        PreemptionRunningError: Another plan of the organization is running.
        QuotaNotAppliedError: The lowered quota is not in every cluster yet: preempted pods would
            only come back.
    """
    plan = _locked(plan_id)
    require_capability(actor, WRITE, organization_id=plan.organization_id)
    if plan.state == PlanState.RUNNING.value:
        return plan
    _require_move(plan, PlanState.RUNNING)
    if plan.expires_at <= at:
        raise PreemptionPlanEndedError("The plan is too old to be true.")
    if PreemptionPlan.objects.filter(
        organization_id=plan.organization_id, state=PlanState.RUNNING.value
    ).exists():
        raise PreemptionRunningError("Another plan of this organization is running.")
    refresh_targets(
        at=at, actor=actor, burst_classes=burst_classes, organization_id=plan.organization_id
    )
    _require_applied(plan)
    PreemptionPlan.objects.filter(pk=plan.pk).update(
        state=PlanState.RUNNING.value,
        is_dry_run=False,
        executed_by=actor.label,
        notified_at=at,
        not_before=at + grace,
        expires_at=at + RUN_FOR,
        version=F("version") + 1,
    )
    plan.refresh_from_db()
    _announce(plan, at=at)
    _record(plan, "execute", actor=actor, at=at)
    return plan


@transaction.atomic
def stop_plan(*, plan_id: UUID, actor: Actor, at: datetime) -> PreemptionPlan:
    """Stop a plan: no further step is taken; what has begun is not undone. Again changes nothing.

    Raises:
        NotFoundError: There is no such plan.
        ForbiddenError: The actor may not preempt.
        PreemptionPlanEndedError: It has ended otherwise.
    """
    plan = _locked(plan_id)
    require_capability(actor, WRITE, organization_id=plan.organization_id)
    if plan.state == PlanState.STOPPED.value:
        return plan
    _require_move(plan, PlanState.STOPPED)
    end_plan(plan, PlanState.STOPPED, message=f"Stopped by {actor.label}.", actor=actor, at=at)
    return plan


@transaction.atomic
def expire_plans(*, at: datetime, actor: Actor) -> int:
    """End plans that were not executed in time; return how many."""
    rows = lock_rows(
        PreemptionPlan.objects.filter(state=PlanState.PLANNED.value, expires_at__lte=at)
    )
    for plan in rows:
        end_plan(plan, PlanState.EXPIRED, message="Nobody executed it in time.", actor=actor, at=at)
    return len(rows)


def end_plan(
    plan: PreemptionPlan, state: PlanState, *, message: str, actor: Actor, at: datetime
) -> None:
    """End a locked plan, with its audit entry. To be called in a transaction."""
    plan.state = state.value
    plan.end_at = at
    plan.not_before = None
    plan.message = message
    plan.version += 1
    plan.save(update_fields=["state", "end_at", "not_before", "message", "version"])
    _record(plan, state.value, actor=actor, at=at)


def _locked(plan_id: UUID) -> PreemptionPlan:
    found = PreemptionPlan.objects.filter(pk=plan_id).values("organization_id").first()
    if found is None:
        raise NotFoundError("There is no such preemption plan.")
    lock_rows(Organization.objects.filter(pk=found["organization_id"]))
    (plan,) = lock_rows(PreemptionPlan.objects.filter(pk=plan_id))
    return plan


def _require_move(plan: PreemptionPlan, target: PlanState) -> None:
    if not may_become(PlanState(plan.state), target):
        raise PreemptionPlanEndedError(
            f"The plan has ended: {plan.state}.", facts={"state": str(plan.state)}
        )


def _require_applied(plan: PreemptionPlan) -> None:
    waiting = unapplied_targets(organization_id=plan.organization_id)
    if waiting:
        raise QuotaNotAppliedError(
            f"The quota of {len(waiting)} namespaces is not in its cluster yet.",
            facts={"namespaces": ", ".join(map(_place, waiting[:NAMES_MAX]))},
        )


def _place(target: EnforcementTarget) -> str:
    return f"{target.cluster.slug}/{target.namespace} ({target.state})"


def _announce(plan: PreemptionPlan, *, at: datetime) -> None:
    """Notify each user of their own pods in the plan, and administrators of all."""
    steps = list(PreemptionAction.objects.filter(plan=plan))
    by_username: dict[str, list[PreemptionAction]] = {}
    for step in steps:
        by_username.setdefault(step.username, []).append(step)
    by_username.pop("", None)
    notify(
        event="quotas:preemption:announced",
        organization_id=plan.organization_id,
        subject=f"{_pods(len(steps))} will be ended to fit the limits",
        text=_notice(plan, steps),
        facts={"plan": str(plan.pk), "pods": len(steps)},
        roles=[Role.ORGANIZATION_ADMIN, Role.PLATFORM_ADMIN],
        key=f"preemption:{plan.pk}:announced",
        at=at,
    )
    notify_each(
        event="quotas:preemption:announced",
        organization_id=plan.organization_id,
        news=[
            PersonalNews(
                username=username,
                subject=f"{len(own)} of your pods will be ended to fit the limits",
                text=_notice(plan, own),
                facts={"plan": str(plan.pk), "pods": len(own)},
            )
            for username, own in sorted(by_username.items())
        ],
        key=f"preemption:{plan.pk}:announced",
        at=at,
    )


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _notice(plan: PreemptionPlan, steps: Sequence[PreemptionAction]) -> str:
    first = (
        f"From {plan.not_before:%Y-%m-%d %H:%M} UTC on these pods are ended, one workload after "
        "another. Jobs are suspended and can be resumed."
    )
    return "\n".join(
        [first, *(f"{step.namespace}/{step.pod_name}: {step.reason}" for step in steps)]
    )


def _record(plan: PreemptionPlan, verb: str, *, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action=f"quotas:preemption:{verb}",
        object_kind="preemption_plan",
        object_id=plan.pk,
        organization_id=plan.organization_id,
        facts={"state": str(plan.state), "message": plan.message},
    )

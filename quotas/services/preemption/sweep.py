"""Sweep for organizations over their limits, and plan preemption when due."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import transaction

from quotas.domain.errors import QuotaNotAppliedError
from quotas.domain.preemption.states import OPEN_PLANS, PlanState
from quotas.models import PreemptionMode, PreemptionPlan, PreemptionPolicy
from quotas.selectors.preemption import overages_everywhere
from quotas.services.preemption.planning import plan_preemption
from quotas.services.preemption.running import execute_plan
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.identity.roles import Role
from tenants.domain.refusals import OrganizationClosedError
from tenants.models import Organization
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record
from tenants.services.changing import require_version
from tenants.services.notifications.outbox import notify

WRITE: Final = "quotas:preemption:write"

log = structlog.get_logger(__name__)


@transaction.atomic
def note_overage(
    *, over_for: timedelta, actor: Actor, at: datetime
) -> tuple[tuple[UUID, PreemptionMode], ...]:
    """Store which organizations exceed their limits and since when; return those due for a plan.

    A fixed number of statements, however many organizations there are.

    Args:
        over_for: How long an organization is over before a plan is due.
        actor: The account that looks; usually the service itself.
        at: When, UTC.

    Returns:
        Organizations over for that long, whose policy asks for a plan and that have none open.
    """
    require_capability(actor, WRITE)
    over = overages_everywhere(at=at)
    PreemptionPolicy.objects.filter(over_since__isnull=False).exclude(
        organization_id__in=over
    ).update(over_since=None)
    PreemptionPolicy.objects.bulk_create(
        [PreemptionPolicy(organization_id=organization_id) for organization_id in sorted(over)],
        ignore_conflicts=True,
    )
    PreemptionPolicy.objects.filter(organization_id__in=over, over_since=None).update(over_since=at)
    return _due(over, before=at - over_for)


@transaction.atomic
def propose(*, organization_id: UUID, actor: Actor, at: datetime) -> PreemptionPlan:
    """Plan for an organization and notify its administrators, in one transaction.

    Raises:
        PreemptionNotNeededError: It fits by now.
        PreemptionRunningError: A plan of the organization is running.
    """
    organization = Organization.objects.get(pk=organization_id)
    plan = plan_preemption(organization=organization, actor=actor, at=at)
    _tell_proposal(plan, at=at)
    return plan


def unexecuted_plan_ids(*, actor: Actor, at: datetime) -> list[UUID]:
    """Return the service's own plans that a policy wants executed, oldest first; one statement."""
    rows = PreemptionPlan.objects.filter(
        state=PlanState.PLANNED.value,
        planned_by=actor.label,
        expires_at__gt=at,
        organization__preemption_policy__mode=PreemptionMode.EXECUTE,
        organization__preemption_policy__over_since__isnull=False,
        organization__state=LifecycleState.ACTIVE,
    )
    return list(rows.order_by("created_at", "pk").values_list("pk", flat=True))


def execute_own_plan(
    *,
    plan_id: UUID,
    grace: timedelta,
    burst_classes: tuple[str, ...],
    actor: Actor,
    at: datetime,
) -> None:
    """Execute a plan of the service where the policy says so.

    While its lowered quota is not in every cluster it stays planned, and the next tick tries again.
    """
    try:
        execute_plan(plan_id=plan_id, grace=grace, burst_classes=burst_classes, actor=actor, at=at)
    except QuotaNotAppliedError as error:
        log.warning("quotas.preemption.quota_not_applied", plan=str(plan_id), reason=str(error))


def _tell_proposal(plan: PreemptionPlan, *, at: datetime) -> None:
    over = "; ".join(one["sentence"] for one in plan.overage)
    notify(
        event="quotas:preemption:proposed",
        organization_id=plan.organization_id,
        subject="More is held than the limits allow",
        text=f"Over: {over}. A plan lists the pods it would end; nothing has been executed.",
        facts={"plan": str(plan.pk)},
        roles=[Role.ORGANIZATION_ADMIN, Role.PLATFORM_ADMIN],
        key=f"preemption:{plan.organization_id}:{_over_since(plan)}:proposed",
        at=at,
    )


def _over_since(plan: PreemptionPlan) -> str:
    """Return the key of one period over the limits: it is notified once, not every hour."""
    since = (
        PreemptionPolicy.objects.filter(organization_id=plan.organization_id)
        .values_list("over_since", flat=True)
        .first()
    )
    return (since or plan.created_at).isoformat()


def _due(
    organization_ids: Iterable[UUID], *, before: datetime
) -> tuple[tuple[UUID, PreemptionMode], ...]:
    planned = PreemptionPlan.objects.filter(state__in=[state.value for state in OPEN_PLANS])
    rows = (
        PreemptionPolicy.objects.filter(
            organization_id__in=list(organization_ids),
            over_since__lte=before,
            organization__state=LifecycleState.ACTIVE,
        )
        .exclude(mode=PreemptionMode.OFF)
        .exclude(organization_id__in=planned.values("organization_id"))
        .order_by("over_since", "organization_id")
    )
    return tuple(
        (organization_id, PreemptionMode(mode))
        for organization_id, mode in rows.values_list("organization_id", "mode")
    )


@transaction.atomic
def set_policy(
    *,
    organization: Organization,
    mode: PreemptionMode,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> PreemptionPolicy:
    """Set what the service does automatically when an organization stays over its limits.

    Args:
        organization: Which one.
        mode: What it does; the current mode changes nothing. The first call stores and audits also
            the mode that is the default.
        expected_version: The version the caller saw; None when it does not matter.
        actor: The account that sets it.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor may not preempt.
        OrganizationClosedError: The organization is closed.
        StaleVersionError: It was changed in the meantime.
    """
    require_capability(actor, WRITE, organization_id=organization.pk)
    (owner,) = lock_rows(Organization.objects.filter(pk=organization.pk))
    if owner.state != LifecycleState.ACTIVE:
        raise OrganizationClosedError(f"{owner.name} is closed.", field="organization")
    _, is_made = PreemptionPolicy.objects.get_or_create(organization=owner)
    (policy,) = lock_rows(PreemptionPolicy.objects.filter(organization=owner))
    require_version(row=policy, expected_version=expected_version, actor=actor)
    if policy.mode == mode and not is_made:
        return policy
    before, policy.mode = policy.mode, mode
    policy.version += before != mode
    policy.changed_at = at
    policy.save(update_fields=["mode", "version", "changed_at"])
    record(
        actor=actor,
        at=at,
        action="quotas:preemption_policy:set",
        object_kind="preemption_policy",
        object_id=organization.pk,
        organization_id=organization.pk,
        facts={"mode": str(mode), "mode_before": str(before)},
    )
    return policy

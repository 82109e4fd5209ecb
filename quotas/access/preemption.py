"""Preemption plans, policies and protected windows: fetched with permission."""

from uuid import UUID

from django.db.models import QuerySet

from quotas.access.capabilities import READ_PREEMPTION
from quotas.models import PreemptionPlan, PreemptionPolicy, ProtectedWindow
from tenants.access import access_row, organizations_visible_to
from tenants.domain.actors import Actor


def plans_visible_to(actor: Actor, capability: str = READ_PREEMPTION) -> QuerySet[PreemptionPlan]:
    """Return the preemption plans of the organizations over which an actor holds a capability."""
    return PreemptionPlan.objects.select_related("organization").filter(
        organization__in=organizations_visible_to(actor, capability)
    )


def windows_visible_to(
    actor: Actor, capability: str = READ_PREEMPTION
) -> QuerySet[ProtectedWindow]:
    """Return the protected windows of organizations over which an actor holds a capability."""
    return ProtectedWindow.objects.select_related("organization", "project").filter(
        organization__in=organizations_visible_to(actor, capability)
    )


def preemption_policies_visible_to(
    actor: Actor, capability: str = READ_PREEMPTION
) -> QuerySet[PreemptionPolicy]:
    """Return the preemption policies of organizations over which an actor holds a capability."""
    return PreemptionPolicy.objects.select_related("organization").filter(
        organization__in=organizations_visible_to(actor, capability)
    )


def access_plan(actor: Actor, plan_id: UUID, capability: str) -> PreemptionPlan:
    """Return a preemption plan over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        PreemptionPlan.objects.select_related("organization"),
        plan_id,
        visible_to=plans_visible_to,
        actor=actor,
        capability=capability,
    )


def access_window(actor: Actor, window_id: UUID, capability: str) -> ProtectedWindow:
    """Return a protected window over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        ProtectedWindow.objects.select_related("organization", "project"),
        window_id,
        visible_to=windows_visible_to,
        actor=actor,
        capability=capability,
    )


def access_preemption_policy(
    actor: Actor, organization_id: UUID, capability: str
) -> PreemptionPolicy:
    """Return the preemption policy of an organization over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        PreemptionPolicy.objects.select_related("organization"),
        organization_id,
        visible_to=preemption_policies_visible_to,
        actor=actor,
        capability=capability,
    )

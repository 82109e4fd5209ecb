"""Enforcement targets and isolation policies: fetched with permission."""

from uuid import UUID

from django.db.models import Q, QuerySet

from quotas.access.capabilities import READ_ENFORCEMENT, READ_ISOLATION
from quotas.models import EnforcementTarget, IsolationPolicy
from tenants.access import (
    access_row,
    is_platform_wide,
    organizations_visible_to,
    projects_visible_to,
)
from tenants.domain.actors import Actor


def targets_visible_to(
    actor: Actor, capability: str = READ_ENFORCEMENT
) -> QuerySet[EnforcementTarget]:
    """Return every enforcement target to an actor of the platform, none to others."""
    rows = EnforcementTarget.objects.select_related("cluster", "project")
    return rows if is_platform_wide(actor, capability) else rows.none()


def access_target(
    actor: Actor, target_id: int, capability: str = READ_ENFORCEMENT
) -> EnforcementTarget:
    """Return an enforcement target over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        EnforcementTarget.objects.select_related("cluster", "project"),
        target_id,
        visible_to=targets_visible_to,
        actor=actor,
        capability=capability,
    )


def policies_visible_to(
    actor: Actor, capability: str = READ_ISOLATION
) -> QuerySet[IsolationPolicy]:
    """Return the isolation policies over which an actor holds a capability.

    A reader of a project's policies also reads those of its organization: they bind it too.
    """
    rows = IsolationPolicy.objects.select_related("organization", "project")
    if is_platform_wide(actor, capability):
        return rows
    projects = projects_visible_to(actor, capability)
    whole = Q(organization__in=organizations_visible_to(actor, capability))
    if capability == READ_ISOLATION:
        whole |= Q(organization__in=projects.values("organization_id"))
    return rows.filter(Q(project__in=projects) | Q(project=None) & whole)


def access_policy(actor: Actor, policy_id: UUID, capability: str) -> IsolationPolicy:
    """Return an isolation policy over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        IsolationPolicy.objects.select_related("organization", "project"),
        policy_id,
        visible_to=policies_visible_to,
        actor=actor,
        capability=capability,
    )

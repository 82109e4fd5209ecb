"""The only way from a door to an object of quotas: fetch with permission."""

from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from quotas.models import EnforcementTarget, IsolationPolicy, QuotaLimit, QuotaRequest
from tenants.access import (
    access_row,
    is_platform_wide,
    organizations_visible_to,
    projects_visible_to,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.models import Organization, Project

READ_LIMIT: Final = "quotas:limit:read"
WRITE_LIMIT: Final = "quotas:limit:write"
READ_REQUEST: Final = "quotas:request:read"
SUBMIT_REQUEST: Final = "quotas:request:submit"
DECIDE_REQUEST: Final = "quotas:request:decide"
READ_ISOLATION: Final = "quotas:isolation:read"
WRITE_ISOLATION: Final = "quotas:isolation:write"
READ_ENFORCEMENT: Final = "quotas:enforcement:read"


def limits_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaLimit]:
    """Return the limits over which an actor holds a capability.

    An organization's own limit takes a role over the organization, and to write it one over the
    platform: nobody raises their own ceiling. The limits inside a project take a role over that.
    """
    rows = QuotaLimit.objects.select_related("organization", "project", "user")
    if is_platform_wide(actor, capability):
        return rows
    inside = Q(project__in=projects_visible_to(actor, capability))
    if capability == WRITE_LIMIT:
        return rows.filter(inside)
    organizations = organizations_visible_to(actor, capability)
    return rows.filter(inside | Q(project=None, organization__in=organizations))


def organizations_with_limits(actor: Actor) -> QuerySet[Organization]:
    """Return the organizations of which an actor may read a limit: all of them, or a project's."""
    whole = organizations_visible_to(actor, READ_LIMIT)
    part = projects_visible_to(actor, READ_LIMIT).values("organization_id")
    return Organization.objects.filter(Q(pk__in=whole.values("pk")) | Q(pk__in=part))


def requests_visible_to(actor: Actor, capability: str = READ_REQUEST) -> QuerySet[QuotaRequest]:
    """Return the quota requests of the projects over which an actor holds a capability."""
    return QuotaRequest.objects.select_related(
        "organization", "project", "requested_by", "decided_by"
    ).filter(project__in=projects_visible_to(actor, capability))


def targets_visible_to(
    actor: Actor, capability: str = READ_ENFORCEMENT
) -> QuerySet[EnforcementTarget]:
    """Return every enforcement target to an actor of the platform, none to others."""
    rows = EnforcementTarget.objects.select_related("cluster", "project")
    return rows if is_platform_wide(actor, capability) else rows.none()


def policies_visible_to(
    actor: Actor, capability: str = READ_ISOLATION
) -> QuerySet[IsolationPolicy]:
    """Return the isolation policies over which an actor holds a capability.

    Whoever may read a project's may read those of its organization, which bind it as well.
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
        allowed=policies_visible_to(actor, capability),
        visible=policies_visible_to(actor),
        capability=capability,
    )


def access_limit(actor: Actor, limit_id: UUID, capability: str) -> QuotaLimit:
    """Return a limit over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        QuotaLimit.objects.select_related("organization", "project", "user"),
        limit_id,
        allowed=limits_visible_to(actor, capability),
        visible=limits_visible_to(actor),
        capability=capability,
    )


def access_request(actor: Actor, request_id: UUID, capability: str) -> QuotaRequest:
    """Return a quota request over which an actor holds a capability.

    Deciding takes a role over the organization, not only over the project.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        QuotaRequest.objects.select_related(
            "organization", "project", "requested_by", "decided_by"
        ),
        request_id,
        allowed=requests_visible_to(actor, capability),
        visible=requests_visible_to(actor),
        capability=capability,
    )


def access_target(actor: Actor, target_id: int) -> EnforcementTarget:
    """Return an enforcement target.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    target = targets_visible_to(actor).filter(pk=target_id).first()
    if target is None:
        raise NotFoundError("There is no such enforcement target.")
    return target


def access_person(organization: Organization, username: str) -> User:
    """Return a person who has a role in an organization or one of its projects.

    Others do not exist here: a limit must not tell who has an account on the platform.

    Raises:
        NotFoundError: Nobody of that name has a role there.
    """
    projects = Project.objects.filter(organization=organization)
    person = (
        User.objects.filter(username=username)
        .filter(Q(memberships__organization=organization) | Q(memberships__project__in=projects))
        .distinct()
        .first()
    )
    if person is None:
        raise NotFoundError(
            "Nobody of that name has a role in the organization.",
            field="user",
            remedy="Give the person a role in the project first.",
        )
    return person

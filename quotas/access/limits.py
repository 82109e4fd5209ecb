"""Permission-checked queries for limits, grants, suspensions and the objects they name."""

from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from quotas.access.capabilities import READ_LIMIT, READ_SUSPENSION, WRITE_LIMIT
from quotas.models import LimitScope, QuotaGrant, QuotaLimit, QuotaSuspension
from tenants.access import (
    READ_CLUSTER,
    access_row,
    is_platform_wide,
    organizations_visible_to,
    projects_visible_to,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identity.granting import forbidden
from tenants.domain.identity.roles import RoleScope
from tenants.models import Cluster, Organization, Project
from tenants.models.organization import LifecycleState


def limits_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaLimit]:
    """Return the limits over which an actor holds a capability.

    Reading an organization's own limit needs a role over the organization; writing it needs a
    platform role, so that a tenant cannot raise its own ceiling. Limits inside a project need a
    role over the project.
    """
    rows = QuotaLimit.objects.select_related("organization", "project", "user", "cluster")
    if is_platform_wide(actor, capability):
        return rows
    inside = Q(project__in=projects_visible_to(actor, capability))
    if capability == WRITE_LIMIT:
        return rows.filter(inside)
    organizations = organizations_visible_to(actor, capability)
    return rows.filter(inside | Q(project=None, organization__in=organizations))


def grants_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaGrant]:
    """Return the grants on limits over which an actor holds a capability."""
    rows = QuotaGrant.objects.select_related("organization", "project", "limit")
    if is_platform_wide(actor, capability):
        return rows
    inside = Q(project__in=projects_visible_to(actor, capability))
    if capability == WRITE_LIMIT:
        return rows.filter(inside)
    organizations = organizations_visible_to(actor, capability)
    return rows.filter(inside | Q(project=None, organization__in=organizations))


def suspensions_visible_to(
    actor: Actor, capability: str = READ_SUSPENSION
) -> QuerySet[QuotaSuspension]:
    """Return the suspensions of the organizations over which an actor holds a capability."""
    rows = QuotaSuspension.objects.select_related("organization", "project")
    return rows.filter(organization__in=organizations_visible_to(actor, capability))


def organizations_with_limits(actor: Actor) -> QuerySet[Organization]:
    """Return the organizations of which an actor may read a limit: all of them, or a project's."""
    whole = organizations_visible_to(actor, READ_LIMIT)
    part = projects_visible_to(actor, READ_LIMIT).values("organization_id")
    return Organization.objects.filter(Q(pk__in=whole.values("pk")) | Q(pk__in=part))


def hidden_scopes(
    actor: Actor, *, organization_id: UUID | None, project_id: UUID | None
) -> frozenset[str]:
    """Return the scopes of limits around a project whose figures an actor may not read."""
    if actor.may(READ_LIMIT, organization_id=organization_id):
        return frozenset()
    if actor.may(READ_LIMIT, organization_id=organization_id, project_id=project_id):
        return frozenset({LimitScope.ORGANIZATION.value})
    return frozenset(scope.value for scope in LimitScope)


def access_limit(actor: Actor, limit_id: UUID, capability: str) -> QuotaLimit:
    """Return a limit over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    try:
        return access_row(
            QuotaLimit.objects.select_related("organization", "project", "user", "cluster"),
            limit_id,
            visible_to=limits_visible_to,
            actor=actor,
            capability=capability,
        )
    except ForbiddenError as error:
        rows = QuotaLimit.objects.filter(pk=limit_id, project=None)
        raise _who_may(error, capability, is_whole=rows.exists()) from error


def access_grant(actor: Actor, grant_id: UUID, capability: str) -> QuotaGrant:
    """Return a grant on a limit over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    try:
        return access_row(
            QuotaGrant.objects.select_related("organization", "project", "limit"),
            grant_id,
            visible_to=grants_visible_to,
            actor=actor,
            capability=capability,
        )
    except ForbiddenError as error:
        rows = QuotaGrant.objects.filter(pk=grant_id, project=None)
        raise _who_may(error, capability, is_whole=rows.exists()) from error


def _who_may(error: ForbiddenError, capability: str, *, is_whole: bool) -> ForbiddenError:
    """Return an error with the required role: a platform role for an organization's own limit."""
    if capability != WRITE_LIMIT or not is_whole:
        return error
    return forbidden(capability, reach={RoleScope.PLATFORM})


def access_suspension(actor: Actor, suspension_id: UUID, capability: str) -> QuotaSuspension:
    """Return a suspension of an organization over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        QuotaSuspension.objects.select_related("organization", "project"),
        suspension_id,
        visible_to=suspensions_visible_to,
        actor=actor,
        capability=capability,
    )


def access_cluster_of(actor: Actor, organization: Organization, slug: str) -> Cluster:
    """Return an open cluster on which the organization has namespaces, by its slug.

    An actor with a platform role may name every open cluster.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    rows = Cluster.objects.filter(slug=slug, state=LifecycleState.ACTIVE)
    if not is_platform_wide(actor, READ_CLUSTER):
        rows = rows.filter(bindings__project__organization=organization).distinct()
    cluster = rows.first()
    if cluster is None:
        raise NotFoundError(
            "There is no such cluster.",
            field="cluster",
            remedy="Name the slug of a cluster the organization has namespaces on.",
        )
    return cluster


def access_person(organization: Organization, username: str) -> User:
    """Return a person who has a role in an organization or one of its projects.

    Other users are not found: a limit must not reveal the accounts of the platform.

    Raises:
        NotFoundError: No user of that name has a role there.
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

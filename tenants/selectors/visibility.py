"""What an actor sees: querysets scoped to it, for lists and as subqueries of other apps.

Invoice.objects.filter(organization__in=organizations_visible_to(actor, "billing:invoice:read"))
"""

from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from tenants.domain.actors import Actor, ActorKind
from tenants.models import (
    ApiToken,
    AuditEntry,
    Cluster,
    Invitation,
    Membership,
    NamespaceBinding,
    Organization,
    Project,
    ServiceAccount,
)

READ_ORGANIZATION: Final = "tenants:organization:read"
READ_PROJECT: Final = "tenants:project:read"
READ_MEMBERSHIP: Final = "tenants:membership:read"
READ_CLUSTER: Final = "tenants:cluster:read"
READ_NAMESPACE: Final = "tenants:namespace:read"
READ_AUDIT: Final = "tenants:audit:read"
WRITE_TOKEN: Final = "tenants:token:write"  # noqa: S105 - A capability's name.


def organizations_visible_to(
    actor: Actor, capability: str = READ_ORGANIZATION
) -> QuerySet[Organization]:
    """Return the organizations over which an actor holds a capability.

    To read an organization it is enough to have a role in one of its projects; any other
    capability must cover the organization itself.

    Args:
        actor: The caller.
        capability: `<app>:<resource>:<action>`.
    """
    if is_platform_wide(actor, capability):
        return Organization.objects.all()
    organizations, projects = _scopes(actor, capability)
    covered = Q(pk__in=organizations)
    if capability == READ_ORGANIZATION:
        parents = Project.objects.filter(pk__in=projects).values("organization_id")
        covered |= Q(pk__in=parents)
    return Organization.objects.filter(covered)


def projects_visible_to(actor: Actor, capability: str = READ_PROJECT) -> QuerySet[Project]:
    """Return the projects over which an actor holds a capability, by itself or its organization."""
    if is_platform_wide(actor, capability):
        return Project.objects.all()
    organizations, projects = _scopes(actor, capability)
    return Project.objects.filter(Q(organization_id__in=organizations) | Q(pk__in=projects))


def memberships_visible_to(actor: Actor) -> QuerySet[Membership]:
    """Return the memberships within an actor's reach, and the actor's own."""
    rows = Membership.objects.select_related("user", "service_account", "organization", "project")
    if is_platform_wide(actor, READ_MEMBERSHIP):
        return rows
    organizations, projects = _scopes(actor, READ_MEMBERSHIP)
    return rows.filter(
        Q(organization_id__in=organizations)
        | Q(project__organization_id__in=organizations)
        | Q(project_id__in=projects)
        | _own(actor)
    )


def invitations_visible_to(actor: Actor, capability: str = READ_MEMBERSHIP) -> QuerySet[Invitation]:
    """Return the invitations of the organizations and projects an actor reaches."""
    rows = Invitation.objects.select_related("organization", "project", "invited_by")
    if is_platform_wide(actor, capability):
        return rows
    organizations, projects = _scopes(actor, capability)
    return rows.filter(
        Q(organization_id__in=organizations)
        | Q(project__organization_id__in=organizations)
        | Q(project_id__in=projects)
    )


def clusters_visible_to(actor: Actor, capability: str = READ_CLUSTER) -> QuerySet[Cluster]:
    """Return every cluster to an actor of the platform, none to others."""
    if is_platform_wide(actor, capability):
        return Cluster.objects.all()
    return Cluster.objects.none()


def bindings_visible_to(
    actor: Actor, capability: str = READ_NAMESPACE
) -> QuerySet[NamespaceBinding]:
    """Return the namespace bindings of the projects an actor reaches."""
    return NamespaceBinding.objects.filter(
        project__in=projects_visible_to(actor, capability)
    ).select_related("cluster", "project", "default_owner")


def service_accounts_visible_to(
    actor: Actor, capability: str = READ_MEMBERSHIP
) -> QuerySet[ServiceAccount]:
    """Return the service accounts of the organizations an actor reaches."""
    return ServiceAccount.objects.filter(
        organization__in=organizations_visible_to(actor, capability)
    ).select_related("organization")


def api_tokens_visible_to(actor: Actor) -> QuerySet[ApiToken]:
    """Return an actor's own tokens and those of the service accounts it looks after.

    A token without the capability to write tokens sees none, not even itself.
    """
    rows = ApiToken.objects.select_related("user", "service_account")
    if actor.is_system:
        return rows
    if actor.scopes is not None and WRITE_TOKEN not in actor.scopes:
        return rows.none()
    accounts = service_accounts_visible_to(actor, WRITE_TOKEN)
    return rows.filter(_own(actor) | Q(service_account__in=accounts.values("pk")))


def audit_entries_visible_to(actor: Actor) -> QuerySet[AuditEntry]:
    """Return the trail of the organizations an actor audits; all of it to the platform's."""
    if is_platform_wide(actor, READ_AUDIT):
        return AuditEntry.objects.all()
    organizations, _ = _scopes(actor, READ_AUDIT)
    return AuditEntry.objects.filter(organization_id__in=organizations)


def is_platform_wide(actor: Actor, capability: str) -> bool:
    """Whether an actor holds a capability over everything."""
    return actor.may(capability)


def _scopes(actor: Actor, capability: str) -> tuple[list[UUID], list[UUID]]:
    """Return the ids of the organizations and of the projects that grants name."""
    grants = actor.grants_for(capability)
    return (
        [g.organization_id for g in grants if g.organization_id is not None],
        [g.project_id for g in grants if g.project_id is not None],
    )


def _own(actor: Actor) -> Q:
    if actor.kind is ActorKind.PERSON:
        return Q(user_id=actor.id)
    return Q(service_account_id=actor.id)

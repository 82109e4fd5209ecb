"""The only way from a door to an object: fetch with permission.

What an actor may not see does not exist (NotFoundError); what it sees but may not change is
forbidden (ForbiddenError). `*_visible_to` are querysets scoped to an actor; other apps use them
as subqueries: `Invoice.objects.filter(organization__in=organizations_visible_to(actor, "..."))`.
"""

from typing import Any, Final, TypeVar
from uuid import UUID

from django.db import models
from django.db.models import Q, QuerySet

from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.models import (
    ApiToken,
    AuditEntry,
    Cluster,
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

Row = TypeVar("Row", bound=models.Model)


# ---------------------------------------------------------------- visible sets


def organizations_visible_to(
    actor: Actor, capability: str = READ_ORGANIZATION
) -> QuerySet[Organization]:
    """Return the organizations over which an actor holds a capability.

    To read an organization it is enough to have a role in one of its projects; any other
    capability must cover the organization itself.

    Args:
        actor: Who asks.
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


# ---------------------------------------------------------------- single objects


def access_organization(actor: Actor, organization_id: UUID, capability: str) -> Organization:
    """Return an organization over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        Organization.objects.all(),
        organization_id,
        allowed=organizations_visible_to(actor, capability),
        visible=organizations_visible_to(actor),
        capability=capability,
    )


def access_project(actor: Actor, project_id: UUID, capability: str) -> Project:
    """Return a project, with its organization, over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        Project.objects.select_related("organization"),
        project_id,
        allowed=projects_visible_to(actor, capability),
        visible=projects_visible_to(actor),
        capability=capability,
    )


def access_cluster(actor: Actor, cluster_id: UUID, capability: str) -> Cluster:
    """Return a cluster over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        Cluster.objects.all(),
        cluster_id,
        allowed=clusters_visible_to(actor, capability),
        visible=clusters_visible_to(actor),
        capability=capability,
    )


def access_binding(actor: Actor, binding_id: UUID, capability: str) -> NamespaceBinding:
    """Return a namespace binding over whose project an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        NamespaceBinding.objects.select_related("cluster", "project", "default_owner"),
        binding_id,
        allowed=bindings_visible_to(actor, capability),
        visible=bindings_visible_to(actor),
        capability=capability,
    )


def access_membership(actor: Actor, membership_id: UUID) -> Membership:
    """Return a membership that an actor sees; who may take it away is the service's rule.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return _one(memberships_visible_to(actor), membership_id)


def access_service_account(actor: Actor, account_id: UUID, capability: str) -> ServiceAccount:
    """Return a service account over whose organization an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        ServiceAccount.objects.select_related("organization"),
        account_id,
        allowed=service_accounts_visible_to(actor, capability),
        visible=service_accounts_visible_to(actor),
        capability=capability,
    )


def access_api_token(actor: Actor, token_id: UUID) -> ApiToken:
    """Return a token that is an actor's own or of an account it looks after.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return _one(api_tokens_visible_to(actor), token_id)


def access_audit_entry(actor: Actor, entry_id: int) -> AuditEntry:
    """Return an entry of a trail that an actor audits.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return _one(audit_entries_visible_to(actor), entry_id)


def access_row(
    rows: QuerySet[Row],
    row_id: object,
    *,
    allowed: QuerySet[Row],
    visible: QuerySet[Row],
    capability: str,
) -> Row:
    """Return one row out of an allowed set, telling apart unseen and merely not allowed.

    Other apps build their own `access_*` on it. One query when allowed, two when refused.

    Args:
        rows: The table, with what is to be loaded beside the row.
        row_id: Its primary key.
        allowed: Those over which the actor holds the capability.
        visible: Those the actor may at least read.
        capability: Named in the refusal.

    Raises:
        NotFoundError: It does not exist, or not for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    found = rows.filter(pk=row_id, pk__in=allowed.values("pk")).first()
    if found is not None:
        return found
    if visible.filter(pk=row_id).exists():
        raise ForbiddenError(
            "Your role does not allow this here.", facts={"capability": capability}
        )
    raise NotFoundError(f"There is no such {_noun(rows)}.")


def require_capability(
    actor: Actor,
    capability: str,
    *,
    organization_id: UUID | None = None,
    project_id: UUID | None = None,
) -> None:
    """Refuse an actor that does not hold a capability; for platform objects give no scope.

    Raises:
        ForbiddenError: It does not hold it.
    """
    if not actor.may(capability, organization_id=organization_id, project_id=project_id):
        raise ForbiddenError(
            "Your role does not allow this here.", facts={"capability": capability}
        )


def is_platform_wide(actor: Actor, capability: str) -> bool:
    """Whether an actor holds a capability over everything."""
    return actor.may(capability)


# ---------------------------------------------------------------- parts


def _one(rows: QuerySet[Row], row_id: object) -> Row:
    found = rows.filter(pk=row_id).first()
    if found is None:
        raise NotFoundError(f"There is no such {_noun(rows)}.")
    return found


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


def _noun(rows: QuerySet[Any]) -> str:
    return str(rows.model._meta.verbose_name)  # noqa: SLF001 - Documented model meta.

"""The only way from an entry point to an object: fetch with permission.

What an actor may not see does not exist (NotFoundError); what it sees but may not change is
forbidden (ForbiddenError). `*_visible_to` are the sets that an actor sees, for lists and as
subqueries of other apps:

    Invoice.objects.filter(organization__in=organizations_visible_to(actor, "billing:invoice:read"))

and `access_*`, built from one such set each, fetch one object.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db import models
from django.db.models import Q, QuerySet

from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identity.granting import GRANT_CAPABILITY, forbidden
from tenants.domain.identity.roles import RoleScope
from tenants.models import (
    ApiToken,
    AuditEntry,
    Cluster,
    Invitation,
    Membership,
    NamespaceBinding,
    NotificationDelivery,
    NotificationEndpoint,
    Organization,
    Project,
    ServiceAccount,
)
from tenants.selectors.people import holders_in, user_named

READ_ORGANIZATION: Final = "tenants:organization:read"
READ_PROJECT: Final = "tenants:project:read"
READ_MEMBERSHIP: Final = "tenants:membership:read"
READ_CLUSTER: Final = "tenants:cluster:read"
READ_NAMESPACE: Final = "tenants:namespace:read"
READ_NOTIFICATION: Final = "tenants:notification:read"
READ_AUDIT: Final = "tenants:audit:read"
WRITE_TOKEN: Final = "tenants:token:write"  # noqa: S105 - A capability's name.
OF_PLATFORM: Final = ("export_run", "export_schedule", "write_off")
"""Objects about an organization that no role of it reads, nor what was done to them."""

Row = TypeVar("Row", bound=models.Model)
Row_co = TypeVar("Row_co", bound=models.Model, covariant=True)


class RowAccess(Protocol[Row_co]):
    """Fetches one row over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor; names `field`, "" for the URL.
        ForbiddenError: The actor may read it but does not hold the capability.
    """

    def __call__(
        self, actor: Actor, row_id: object, capability: str, *, field: str = ...
    ) -> Row_co:
        """Return the row with this primary key."""


class ReadAccess(Protocol[Row_co]):
    """Fetches one row that an actor may read.

    Raises:
        NotFoundError: It does not exist for this actor.
    """

    def __call__(self, actor: Actor, row_id: object) -> Row_co:
        """Return the row with this primary key."""


def build_access(
    visible_to: Callable[..., QuerySet[Row]], *related: str, field: str = ""
) -> RowAccess[Row]:
    """Return the `access_*` of a set: one query if allowed, at most two if refused.

    Args:
        visible_to: Takes an actor and a capability and returns the rows over which the actor
            holds it; without a capability, the rows that the actor may read.
        related: What to fetch with the row, as for `select_related`.
        field: The input field to name in the error when the row does not exist; "" for none.
    """

    def access(actor: Actor, row_id: object, capability: str, *, field: str = field) -> Row:
        allowed = visible_to(actor, capability)
        if related:
            allowed = allowed.select_related(*related)
        found = allowed.filter(pk=row_id).first()
        if found is not None:
            return found
        if visible_to(actor).filter(pk=row_id).exists():
            raise forbidden(capability)
        raise _missing(allowed, field=field)

    return access


def build_read_access(visible_to: Callable[[Actor], QuerySet[Row]]) -> ReadAccess[Row]:
    """Return the `access_*` of a set of which every row may be read; one query."""

    def access(actor: Actor, row_id: object) -> Row:
        return access_seen(visible_to(actor), row_id)

    return access


def build_write_access(access: ReadAccess[Row], capability: str) -> ReadAccess[Row]:
    """Return the `access_*` of rows that are seen, and changed with a platform's capability.

    It raises NotFoundError for what the actor does not see, and ForbiddenError without the
    capability.
    """

    def access_to_write(actor: Actor, row_id: object) -> Row:
        row = access(actor, row_id)
        require_capability(actor, capability)
        return row

    return access_to_write


def access_seen(seen: QuerySet[Row], row_id: object) -> Row:
    """Return one row out of those an actor sees, where to see is all that is asked; one query.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    found = seen.filter(pk=row_id).first()
    if found is None:
        raise _missing(seen)
    return found


def scope_to_platform(rows: QuerySet[Row], actor: Actor, capability: str) -> QuerySet[Row]:
    """Return all rows to an actor with a capability over the whole platform, none to others."""
    return rows if is_platform_wide(actor, capability) else rows.none()


def scope_to_organizations(rows: QuerySet[Row], actor: Actor, capability: str) -> QuerySet[Row]:
    """Return the rows whose `organization` an actor holds a capability over."""
    if is_platform_wide(actor, capability):
        return rows
    return rows.filter(organization__in=organizations_visible_to(actor, capability))


def scope_to_projects(rows: QuerySet[Row], actor: Actor, capability: str) -> QuerySet[Row]:
    """Return the rows whose `project` an actor holds a capability over."""
    if is_platform_wide(actor, capability):
        return rows
    return rows.filter(project__in=projects_visible_to(actor, capability))


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
    return scope_to_platform(Cluster.objects.all(), actor, capability)


def bindings_visible_to(
    actor: Actor, capability: str = READ_NAMESPACE
) -> QuerySet[NamespaceBinding]:
    """Return the namespace bindings of the projects an actor reaches."""
    rows = NamespaceBinding.objects.select_related("cluster", "project", "default_owner")
    return scope_to_projects(rows, actor, capability)


def service_accounts_visible_to(
    actor: Actor, capability: str = READ_MEMBERSHIP
) -> QuerySet[ServiceAccount]:
    """Return the service accounts of the organizations an actor reaches."""
    rows = ServiceAccount.objects.select_related("organization")
    return scope_to_organizations(rows, actor, capability)


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


def own_tokens(actor: Actor, *, at: datetime) -> QuerySet[ApiToken]:
    """Return a person's own tokens that have not ended; none of service accounts."""
    return api_tokens_visible_to(actor).filter(user_id=actor.id, revoked_at=None, expires_at__gt=at)


def audit_entries_visible_to(actor: Actor) -> QuerySet[AuditEntry]:
    """Return the trail of the organizations an actor audits; all of it to the platform's.

    Roles of an organization are not shown what concerns OF_PLATFORM.
    """
    if is_platform_wide(actor, READ_AUDIT):
        return AuditEntry.objects.all()
    organizations, _ = _scopes(actor, READ_AUDIT)
    rows = AuditEntry.objects.filter(organization_id__in=organizations)
    return rows.exclude(object_kind__in=OF_PLATFORM)


def endpoints_visible_to(
    actor: Actor, capability: str = READ_NOTIFICATION
) -> QuerySet[NotificationEndpoint]:
    """Return the endpoints of the organizations an actor reaches; the platform's to its people."""
    rows = NotificationEndpoint.objects.select_related("organization")
    return scope_to_organizations(rows, actor, capability)


def deliveries_visible_to(actor: Actor) -> QuerySet[NotificationDelivery]:
    """Return deliveries to endpoints an actor may read; those to people for platform roles only.

    An organization must not learn the mail addresses of the platform's operators.
    """
    rows = NotificationDelivery.objects.select_related("notification", "endpoint")
    if is_platform_wide(actor, READ_NOTIFICATION):
        return rows
    return rows.filter(endpoint__in=endpoints_visible_to(actor))


access_organization: Final = build_access(organizations_visible_to, field="organization")
access_project: Final = build_access(projects_visible_to, "organization", field="project")
access_cluster: Final = build_access(clusters_visible_to)
access_binding: Final = build_access(bindings_visible_to)
access_invitation: Final = build_access(invitations_visible_to)
access_service_account: Final = build_access(service_accounts_visible_to)
access_endpoint: Final = build_access(endpoints_visible_to)
access_membership: Final = build_read_access(memberships_visible_to)
access_api_token: Final = build_read_access(api_tokens_visible_to)
access_audit_entry: Final = build_read_access(audit_entries_visible_to)
access_delivery: Final = build_read_access(deliveries_visible_to)


def access_organization_if_named(actor: Actor, organization_id: UUID | None) -> Organization | None:
    """Return an organization that an actor reads; None where none is named, for the platform."""
    if organization_id is None:
        return None
    return access_organization(actor, organization_id, READ_ORGANIZATION)


def access_person(actor: Actor, username: str, *, organization_id: UUID | None) -> User:
    """Return a person that an actor may name as holder of a role.

    Platform admins name every account, others those with a role in the organization.

    Raises:
        NotFoundError: The name does not exist or is not theirs to name; the error is the same.
    """
    if actor.may(GRANT_CAPABILITY):
        return user_named(username)
    known = User.objects.none() if organization_id is None else holders_in(organization_id)
    return user_named(username, among=known)


def is_platform_wide(actor: Actor, capability: str) -> bool:
    """Whether an actor holds a capability over everything."""
    return actor.may(capability)


def access_organizations(actor: Actor, slug: str = "", *, capability: str) -> list[UUID]:
    """Return the organizations over which an actor holds a capability, by slug; or one of them.

    Raises:
        NotFoundError: There is none of this slug for this actor.
        ForbiddenError: The actor holds it over none.
    """
    rows = organizations_visible_to(actor, capability).order_by("slug")
    found = list((rows.filter(slug=slug) if slug else rows).values_list("pk", flat=True))
    if slug and not found:
        raise NotFoundError(f"There is no organization {slug}.", field="organization")
    if not found:
        require_capability(actor, capability)
    return found


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
        is_limited = actor.scopes is not None and capability not in actor.scopes
        if is_limited and replace(actor, scopes=None).may(
            capability, organization_id=organization_id, project_id=project_id
        ):
            raise ForbiddenError(
                "This API token does not allow this.",
                remedy=f"Use one whose scopes include {capability}.",
                facts={"capability": capability},
            )
        raise forbidden(capability, reach=_reach(organization_id, project_id))


def _missing(rows: QuerySet[Any], *, field: str = "") -> NotFoundError:
    noun = rows.model._meta.verbose_name_raw  # noqa: SLF001 - Documented model meta.
    return NotFoundError(f"There is no such {noun}.", field=field)


def _reach(organization_id: UUID | None, project_id: UUID | None) -> frozenset[RoleScope]:
    """Return which scopes' roles count for an object."""
    scopes = {
        RoleScope.PLATFORM: True,
        RoleScope.ORGANIZATION: organization_id is not None,
        RoleScope.PROJECT: project_id is not None,
    }
    return frozenset(scope for scope, counts in scopes.items() if counts)


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

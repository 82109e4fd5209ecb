"""The only way from an entry point to an object: fetch with permission.

What an actor may not see does not exist (NotFoundError); what it sees but may not change is
forbidden (ForbiddenError). The sets an actor sees come from selectors/visibility.py and are open
here too.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.auth.models import User
from django.db import models
from django.db.models import QuerySet

from tenants.domain.actors import Actor
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
    Organization,
    Project,
    ServiceAccount,
)
from tenants.selectors.people import holders_in, user_named
from tenants.selectors.visibility import (
    READ_AUDIT,
    READ_CLUSTER,
    READ_MEMBERSHIP,
    READ_NAMESPACE,
    READ_ORGANIZATION,
    READ_PROJECT,
    WRITE_TOKEN,
    api_tokens_visible_to,
    audit_entries_visible_to,
    bindings_visible_to,
    clusters_visible_to,
    invitations_visible_to,
    is_platform_wide,
    memberships_visible_to,
    organizations_visible_to,
    projects_visible_to,
    service_accounts_visible_to,
)

__all__ = [
    "READ_AUDIT",
    "READ_CLUSTER",
    "READ_MEMBERSHIP",
    "READ_NAMESPACE",
    "READ_ORGANIZATION",
    "READ_PROJECT",
    "WRITE_TOKEN",
    "access_api_token",
    "access_audit_entry",
    "access_binding",
    "access_cluster",
    "access_invitation",
    "access_membership",
    "access_organization",
    "access_person",
    "access_project",
    "access_row",
    "access_seen",
    "access_service_account",
    "api_tokens_visible_to",
    "audit_entries_visible_to",
    "bindings_visible_to",
    "clusters_visible_to",
    "invitations_visible_to",
    "is_platform_wide",
    "memberships_visible_to",
    "organizations_visible_to",
    "own_tokens",
    "projects_visible_to",
    "require_capability",
    "service_accounts_visible_to",
]

Row = TypeVar("Row", bound=models.Model)


def access_organization(
    actor: Actor, organization_id: UUID, capability: str, *, field: str = "organization"
) -> Organization:
    """Return an organization over which an actor holds a capability.

    `field` is the input field to name in the error when it does not exist; "" for the URL.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor may read it but does not hold the capability.
    """
    return access_row(
        Organization.objects.all(),
        organization_id,
        visible_to=organizations_visible_to,
        actor=actor,
        capability=capability,
        field=field,
    )


def access_project(
    actor: Actor, project_id: UUID, capability: str, *, field: str = "project"
) -> Project:
    """Return a project, with its organization, over which an actor holds a capability.

    `field` is the input field to name in the error when it does not exist; "" for the URL.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor may read it but does not hold the capability.
    """
    return access_row(
        Project.objects.select_related("organization"),
        project_id,
        visible_to=projects_visible_to,
        actor=actor,
        capability=capability,
        field=field,
    )


def access_cluster(actor: Actor, cluster_id: UUID, capability: str) -> Cluster:
    """Return a cluster over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor may read it but does not hold the capability.
    """
    return access_row(
        Cluster.objects.all(),
        cluster_id,
        visible_to=clusters_visible_to,
        actor=actor,
        capability=capability,
    )


def access_binding(actor: Actor, binding_id: UUID, capability: str) -> NamespaceBinding:
    """Return a namespace binding; the actor holds a capability over its project.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor may read it but does not hold the capability.
    """
    return access_row(
        NamespaceBinding.objects.select_related("cluster", "project", "default_owner"),
        binding_id,
        visible_to=bindings_visible_to,
        actor=actor,
        capability=capability,
    )


def access_membership(actor: Actor, membership_id: UUID) -> Membership:
    """Return a membership that an actor may read; the service decides on revoking it.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(memberships_visible_to(actor), membership_id)


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


def access_invitation(actor: Actor, invitation_id: UUID, capability: str) -> Invitation:
    """Return an invitation; the actor holds a capability over its scope.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor may read it but does not hold the capability.
    """
    return access_row(
        Invitation.objects.select_related("organization", "project", "invited_by"),
        invitation_id,
        visible_to=invitations_visible_to,
        actor=actor,
        capability=capability,
    )


def access_service_account(actor: Actor, account_id: UUID, capability: str) -> ServiceAccount:
    """Return a service account; the actor holds a capability over its organization.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor may read it but does not hold the capability.
    """
    return access_row(
        ServiceAccount.objects.select_related("organization"),
        account_id,
        visible_to=service_accounts_visible_to,
        actor=actor,
        capability=capability,
    )


def access_api_token(actor: Actor, token_id: UUID) -> ApiToken:
    """Return a token that is an actor's own or of an account it looks after.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(api_tokens_visible_to(actor), token_id)


def own_tokens(actor: Actor, *, at: datetime) -> QuerySet[ApiToken]:
    """Return a person's own tokens that have not ended; none of service accounts."""
    return api_tokens_visible_to(actor).filter(user_id=actor.id, revoked_at=None, expires_at__gt=at)


def access_audit_entry(actor: Actor, entry_id: int) -> AuditEntry:
    """Return an entry of a trail that an actor audits.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(audit_entries_visible_to(actor), entry_id)


def access_row(
    rows: QuerySet[Row],
    row_id: object,
    *,
    visible_to: Callable[..., QuerySet[Row]],
    actor: Actor,
    capability: str,
    field: str = "",
) -> Row:
    """Return one row over which an actor holds a capability, or raise 404 or 403.

    Other apps build their own `access_*` on it. One query if allowed, at most two if refused.

    Args:
        rows: The table, with `select_related` for what the caller needs.
        row_id: Its primary key.
        visible_to: Takes an actor and a capability and returns the rows over which the actor
            holds it; without a capability, the rows that the actor may read.
        actor: The caller.
        capability: The required capability; named in the refusal.
        field: The input field to name in the error when it does not exist; "" for none.

    Raises:
        NotFoundError: It does not exist, or not for this actor.
        ForbiddenError: The actor may read it but does not hold the capability.
    """
    allowed = visible_to(actor, capability)
    found = rows.filter(pk=row_id, pk__in=allowed.values("pk")).first()
    if found is not None:
        return found
    if visible_to(actor).filter(pk=row_id).exists():
        raise forbidden(capability)
    raise NotFoundError(f"There is no such {_noun(rows)}.", field=field)


def access_seen(seen: QuerySet[Row], row_id: object) -> Row:
    """Return one row out of those an actor sees, where to see is all that is asked; one query.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    found = seen.filter(pk=row_id).first()
    if found is None:
        raise NotFoundError(f"There is no such {_noun(seen)}.")
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


def _reach(organization_id: UUID | None, project_id: UUID | None) -> frozenset[RoleScope]:
    """Return which scopes' roles count for an object."""
    scopes = {
        RoleScope.PLATFORM: True,
        RoleScope.ORGANIZATION: organization_id is not None,
        RoleScope.PROJECT: project_id is not None,
    }
    return frozenset(scope for scope, counts in scopes.items() if counts)


def _noun(rows: QuerySet[Any]) -> str:
    return str(rows.model._meta.verbose_name)  # noqa: SLF001 - Documented model meta.

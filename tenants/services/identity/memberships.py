"""Write memberships: grant and revoke roles."""

from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import FieldProblem
from tenants.domain.identity.account_changes import needs_second_person
from tenants.domain.identity.granting import conflicting_role, exceeds_token, may_give
from tenants.domain.identity.refusals import SecondPersonRequiredError
from tenants.domain.identity.roles import ROLE_SCOPES, Role, RoleScope
from tenants.domain.refusals import (
    DutiesConflictError,
    HolderInactiveError,
    LastPlatformAdminError,
    OrganizationClosedError,
    ProjectClosedError,
    RoleHeldError,
    RoleNotYoursToGiveError,
)
from tenants.models import Membership, Organization, Project, ServiceAccount
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows
from tenants.selectors.people import platform_admins
from tenants.selectors.validation import refuse_invalid
from tenants.services.audit import record
from tenants.services.changing import add_row
from tenants.services.identity.tokens import end_credentials


@transaction.atomic
def grant_role(  # noqa: PLR0913 - A record's columns; all are keyword only.
    *,
    role: Role,
    user: User | None = None,
    service_account: ServiceAccount | None = None,
    organization: Organization | None = None,
    project: Project | None = None,
    actor: Actor,
    at: datetime,
) -> Membership:
    """Grant a person or service account a role on the platform, an organization or a project.

    Args:
        role: Which; its reach says what scope must be named.
        user: The holder, or
        service_account: the holder.
        organization: The scope of an organization's role.
        project: The scope of a project's role.
        actor: The caller; never the holder.
        at: When, UTC.

    Raises:
        InvalidInputError: Holder and scope do not fit the role; every problem is listed.
        RoleNotYoursToGiveError: The actor's own roles, or its token, do not cover it.
        SecondPersonRequiredError: A platform role needs a second person.
        OrganizationClosedError: The organization is closed.
        ProjectClosedError: The project is closed.
        HolderInactiveError: The holder is inactive.
        DutiesConflictError: The holder has a conflicting role (separation of duties).
        RoleHeldError: The holder has it already.
    """
    membership = Membership(
        user=user,
        service_account=service_account,
        role=role.value,
        organization=organization,
        project=project,
        created_at=at,
    )
    refuse_invalid(membership, further=(*_holder_problems(membership), *scope_problems(membership)))
    _require_may_give(actor, membership)
    if exceeds_token(actor, role):
        raise RoleNotYoursToGiveError(
            f"This API token may do less than {role.value}.",
            field="role",
            remedy="Use one whose scopes include all that the role may do.",
        )
    if needs_second_person(role) and not actor.is_system:
        raise SecondPersonRequiredError(
            f"One person alone does not make another {role.value}.",
            field="role",
            facts={"role": role.value, "username": user.get_username() if user else None},
        )
    _write(membership, actor=actor, at=at)
    return membership


@transaction.atomic
def grant_platform_role(*, role: Role, user: User, actor: Actor, at: datetime) -> Membership:
    """Grant a platform role that one person requested and the actor approves.

    What the holder signed in with before ends, as with every role of the platform.

    Raises:
        RoleNotYoursToGiveError: The actor's own roles do not cover it.
        HolderInactiveError: The holder is inactive.
        DutiesConflictError: The holder has a conflicting role (separation of duties).
        RoleHeldError: The holder has it already.
    """
    membership = Membership(user=user, role=role.value, created_at=at)
    _require_may_give(actor, membership)
    _write(membership, actor=actor, at=at)
    return membership


def _write(membership: Membership, *, actor: Actor, at: datetime) -> None:
    require_open_scope(membership)
    _require_holder_fits(membership)
    add_row(
        row=membership,
        refusals={
            "membership_unique": RoleHeldError(
                f"{_holder(membership)} is {membership.role} already."
            )
        },
        actor=actor,
        at=at,
        organization_id=organization_id_of(membership),
        facts=_facts(membership),
    )
    if needs_second_person(Role(membership.role)):
        for person in lock_rows(User.objects.filter(pk__in=[membership.user_id])):
            end_credentials(person=person, actor=actor, at=at)


@transaction.atomic
def revoke_role(*, membership: Membership, actor: Actor, at: datetime) -> None:
    """Revoke a role; the holder's next request does not have it.

    Raises:
        RoleNotYoursToGiveError: The actor's own roles do not cover it.
        LastPlatformAdminError: No active platform admin would remain.
    """
    _require_may_take(actor, membership)
    if membership.role == Role.PLATFORM_ADMIN:
        refuse_last_platform_admin(leaving=membership.user_id, actor=actor)
    record(
        actor=actor,
        at=at,
        action="tenants:membership:delete",
        object_kind="membership",
        object_id=membership.pk,
        organization_id=organization_id_of(membership),
        facts=_facts(membership),
    )
    Membership.objects.filter(pk=membership.pk).delete()


def refuse_last_platform_admin(*, leaving: int | None, actor: Actor) -> None:
    """Refuse to remove the last active platform admin, inside a transaction.

    All platform admins' rows are locked, so that two concurrent removals are serialized.

    Args:
        leaving: The user to remove.
        actor: The caller; named in the facts.

    Raises:
        LastPlatformAdminError: There is no other active platform admin.
    """
    lock_rows(platform_admins())
    # Counted by a statement of its own: the one that waited still sees roles as they were before.
    if not platform_admins().exclude(pk__in=[leaving]).exists():
        raise LastPlatformAdminError(
            "The last platform admin cannot go.", facts={"actor": actor.label}
        )


def organization_id_of(membership: Membership) -> UUID | None:
    """Return the organization of a membership's audit trail; None for the platform."""
    if membership.project is not None:
        return membership.project.organization_id
    return membership.organization_id


def _holder_problems(membership: Membership) -> tuple[FieldProblem, ...]:
    account = membership.service_account
    if (membership.user is None) == (account is None):
        return (FieldProblem("user", "one_holder", "Name either a user or a service account."),)
    if account is None:
        return ()
    if account.organization_id != organization_id_of(membership):
        message = "A service account has roles in its own organization only."
        return (FieldProblem("service_account", "foreign_scope", message),)
    return ()


def scope_problems(membership: Membership) -> tuple[FieldProblem, ...]:
    """Return missing and superfluous fields of a role's scope."""
    reach = ROLE_SCOPES[Role(membership.role)]
    wanted = {
        "organization": reach is RoleScope.ORGANIZATION,
        "project": reach is RoleScope.PROJECT,
    }
    given = {
        "organization": membership.organization is not None,
        "project": membership.project is not None,
    }
    return tuple(
        FieldProblem(
            name,
            "scope_required" if wanted[name] else "scope_not_allowed",
            f"{membership.role} takes {'the' if wanted[name] else 'no'} {name}.",
        )
        for name in wanted
        if wanted[name] != given[name]
    )


def _require_may_give(actor: Actor, membership: Membership) -> None:
    if membership.user_id is not None:
        holder = (ActorKind.PERSON, str(membership.user_id))
    else:
        holder = (ActorKind.SERVICE_ACCOUNT, str(membership.service_account_id))
    if not may_give(
        actor,
        Role(membership.role),
        organization_id=organization_id_of(membership),
        project_id=membership.project_id,
        holder=holder,
    ):
        raise RoleNotYoursToGiveError(f"{membership.role} is not yours to give here.", field="role")


def _require_may_take(actor: Actor, membership: Membership) -> None:
    """Refuse to remove a role that the actor may not give; one's own may always be given up."""
    own = actor.kind is ActorKind.PERSON and actor.id == str(membership.user_id)
    if not own:
        _require_may_give(actor, membership)


def require_open_scope(membership: Membership) -> None:
    """Lock organization and project, so that neither closes meanwhile, and refuse the closed."""
    organizations = lock_rows(Organization.objects.filter(pk__in=[organization_id_of(membership)]))
    projects = lock_rows(Project.objects.filter(pk__in=[membership.project_id]))
    for organization in organizations:
        if organization.state != LifecycleState.ACTIVE:
            raise OrganizationClosedError(f"{organization.name} is closed.")
    for project in projects:
        if project.state != LifecycleState.ACTIVE:
            raise ProjectClosedError(f"{project.name} is closed.", field="project")


def _require_holder_fits(membership: Membership) -> None:
    """Lock the holder, so that two grants see each other, and refuse what does not fit."""
    if membership.user_id is None:
        (account,) = lock_rows(
            ServiceAccount.objects.filter(pk__in=[membership.service_account_id])
        )
        if account.state != LifecycleState.ACTIVE:
            raise HolderInactiveError(f"{account.slug} is closed.", field="service_account")
        return
    (person,) = lock_rows(User.objects.filter(pk=membership.user_id))
    if not person.is_active:
        raise HolderInactiveError(f"{person.get_username()} is deactivated.", field="user")
    held = {Role(role) for role in person.memberships.values_list("role", flat=True)}
    if person.is_superuser:
        held.add(Role.PLATFORM_ADMIN)
    clash = conflicting_role(Role(membership.role), frozenset(held))
    if clash is not None:
        raise DutiesConflictError(
            f"{person.get_username()} is {clash.value}, which stays apart from {membership.role}.",
            field="role",
            facts={"held": clash.value},
        )


def _holder(membership: Membership) -> str:
    if membership.service_account is not None:
        return membership.service_account.slug
    return membership.user.get_username() if membership.user is not None else ""


def _facts(membership: Membership) -> dict[str, str | None]:
    return {
        "role": membership.role,
        "holder": _holder(membership),
        "project_id": None if membership.project_id is None else str(membership.project_id),
    }

"""Who may hand out which role, and which roles one person must not hold together."""

from typing import Final
from uuid import UUID

from tenants.domain.actors import Actor, ActorKind
from tenants.domain.roles import CAPABILITIES, ROLE_SCOPES, Role, RoleScope

CONFLICTING_ROLES: Final[frozenset[frozenset[Role]]] = frozenset(
    {
        frozenset({Role.PLATFORM_ADMIN, Role.FINANCE_ADMIN}),
        frozenset({Role.AUDITOR, Role.PLATFORM_ADMIN}),
        frozenset({Role.AUDITOR, Role.FINANCE_ADMIN}),
    }
)
"""Who runs the platform does not price it, and who audits does neither."""

GRANT_CAPABILITY: Final = "tenants:membership:write"


def may_give(
    actor: Actor,
    role: Role,
    *,
    organization_id: UUID | None,
    project_id: UUID | None,
    holder: tuple[ActorKind, str],
) -> bool:
    """Whether an actor may give or take a role at a scope.

    Nobody gives a role to themselves, and a platform role is given by platform admins only.

    Args:
        actor: Who gives.
        role: What is given.
        organization_id: The organization of the scope; for a project, the one it belongs to.
        project_id: The project of the scope.
        holder: Kind and id of who receives.
    """
    if actor.is_system:
        return True
    if (actor.kind, actor.id) == holder:
        return False
    if ROLE_SCOPES[role] is RoleScope.PLATFORM:
        return actor.may(GRANT_CAPABILITY)
    return actor.may(GRANT_CAPABILITY, organization_id=organization_id, project_id=project_id)


def exceeds_token(actor: Actor, role: Role) -> bool:
    """Whether a role may do more than the token that an actor calls with."""
    return actor.scopes is not None and not actor.scopes >= CAPABILITIES[role]


def conflicting_role(role: Role, held: frozenset[Role]) -> Role | None:
    """Return the first held role, by name, that must not be combined with a new one."""
    clashes = sorted(other for other in held if frozenset({role, other}) in CONFLICTING_ROLES)
    return clashes[0] if clashes else None

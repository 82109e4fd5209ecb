"""Which roles may grant which role, and which roles one person must not combine."""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import ForbiddenError
from tenants.domain.identity.roles import CAPABILITIES, ROLE_SCOPES, Role, RoleScope

CONFLICTING_ROLES: Final[frozenset[frozenset[Role]]] = frozenset(
    {
        frozenset({Role.PLATFORM_ADMIN, Role.FINANCE_ADMIN}),
        frozenset({Role.AUDITOR, Role.PLATFORM_ADMIN}),
        frozenset({Role.AUDITOR, Role.FINANCE_ADMIN}),
    }
)
"""Platform admins set no prices, and auditors do neither."""

GRANT_CAPABILITY: Final = "tenants:membership:write"


def may_give(
    actor: Actor,
    role: Role,
    *,
    organization_id: UUID | None,
    project_id: UUID | None,
    holder: tuple[ActorKind, str],
) -> bool:
    """Whether an actor may grant or revoke a role at a scope.

    No actor grants a role to itself, and only platform admins grant platform roles.

    Args:
        actor: The caller.
        role: The role to grant or revoke.
        organization_id: The organization of the scope; for a project, the one it belongs to.
        project_id: The project of the scope.
        holder: Kind and id of the holder.
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


ANYWHERE: Final = frozenset(RoleScope)
_OF: Final = {
    RoleScope.PLATFORM: "",
    RoleScope.ORGANIZATION: " of the organization",
    RoleScope.PROJECT: " of the project",
}


def who_may(capability: str, *, reach: Collection[RoleScope] = ANYWHERE) -> str:
    """Return the roles with a capability as text, such as "a finance admin or a platform admin".

    Args:
        capability: `<app>:<resource>:<action>`.
        reach: Scopes of roles that count; for a platform object only platform roles do.
    """
    *others, last = holders_of(capability, reach=reach)
    return f"{', '.join(others)} or {last}" if others else last


def holders_of(capability: str, *, reach: Collection[RoleScope] = ANYWHERE) -> list[str]:
    """Return the roles with a capability, such as "a finance admin"; "nobody" without one."""
    holders = [
        _refusal(role.value, _OF[ROLE_SCOPES[role]])
        for role, held in CAPABILITIES.items()
        if capability in held and ROLE_SCOPES[role] in reach
    ]
    return holders or ["nobody"]


def forbidden(capability: str, *, reach: Collection[RoleScope] = ANYWHERE) -> ForbiddenError:
    """Return the refusal of an actor without a capability; it names the roles that have it."""
    return ForbiddenError(
        "Your role does not allow this here.",
        remedy=f"This may be done by {who_may(capability, reach=reach)}.",
        facts={"capability": capability},
    )


def _refusal(role: str, of: str) -> str:
    words = role.replace("_", " ").replace("organization admin", "administrator")
    article = "an" if words[0] in "aeiou" else "a"
    return f"{article} {words}{of}"

"""Who may do what somebody else may not: the roles that carry a capability, in words."""

from collections.abc import Collection
from typing import Final

from tenants.domain.errors import ForbiddenError
from tenants.domain.roles import CAPABILITIES, ROLE_SCOPES, RoleScope

ANYWHERE: Final = frozenset(RoleScope)
_OF: Final = {
    RoleScope.PLATFORM: "",
    RoleScope.ORGANIZATION: " of the organization",
    RoleScope.PROJECT: " of the project",
}


def who_may(capability: str, *, reach: Collection[RoleScope] = ANYWHERE) -> str:
    """Return who holds a capability, such as "a finance admin or a platform admin".

    Args:
        capability: `<app>:<resource>:<action>`.
        reach: Of which scopes a role counts; for an object of the platform only its own do.
    """
    holders = [
        _told(role.value, _OF[ROLE_SCOPES[role]])
        for role, held in CAPABILITIES.items()
        if capability in held and ROLE_SCOPES[role] in reach
    ]
    *others, last = holders or ["nobody"]
    return f"{', '.join(others)} or {last}" if others else last


def forbidden(capability: str, *, reach: Collection[RoleScope] = ANYWHERE) -> ForbiddenError:
    """Return the refusal of an actor without a capability, which names who has it."""
    return ForbiddenError(
        "Your role does not allow this here.",
        remedy=f"This may be done by {who_may(capability, reach=reach)}.",
        facts={"capability": capability},
    )


def _told(role: str, of: str) -> str:
    words = role.replace("_", " ").replace("organization admin", "administrator")
    article = "an" if words[0] in "aeiou" else "a"
    return f"{article} {words}{of}"

"""Roles and what they may do: capabilities are `<app>:<resource>:<action>` strings in one table.

Separation of duties: a platform admin does not touch money, a finance admin does not touch
clusters; an auditor reads everything and writes nothing.
"""

from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a membership makes of a person or a service account."""

    PLATFORM_ADMIN = "platform_admin"
    FINANCE_ADMIN = "finance_admin"
    AUDITOR = "auditor"
    ORGANIZATION_ADMIN = "organization_admin"
    PROJECT_LEAD = "project_lead"
    MEMBER = "member"


class RoleScope(StrEnum):
    """How far a role reaches."""

    PLATFORM = "platform"
    ORGANIZATION = "organization"
    PROJECT = "project"


ROLE_SCOPES: Final[dict[Role, RoleScope]] = {
    Role.PLATFORM_ADMIN: RoleScope.PLATFORM,
    Role.FINANCE_ADMIN: RoleScope.PLATFORM,
    Role.AUDITOR: RoleScope.PLATFORM,
    Role.ORGANIZATION_ADMIN: RoleScope.ORGANIZATION,
    Role.PROJECT_LEAD: RoleScope.PROJECT,
    Role.MEMBER: RoleScope.PROJECT,
}

_READ_TENANT: Final = frozenset(
    {
        "tenants:organization:read",
        "tenants:project:read",
        "tenants:membership:read",
        "tenants:namespace:read",
        "metering:usage:read",
        "metering:exception:read",
        "metering:waste:read",
        "metering:credit:read",
        "metering:catalogue:read",
        "quotas:limit:read",
        "quotas:isolation:read",
        "quotas:request:read",
        "quotas:reservation:read",
        "billing:price:read",
        "billing:charge:read",
        "billing:invoice:read",
    }
)
_READ_PLATFORM: Final = _READ_TENANT | {
    "tenants:cluster:read",
    "tenants:notification:read",
    "tenants:audit:read",
    "metering:window:read",
    "metering:capacity:read",
    "metering:device_event:read",
    "metering:health:read",
    "quotas:enforcement:read",
    "quotas:preemption:read",
    "quotas:suspension:read",
    "billing:period:read",
    "billing:journal:read",
    "billing:export:read",
}
_ORGANIZATION_ADMIN: Final = _READ_TENANT | {
    "tenants:audit:read",
    "tenants:membership:write",
    "tenants:project:write",
    "tenants:token:write",
    "metering:waste:dismiss",
    "quotas:limit:write",
    "quotas:isolation:write",
    "quotas:request:submit",
    "quotas:preemption:plan",
    "quotas:preemption:read",
    "quotas:request:decide",
    "quotas:request:review",
    "tenants:notification:read",
    "tenants:notification:write",
    "quotas:suspension:read",
    "billing:dispute:write",
}

CAPABILITIES: Final[dict[Role, frozenset[str]]] = {
    Role.PLATFORM_ADMIN: _READ_PLATFORM
    | {
        "tenants:organization:write",
        "tenants:project:write",
        "tenants:membership:write",
        "tenants:cluster:write",
        "tenants:namespace:write",
        "tenants:token:write",
        "metering:window:write",
        "metering:exception:write",
        "metering:correction:write",
        "metering:waste:dismiss",
        "metering:device_event:write",
        "metering:catalogue:write",
        "quotas:limit:write",
        "quotas:isolation:write",
        "quotas:request:decide",
        "quotas:request:review",
        "tenants:notification:write",
        "quotas:suspension:write",
        "quotas:enforcement:write",
        "quotas:preemption:plan",
        "quotas:preemption:write",
    },
    Role.FINANCE_ADMIN: _READ_PLATFORM
    | {
        "billing:price:write",
        "billing:period:write",
        "billing:invoice:write",
        "billing:journal:write",
        "billing:export:write",
        "billing:payment:write",
        "billing:dispute:write",
        "metering:credit:decide",
        "quotas:request:fund",
        "quotas:suspension:write",
    },
    Role.AUDITOR: _READ_PLATFORM,
    Role.ORGANIZATION_ADMIN: _ORGANIZATION_ADMIN,
    Role.PROJECT_LEAD: (_READ_TENANT - {"billing:invoice:read"})
    | {
        "tenants:membership:write",
        "tenants:token:write",
        "metering:waste:dismiss",
        "quotas:request:submit",
        "quotas:request:review",
    },
    Role.MEMBER: frozenset(
        {
            "tenants:organization:read",
            "tenants:project:read",
            "metering:usage:read",
            "metering:waste:read",
            "metering:catalogue:read",
            "quotas:limit:read",
            "quotas:isolation:read",
            "quotas:request:read",
            "quotas:reservation:read",
            "billing:own_charge:read",
        }
    ),
}

ALL_CAPABILITIES: Final = frozenset().union(*CAPABILITIES.values())

"""The admin pages of tenants: one module a family of tables; `base` is open to every app."""

from tenants.admin import (
    account_changes,
    clusters,
    ledgers,
    notifications,
    organizations,
    people,
    programs,
    sign_in,
)

__all__ = [
    "account_changes",
    "clusters",
    "ledgers",
    "notifications",
    "organizations",
    "people",
    "programs",
    "sign_in",
]

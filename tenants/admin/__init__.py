"""The admin door of tenants: one module a family of tables; `base` is open to every app."""

from tenants.admin import clusters, ledgers, notifications, organizations, people, programs

__all__ = ["clusters", "ledgers", "notifications", "organizations", "people", "programs"]

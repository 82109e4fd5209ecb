"""The admin door of tenants: one module a family of tables; `base` is open to every app."""

from tenants.admin import clusters, ledgers, organizations, people, programs

__all__ = ["clusters", "ledgers", "organizations", "people", "programs"]

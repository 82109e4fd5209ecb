"""The admin door of quotas."""

from quotas.admin import enforcement, grants, isolation, limits, loans, requests, suspensions

__all__ = ["enforcement", "grants", "isolation", "limits", "loans", "requests", "suspensions"]

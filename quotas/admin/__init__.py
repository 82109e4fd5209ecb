"""The admin door of quotas."""

from quotas.admin import enforcement, isolation, limits, requests

__all__ = ["enforcement", "isolation", "limits", "requests"]

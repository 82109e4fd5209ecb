"""The admin door of quotas."""

from quotas.admin import enforcement, limits, requests

__all__ = ["enforcement", "limits", "requests"]

"""Adapters: access to clusters, mail servers and webhooks for all apps. They import no model."""

from collections.abc import Mapping
from typing import Any

from django.utils.module_loading import import_string

from tenants.protocols import NotificationSender


def notification_senders(setting: Mapping[str, Mapping[str, Any]]) -> dict[str, NotificationSender]:
    """Return the sender of each kind of notification; a missing kind cannot be sent.

    Args:
        setting: {"mail": {"BACKEND": dotted path of a callable, "OPTIONS": its arguments}, ...}.
    """
    return {
        kind: import_string(chosen["BACKEND"])(**chosen.get("OPTIONS", {}))
        for kind, chosen in setting.items()
    }

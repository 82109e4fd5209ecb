"""Adapters: access to clusters, mail servers and webhooks for all apps. They import no model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from django.utils.module_loading import import_string

from tenants.protocols import MailAttachment, NotificationSender


def notification_senders(setting: Mapping[str, Mapping[str, Any]]) -> dict[str, NotificationSender]:
    """Return the sender of each kind of notification; a missing kind cannot be sent.

    Args:
        setting: {"mail": {"BACKEND": dotted path of a callable, "OPTIONS": its arguments}, ...}.
    """
    return {
        kind: import_string(chosen["BACKEND"])(**chosen.get("OPTIONS", {}))
        for kind, chosen in setting.items()
    }


def document_loader(setting: str) -> Callable[[UUID], Sequence[MailAttachment]]:
    """Return the function that loads the files of a document that a mail is about.

    Args:
        setting: Dotted path of a function: only billing knows documents.
    """
    load: Callable[[UUID], Sequence[MailAttachment]] = import_string(setting)
    return load


def cluster_advice(setting: str) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """Return the function that says what is wrong with the resource names a cluster offers.

    Args:
        setting: Dotted path of a function: apps above know which names have a size.
    """
    advise: Callable[[Sequence[str]], tuple[str, ...]] = import_string(setting)
    return advise

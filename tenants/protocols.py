"""Ports of tenants: senders of notifications."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID


@dataclass(frozen=True)
class MailAttachment:
    """A file that a mail carries."""

    name: str
    content_type: str
    content: bytes


@dataclass(frozen=True)
class OutgoingNotification:
    """One notification for one address.

    Attributes:
        event_id: The same at every attempt and for every address, so that a receiver knows it.
        organization: Slug; "" for a matter of the platform.
        facts: JSON values for programs.
        address: A mail address, or a URL.
        secret_reference: `env:<NAME>` of the secret that signs; "" where nothing is signed.
        language: Of subject and text, "en" or "de".
        document_id: What a mail is about; its file is attached when it is sent.
        attachments: Of a mail that is about to be sent.
    """

    event_id: UUID
    event: str
    occurred_at: datetime
    organization: str
    subject: str
    text: str
    facts: Mapping[str, Any]
    address: str
    secret_reference: str = ""
    language: str = "en"
    document_id: UUID | None = None
    attachments: tuple[MailAttachment, ...] = ()


class NotificationSender(Protocol):
    """Sends a notification to an address, at least once."""

    def send(self, notification: OutgoingNotification) -> None:
        """Send it; it returns after the receiver has accepted it.

        Raises:
            SourceUnavailableError: It was not accepted; it is retried later.
        """
        ...

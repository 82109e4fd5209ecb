"""Notifications by mail: text, the same as HTML, and the document that they are about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import make_msgid
from smtplib import SMTPException
from string import Formatter
from typing import Any, Final

from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string

from tenants.domain.errors import SourceUnavailableError
from tenants.protocols import MailAttachment, OutgoingNotification

TEXT: Final = "notifications/mail.txt"
HTML: Final = "notifications/mail.html"
ATTACHED_BYTES_MAX: Final = 10 * 1024 * 1024
"""A larger file is not attached: many mail servers take no more than 20 MB, encoded."""
_FRAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "open": "Open in GPU Ledger",
        "attached": "Attached: {names}",
        "left_out": "Too large to be attached: {names}",
        "about": "GPU Ledger for {organization}, {moment}",
        "platform": "GPU Ledger, {moment}",
        "why": "People choose what they are mailed about:",
        "event": "Event: {event}",
    },
    "de": {
        "open": "In GPU Ledger öffnen",
        "attached": "Anhang: {names}",
        "left_out": "Zu groß für den Anhang: {names}",
        "about": "GPU Ledger für {organization}, {moment}",
        "platform": "GPU Ledger, {moment}",
        "why": "Personen wählen aus, worüber sie E-Mails erhalten:",
        "event": "Ereignis: {event}",
    },
}


@dataclass(frozen=True)
class MailPages:
    """Where the pages are that mails link to.

    Attributes:
        public_url: Without a slash at its end.
        links: By event, the path of the page it is about, with facts in braces.
        preferences_path: Of the page where people choose what they are mailed about.
    """

    public_url: str
    links: Mapping[str, str] = field(default_factory=dict)
    preferences_path: str = "/"


class MailSender:
    """Sends through Django's mail backend, one mail for each address."""

    def __init__(self, *, sender: str, **pages: Any) -> None:  # noqa: ANN401 - As `MailPages` takes them.
        """Keep the From address and the addresses of pages."""
        self.sender = sender
        self.pages = MailPages(**pages)

    def send(self, notification: OutgoingNotification) -> None:
        """Send one mail; every attempt carries the same event id.

        Raises:
            SourceUnavailableError: The mail server is away or does not take it, or no mail can be
                written to the address.
        """
        context = _context_of(notification, pages=self.pages)
        mail = EmailMultiAlternatives(
            subject=subject_of(notification),
            body=render_to_string(TEXT, context),
            from_email=self.sender,
            to=[notification.address],
            headers={
                "Message-ID": make_msgid(str(notification.event_id), domain="gpu-ledger"),
                "X-GPU-Ledger-Event": notification.event,
                "X-GPU-Ledger-Event-Id": str(notification.event_id),
                "Auto-Submitted": "auto-generated",
            },
        )
        mail.attach_alternative(render_to_string(HTML, context), "text/html")
        for file in _attached(notification):
            mail.attach(file.name, file.content, file.content_type)
        try:
            count = mail.send()
        except (SMTPException, OSError) as error:
            raise SourceUnavailableError(
                f"The mail server did not take it: {type(error).__name__}.", reason="mail_refused"
            ) from error
        except ValueError as error:
            # Addresses of accounts are not validated.
            raise _invalid_address() from error
        if not count:
            raise _invalid_address()


def subject_of(notification: OutgoingNotification) -> str:
    """Return the Subject of a mail."""
    return f"[GPU Ledger] {notification.subject}"


def text_of(notification: OutgoingNotification, *, pages: MailPages) -> str:
    """Return the text of a mail; the same at every attempt."""
    return render_to_string(TEXT, _context_of(notification, pages=pages))


def _context_of(notification: OutgoingNotification, *, pages: MailPages) -> dict[str, object]:
    """Return the values of both templates."""
    frame = _FRAMES[notification.language]
    moment = notification.occurred_at
    attached = _attached(notification)
    left_out = [file for file in notification.attachments if file not in attached]
    path = _path_of(notification, pages=pages)
    return {
        "language": notification.language,
        "subject": notification.subject,
        "text": notification.text.strip(),
        "link": f"{pages.public_url}{path}" if path else "",
        "link_label": frame["open"],
        "notes": [
            frame[key].format(names=", ".join(file.name for file in files))
            for key, files in (("attached", attached), ("left_out", left_out))
            if files
        ],
        "footer": [
            frame["about" if notification.organization else "platform"].format(
                organization=notification.organization,
                moment=f"{moment:%Y-%m-%d %H:%M} UTC",
            ),
            frame["event"].format(event=notification.event),
        ],
        "why": frame["why"],
        "preferences_url": f"{pages.public_url}{pages.preferences_path}",
    }


def _path_of(notification: OutgoingNotification, *, pages: MailPages) -> str:
    """Return the path of the page a notification is about; "" where its facts do not name it."""
    path = pages.links.get(notification.event, "")
    needed = {name for _, name, _, _ in Formatter().parse(path) if name}
    return path.format(**notification.facts) if needed <= notification.facts.keys() else ""


def _attached(notification: OutgoingNotification) -> list[MailAttachment]:
    return [file for file in notification.attachments if len(file.content) <= ATTACHED_BYTES_MAX]


def _invalid_address() -> SourceUnavailableError:
    return SourceUnavailableError("No mail can be written to it.", reason="address_invalid")

"""Notifications by mail: plain text, through the mail server that settings name."""

from email.utils import make_msgid
from smtplib import SMTPException

from django.core.mail import EmailMessage

from tenants.domain.errors import SourceUnavailableError
from tenants.protocols import OutgoingNotification


class MailSender:
    """Sends through Django's mail backend, one mail for each address."""

    def __init__(self, *, sender: str, public_url: str) -> None:
        """Keep the sender and the sign-in URL.

        Args:
            sender: The From address.
            public_url: Without a slash at its end.
        """
        self.sender = sender
        self.public_url = public_url

    def send(self, notification: OutgoingNotification) -> None:
        """Send one mail; every attempt carries the same event id.

        Raises:
            SourceUnavailableError: The mail server is away or does not take it, or no mail can be
                written to the address.
        """
        mail = EmailMessage(
            subject=subject_of(notification),
            body=text_of(notification, public_url=self.public_url),
            from_email=self.sender,
            to=[notification.address],
            headers={
                "Message-ID": make_msgid(str(notification.event_id), domain="gpu-ledger"),
                "X-GPU-Ledger-Event": notification.event,
                "X-GPU-Ledger-Event-Id": str(notification.event_id),
                "Auto-Submitted": "auto-generated",
            },
        )
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


def text_of(notification: OutgoingNotification, *, public_url: str) -> str:
    """Return the text of a mail; the same at every attempt.

    Args:
        notification: The notification to send.
        public_url: Where people sign in, without a slash at its end.
    """
    moment = notification.occurred_at
    moment_text = f"{moment.day} {moment:%B %Y, %H:%M} UTC"
    about = f" for {notification.organization}" if notification.organization else ""
    lines = (
        notification.text.strip(),
        "",
        "-- ",
        f"GPU Ledger{about}, {moment_text}",
        public_url,
        f"You get this mail because of your role. Event: {notification.event}",
    )
    return "\n".join(lines)


def _invalid_address() -> SourceUnavailableError:
    return SourceUnavailableError("No mail can be written to it.", reason="address_invalid")

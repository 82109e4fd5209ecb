"""Mails: links for one person, and notifications.

Links are sent by a thread and never stored or logged. A public form must answer at once, and in the
same way whether an account exists or not, so a thread talks to the mail server. A failed link is
not sent again: people request another one. Notifications are sent by the worker that delivers them.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from email.utils import make_msgid
from smtplib import SMTPException
from typing import Final

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from tenants.domain.errors import SourceUnavailableError
from tenants.protocols import OutgoingNotification

_NO_MAIL: Final = "django.core.mail.backends.dummy.EmailBackend"
_POST: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="account-mail")

log = structlog.get_logger(__name__)


def is_mail_set_up() -> bool:
    """Whether a mail server is set up."""
    return bool(settings.EMAIL_BACKEND != _NO_MAIL)


def public_link(path: str) -> str:
    """Return the public URL of a page; never built from request headers."""
    return f"{settings.PUBLIC_URL}{path}"


def shown_end(moment: datetime) -> str:
    """Return the validity of a link as text for mails."""
    return f"It can be used once, until {moment:%-d %B %Y, %H:%M} UTC."


def one_line(name: object) -> str:
    """Return a name that people chose without the line breaks that would make a mail lie."""
    return " ".join(str(name).split())


def send_link(
    *, address: str, subject: str, text: str, link: str, unexpected: str
) -> "Future[None]":
    """Queue one mail with a link for the sending thread.

    Args:
        address: The recipient.
        subject: One line.
        text: Sentences that name the purpose of the link, its requester and its expiry.
        link: The whole URL; a secret.
        unexpected: What to do if the mail was not expected; completes a sentence.
    """
    return _send_soon(
        address,
        subject,
        f"{text}\n\n{link}\n\nIf you did not expect this, {unexpected}\n",
    )


def send_set_password(person: User) -> "Future[None]":
    """Send a person a link to set a password, to their own address soon."""
    path = reverse(
        "password_reset_confirm",
        args=(
            urlsafe_base64_encode(force_bytes(person.pk)),
            default_token_generator.make_token(person),
        ),
    )
    return send_link(
        address=person.email,
        subject="Set your password",
        text=f"With this link you set the password of the account {person.get_username()} at "
        f"{settings.PUBLIC_URL}. It can be used once, within a day.\n\nIt was asked for on the "
        "page of sign-in or by a platform admin, or the account is new, or its role, access or "
        "mail address was changed, which ends the password.",
        link=public_link(path),
        unexpected="do nothing: the link changes nothing by itself. If your password does not work "
        "any more, write to your platform admins.",
    )


def send_address_left(address: str, *, username: str) -> "Future[None]":
    """Send the owner of an address soon that it is no longer an account's."""
    return _send_soon(
        address,
        "Your mail address was changed",
        f"The account {username} at {settings.PUBLIC_URL} has another mail address from now on, "
        "and no longer this one. Its password, sessions and API tokens have ended.\n\n"
        "If you did not expect this, write to your platform admins at once.\n",
    )


def _send_soon(address: str, subject: str, body: str) -> "Future[None]":
    mail = EmailMessage(
        subject=f"[GPU Ledger] {subject}",
        body=body,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[address],
        headers={"Auto-Submitted": "auto-generated"},
    )
    return _POST.submit(_send, mail)


def _send(mail: EmailMessage) -> None:
    try:
        mail.send()
    except (SMTPException, OSError, ValueError) as error:
        log.warning("tenants.account_mail.failed", reason=type(error).__name__)


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

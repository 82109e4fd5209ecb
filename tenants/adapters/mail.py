"""Mails with links for one person.

Links are sent by a thread and never stored or logged. A public form must answer at once, and in the
same way whether an account exists or not, so a thread talks to the mail server. A failed link is
not sent again: people request another one.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from smtplib import SMTPAuthenticationError, SMTPException
from ssl import SSLError
from typing import Final

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage, get_connection
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from tenants.domain.errors import SourceUnavailableError

_NO_MAIL: Final = "django.core.mail.backends.dummy.EmailBackend"
_POST: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="account-mail")

log = structlog.get_logger(__name__)


def is_mail_set_up() -> bool:
    """Whether a mail server is set up."""
    return bool(settings.EMAIL_BACKEND != _NO_MAIL)


def reach_mail_server() -> None:
    """Connect to the mail server, with TLS and login as they are set, and send nothing.

    Raises:
        SourceUnavailableError: It cannot be reached, or refuses us; the text shows no secret.
    """
    server = get_connection()
    try:
        server.open()
    except SMTPAuthenticationError as error:
        raise SourceUnavailableError(
            f"The mail server does not admit this user (code {error.smtp_code}).",
            reason="login_refused",
        ) from error
    except SSLError as error:
        raise SourceUnavailableError(
            "The mail server does not prove who it is.", reason="tls_failed"
        ) from error
    except (SMTPException, OSError) as error:
        raise SourceUnavailableError(
            f"The mail server cannot be reached: {type(error).__name__}.", reason="unreachable"
        ) from error
    finally:
        server.close()


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

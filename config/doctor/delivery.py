"""Checks of the mail server and of the destinations of exports; nothing is sent or written."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from billing.adapters.destinations import export_destinations
from billing.domain.exports.schedules import remedy_of
from billing.models import ExportSchedule
from billing.protocols import ExportPlace
from config.doctor.findings import CheckResult, ok, problem, warning
from tenants.adapters.mail import is_mail_set_up, reach_mail_server
from tenants.domain.errors import SourceUnavailableError

PAGE: Final = "docs/how-to/receive-notifications.md"
EXPORTS_PAGE: Final = "docs/how-to/schedule-exports.md"
_SMTP: Final = "django.core.mail.backends.smtp.EmailBackend"
_REMEDIES: Final = {
    "login_refused": "Correct user and password in EMAIL_URL.",
    "tls_failed": "Use the name that its certificate is for, and a certificate that is valid.",
    "unreachable": "Check host and port in EMAIL_URL, and that this host may reach it.",
}


def check_mail() -> Iterator[CheckResult]:
    """Yield whether the mail server takes our connection and login."""
    if not is_mail_set_up():
        yield warning(
            "mail",
            "EMAIL_URL is not set: no invitation, password link or reminder is mailed.",
            "Set EMAIL_URL, such as smtp://user:password@mail.example.com:587?starttls=true.",
            PAGE,
        )
        return
    if settings.EMAIL_BACKEND != _SMTP:
        yield warning(
            "mail",
            f"Mails go to {settings.EMAIL_BACKEND.split('.')[-2]}, not to a mail server.",
            "Name a mail server in EMAIL_URL.",
            PAGE,
        )
        return
    try:
        reach_mail_server()
    except SourceUnavailableError as error:
        yield problem("mail", str(error), _REMEDIES[error.reason], PAGE)
        return
    is_secure = settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL
    place = f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"
    if settings.EMAIL_HOST_USER and not is_secure:
        yield warning(
            "mail",
            f"{place} admits us, but the password is sent without TLS.",
            "Use smtps://, or append ?starttls=true to EMAIL_URL.",
            PAGE,
        )
        return
    how = "over TLS" if is_secure else "without TLS"
    yield ok("mail", f"{place} takes our connection {how}; nothing was sent.")


def check_export(schedule: ExportSchedule) -> Iterator[CheckResult]:
    """Yield whether the place of a scheduled export can be reached and admits us."""
    target = schedule.target
    # A path may hold a token.
    host = urlsplit(schedule.address).hostname or schedule.address
    what = f"{schedule.slug}, {target} at {host}"
    destination = export_destinations(settings.EXPORT_DESTINATIONS).get(target)
    if destination is None:
        yield problem(
            "export",
            f"There is no way to deliver by {target}.",
            remedy_of("mail_missing"),
            EXPORTS_PAGE,
        )
        return
    try:
        destination.check(
            ExportPlace(schedule.address, schedule.secret_reference, schedule.host_key)
        )
    except SourceUnavailableError as error:
        if error.reason == "not_shown":
            yield warning(
                "export",
                f"{what}: {error}",
                "Allow the key to list the bucket, or see the next run.",
                EXPORTS_PAGE,
            )
            return
        yield problem("export", f"{what}: {error}", remedy_of(error.reason), EXPORTS_PAGE)
        return
    yield ok("export", f"{what}: reached; nothing was written.")

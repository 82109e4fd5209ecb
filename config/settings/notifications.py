"""Settings of mail and webhooks, and the pages that mails link to."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from config.env import Environment

NOTIFICATION_DOCUMENTS: Final = "billing.tasks.mailed_documents.mailed_document"
"""Returns the files of the document that a mail is about."""
_DOCUMENT_PAGE: Final = "/app/invoices/{document}/"
_REQUEST_PAGE: Final = "/app/requests/{request}/"
MAIL_LINKS: Final[Mapping[str, str]] = {
    "tenants:account_change:asked": "/admin/tenants/accountchange/",
    "metering:incident:opened": "/admin/metering/meteringexception/",
    "quotas:request:submitted": _REQUEST_PAGE,
    "quotas:request:escalated": _REQUEST_PAGE,
    "quotas:request:commented": _REQUEST_PAGE,
    "quotas:request:approved": _REQUEST_PAGE,
    "quotas:request:rejected": _REQUEST_PAGE,
    "quotas:request:expired": _REQUEST_PAGE,
    "quotas:grant:ending": _REQUEST_PAGE,
    "billing:invoice:finalized": _DOCUMENT_PAGE,
    "billing:credit_note:finalized": _DOCUMENT_PAGE,
    "billing:debit_note:finalized": _DOCUMENT_PAGE,
    "billing:invoice:overdue": "/app/invoices/",
    "billing:export:failed": "/admin/billing/exportrun/{run}/change/",
    "billing:period:blocked": "/admin/billing/billingperiod/close?month={month}",
}
"""The page that an event is about, with facts of the event in braces."""
MAIL_TIMEOUT_SECONDS: Final = 5
EXPORT_TIMEOUT_SECONDS: Final = 20
"""Of one answer of a bucket or an SFTP server, which may have to write a part to disk first."""
_MAIL_BACKENDS: Final = "django.core.mail.backends"


def notification_settings(env: Environment) -> dict[str, Any]:
    """Return Django's mail settings, and the sender of each kind of notification.

    Without a mail server, deliveries by mail are skipped and marked so.
    """
    return {
        **_mail_settings(env.EMAIL_URL),
        "DEFAULT_FROM_EMAIL": env.EMAIL_FROM,
        "SERVER_EMAIL": env.EMAIL_FROM,
        "WEBHOOK_CLEAR_TEXT_HOSTS": list(env.WEBHOOK_CLEAR_TEXT_HOSTS),
        "NOTIFICATION_SENDERS": _senders(env),
        "NOTIFICATION_DOCUMENTS": NOTIFICATION_DOCUMENTS,
        "MAIL_PAGES": _mail_pages(env),
        "EXPORT_DESTINATIONS": _export_destinations(env),
        "EXPORTS_KEPT_DAYS": env.EXPORTS_KEPT_DAYS,
    }


def _mail_pages(env: Environment) -> dict[str, Any]:
    return {
        "public_url": str(env.PUBLIC_URL).rstrip("/"),
        "links": dict(MAIL_LINKS),
        "preferences_path": "/app/notifications/",
    }


def _senders(env: Environment) -> dict[str, dict[str, Any]]:
    if env.NOTIFICATIONS == "simulated":
        simulated = {"BACKEND": env.SIMULATED["NOTIFICATIONS"]}
        return {"mail": simulated, "webhook": simulated}
    webhook = {
        "BACKEND": "tenants.adapters.notification_webhook.guarded_webhook_sender",
        "OPTIONS": _guard(env),
    }
    mail = {
        "BACKEND": "tenants.adapters.notification_mail.MailSender",
        "OPTIONS": {"sender": env.EMAIL_FROM, **_mail_pages(env)},
    }
    return {"webhook": webhook, "mail": mail} if env.EMAIL_URL else {"webhook": webhook}


def _export_destinations(env: Environment) -> dict[str, dict[str, Any]]:
    if env.NOTIFICATIONS == "simulated":
        simulated = {"BACKEND": env.SIMULATED["EXPORTS"]}
        return dict.fromkeys(("mail", "bucket", "sftp", "webhook"), simulated)
    package, guard = "billing.adapters.destinations", _guard(env)
    slow = {**guard, "timeout_seconds": EXPORT_TIMEOUT_SECONDS}
    made = {
        "bucket": {"BACKEND": f"{package}.bucket.BucketDestination", "OPTIONS": slow},
        "sftp": {"BACKEND": f"{package}.sftp.SftpDestination", "OPTIONS": slow},
        "webhook": {
            "BACKEND": f"{package}.webhook.WebhookDestination",
            "OPTIONS": {**guard, "public_url": _mail_pages(env)["public_url"]},
        },
    }
    mail = {"BACKEND": f"{package}.mail.MailDestination", "OPTIONS": {"sender": env.EMAIL_FROM}}
    return {**made, "mail": mail} if env.EMAIL_URL else made


def _guard(env: Environment) -> dict[str, Any]:
    """Return which addresses that others chose may be reached."""
    return {
        "allowed_networks": [str(network) for network in env.WEBHOOK_ALLOWED_NETWORKS],
        "clear_text_hosts": list(env.WEBHOOK_CLEAR_TEXT_HOSTS),
        "authority_file": env.WEBHOOK_CA_FILE,
    }


def _mail_settings(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if parts.scheme == "file":
        # Only the environment of a checkout takes it.
        backend = f"{_MAIL_BACKENDS}.filebased.EmailBackend"
        return {"EMAIL_BACKEND": backend, "EMAIL_FILE_PATH": unquote(parts.path)}
    if parts.scheme not in {"smtp", "smtps"}:
        kind = "console" if parts.scheme == "console" else "dummy"
        return {"EMAIL_BACKEND": f"{_MAIL_BACKENDS}.{kind}.EmailBackend"}
    is_implicit = parts.scheme == "smtps"
    return {
        "EMAIL_BACKEND": f"{_MAIL_BACKENDS}.smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname or "localhost",
        "EMAIL_PORT": parts.port or (465 if is_implicit else 25),
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": is_implicit,
        "EMAIL_USE_TLS": not is_implicit and parse_qs(parts.query).get("starttls") == ["true"],
        "EMAIL_TIMEOUT": MAIL_TIMEOUT_SECONDS,
    }

"""Delivery of notifications, from the environment: mail server, webhooks, or memory."""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from config.env import Environment

MAIL_TIMEOUT_SECONDS = 5
_MAIL_BACKENDS = "django.core.mail.backends"


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
    }


def _senders(env: Environment) -> dict[str, dict[str, Any]]:
    if env.NOTIFICATIONS == "simulated":
        simulated = {"BACKEND": env.SIMULATED["NOTIFICATIONS"]}
        return {"mail": simulated, "webhook": simulated}
    webhook = {
        "BACKEND": "tenants.adapters.notification_webhook.guarded_webhook_sender",
        "OPTIONS": {
            "allowed_networks": [str(network) for network in env.WEBHOOK_ALLOWED_NETWORKS],
            "clear_text_hosts": list(env.WEBHOOK_CLEAR_TEXT_HOSTS),
            "authority_file": env.WEBHOOK_CA_FILE,
        },
    }
    mail = {
        "BACKEND": "tenants.adapters.notification_mail.MailSender",
        "OPTIONS": {"sender": env.EMAIL_FROM, "public_url": str(env.PUBLIC_URL).rstrip("/")},
    }
    return {"webhook": webhook, "mail": mail} if env.EMAIL_URL else {"webhook": webhook}


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

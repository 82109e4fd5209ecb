"""How notifications leave the house, read from the environment; and what is refused at start."""

from typing import Any

import pytest

from billing.adapters.destinations import export_destinations
from config.env import Environment, EnvironmentInvalidError
from config.settings.notifications import notification_settings

GIVEN = {
    "SECRET_KEY": "s" * 32,
    "API_TOKEN_PEPPER": "p" * 32,
    "DATABASE_URL": "postgresql://app:x@db/gpu_ledger",
    "REDIS_URL": "redis://queue:6379/0",
}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what this process was given."""
    for name in Environment.model_fields:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)


def read(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Any]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return notification_settings(Environment.read())


def mail_of(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name.startswith("EMAIL_")}


@pytest.mark.parametrize(
    ("url", "host", "port", "user", "password", "is_implicit", "is_starttls"),
    [
        ("smtp://mail.test", "mail.test", 25, "", "", False, False),
        ("smtp://mail.test:587?starttls=true", "mail.test", 587, "", "", False, True),
        ("smtp://mail.test/?starttls=false", "mail.test", 25, "", "", False, False),
        ("smtps://mail.test", "mail.test", 465, "", "", True, False),
        ("smtps://mail.test:2465?starttls=true", "mail.test", 2465, "", "", True, False),
        ("smtp://u%40x:p%2F%3A@mail.test:25", "mail.test", 25, "u@x", "p/:", False, False),
        ("smtp://[::1]:2525", "::1", 2525, "", "", False, False),
    ],
)
def test_a_mail_server_is_read_from_its_url(
    monkeypatch: pytest.MonkeyPatch,
    *,
    url: str,
    host: str,
    port: int,
    user: str,
    password: str,
    is_implicit: bool,
    is_starttls: bool,
) -> None:
    assert mail_of(read(monkeypatch, EMAIL_URL=url)) == {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": host,
        "EMAIL_PORT": port,
        "EMAIL_HOST_USER": user,
        "EMAIL_HOST_PASSWORD": password,
        "EMAIL_USE_SSL": is_implicit,
        "EMAIL_USE_TLS": is_starttls,
        "EMAIL_TIMEOUT": 5,
    }


def test_without_a_mail_server_nobody_sends_mails(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch)

    assert mail_of(settings) == {"EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend"}
    assert set(settings["NOTIFICATION_SENDERS"]) == {"webhook"}


def test_mails_may_be_written_to_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(
        monkeypatch,
        EMAIL_URL="console:",
        EMAIL_FROM="ledger@example.com",
        PUBLIC_URL="https://ledger.example.com/",
    )

    assert mail_of(settings) == {"EMAIL_BACKEND": "django.core.mail.backends.console.EmailBackend"}
    assert settings["DEFAULT_FROM_EMAIL"] == settings["SERVER_EMAIL"] == "ledger@example.com"
    assert settings["NOTIFICATION_SENDERS"]["mail"] == {
        "BACKEND": "tenants.adapters.notification_mail.MailSender",
        "OPTIONS": {"sender": "ledger@example.com", **settings["MAIL_PAGES"]},
    }
    assert settings["MAIL_PAGES"]["public_url"] == "https://ledger.example.com"


def test_where_webhooks_may_go_is_handed_to_their_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(
        monkeypatch,
        WEBHOOK_ALLOWED_NETWORKS="10.1.0.0/16,fd00::/8",
        WEBHOOK_CLEAR_TEXT_HOSTS="inside",
        WEBHOOK_CA_FILE="/etc/own.pem",
    )

    assert settings["WEBHOOK_CLEAR_TEXT_HOSTS"] == ["inside"]
    assert settings["NOTIFICATION_SENDERS"]["webhook"] == {
        "BACKEND": "tenants.adapters.notification_webhook.guarded_webhook_sender",
        "OPTIONS": {
            "allowed_networks": ["10.1.0.0/16", "fd00::/8"],
            "clear_text_hosts": ["inside"],
            "authority_file": "/etc/own.pem",
        },
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EMAIL_URL", "mail.test"),
        ("EMAIL_URL", "http://mail.test"),
        ("EMAIL_URL", "smtp://"),
        ("EMAIL_URL", "smtp://mail test"),
        ("EMAIL_URL", "console:x"),
        ("NOTIFICATIONS", "perhaps"),
        ("WEBHOOK_ALLOWED_NETWORKS", "everything"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    with pytest.raises(EnvironmentInvalidError, match=rf"\n  {name}") as refusal:
        read(monkeypatch, **{name: value})

    assert str(refusal.value).count("\n") == 1


def test_export_files_go_where_webhooks_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(
        monkeypatch,
        WEBHOOK_ALLOWED_NETWORKS="10.1.0.0/16",
        WEBHOOK_CLEAR_TEXT_HOSTS="inside",
        PUBLIC_URL="https://ledger.example.com/",
        EXPORTS_KEPT_DAYS="7",
    )
    guard = {
        "allowed_networks": ["10.1.0.0/16"],
        "clear_text_hosts": ["inside"],
        "authority_file": "",
    }

    destinations = settings["EXPORT_DESTINATIONS"]

    package = "billing.adapters.destinations"
    assert settings["EXPORTS_KEPT_DAYS"] == 7
    assert destinations == {
        "bucket": {
            "BACKEND": f"{package}.bucket.BucketDestination",
            "OPTIONS": {**guard, "timeout_seconds": 20},
        },
        "sftp": {
            "BACKEND": f"{package}.sftp.SftpDestination",
            "OPTIONS": {**guard, "timeout_seconds": 20},
        },
        "webhook": {
            "BACKEND": f"{package}.webhook.WebhookDestination",
            "OPTIONS": {**guard, "public_url": "https://ledger.example.com"},
        },
    }


def test_with_a_mail_server_files_are_mailed(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch, EMAIL_URL="console:", EMAIL_FROM="ledger@example.com")

    made = export_destinations(settings["EXPORT_DESTINATIONS"])

    assert {target: type(one).__name__ for target, one in made.items()} == {
        "bucket": "BucketDestination",
        "sftp": "SftpDestination",
        "webhook": "WebhookDestination",
        "mail": "MailDestination",
    }

"""What a checkout may play: settings name each simulated backend, and it can be imported."""

from pathlib import Path

import pytest
from django.utils.module_loading import import_string

from config.env import Environment, EnvironmentInvalidError
from config.settings.base import settings_from
from simulator.environment import CheckoutEnvironment

REQUIRED = {
    "SECRET_KEY": "s" * 32,
    "API_TOKEN_PEPPER": "p" * 32,
    "DATABASE_URL": "postgresql://app:x@db/gpu_ledger",
    "REDIS_URL": "redis://queue:6379/0",
}


def test_a_checkout_may_play_everything_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CheckoutEnvironment.model_fields:
        monkeypatch.delenv(name, raising=False)
    simulated = dict.fromkeys(CheckoutEnvironment.SIMULATED, "simulated")

    settings = settings_from(CheckoutEnvironment.read(**REQUIRED, **simulated))

    senders = settings.pop("NOTIFICATION_SENDERS")
    assert set(senders) == {"mail", "webhook"}
    settings["NOTIFICATIONS"] = senders["mail"]
    destinations = settings.pop("EXPORT_DESTINATIONS")
    assert set(destinations) == {"mail", "bucket", "sftp", "webhook"}
    settings["EXPORTS"] = destinations["sftp"]
    for name, backend in CheckoutEnvironment.SIMULATED.items():
        assert settings[name]["BACKEND"] == backend
        assert import_string(backend)


def test_a_checkout_writes_mails_into_a_folder_and_a_deployment_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in CheckoutEnvironment.model_fields:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "with a space"

    settings = settings_from(CheckoutEnvironment.read(**REQUIRED, EMAIL_URL=folder.as_uri()))

    assert settings["EMAIL_BACKEND"] == "django.core.mail.backends.filebased.EmailBackend"
    assert settings["EMAIL_FILE_PATH"] == str(folder)
    assert "mail" in settings["NOTIFICATION_SENDERS"]
    with pytest.raises(EnvironmentInvalidError, match="EMAIL_URL"):
        Environment.read(**REQUIRED, EMAIL_URL=folder.as_uri())

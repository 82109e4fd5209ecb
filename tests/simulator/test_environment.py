"""What a checkout may play: settings name each simulated backend, and it can be imported."""

import pytest
from django.utils.module_loading import import_string

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
    for name, backend in CheckoutEnvironment.SIMULATED.items():
        assert settings[name]["BACKEND"] == backend
        assert import_string(backend)

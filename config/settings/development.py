"""Settings of a checkout: everything has a default, and the databases are the embedded ones."""

from config.settings.base import *  # noqa: F403 - Django's own idiom for layered settings.
from config.settings.base import BASE_DIR, INSTALLED_APPS, settings_from
from embedded.handover import read_handover
from simulator.environment import CheckoutEnvironment

DEBUG = False
ENV = CheckoutEnvironment.read(
    **{
        "SECRET_KEY": "development-only-not-a-secret-0123456789",
        "API_TOKEN_PEPPER": "development-only-not-a-pepper-0123456789",
        "DATABASE_URL": "postgresql:///gpu_ledger",
        "REDIS_URL": "redis://127.0.0.1:6379/0",
        "ALLOWED_HOSTS": "127.0.0.1,localhost",
        "LOG_FORMAT": "console",
        "ISSUER_ADDRESS": "1 Rack Road\n10115 Berlin",
        "ISSUER_TAX_ID": "DE123456789",
        "ISSUER_BANK_ACCOUNT": "DE02 1203 0000 0000 2020 51",
        "ISSUER_COUNTRY": "DE",
        "E_INVOICES": "zugferd",
        # A running demo of the same checkout provides the addresses of its servers.
        **read_handover(BASE_DIR / "var"),
    }
)
globals().update(settings_from(ENV))
INSTALLED_APPS = [*INSTALLED_APPS, "embedded", "simulator"]

# Static files are served from where the apps keep them; nothing is collected in a checkout.
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True

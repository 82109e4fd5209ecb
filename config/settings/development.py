"""Settings of a checkout: everything has a default, and the databases are the embedded ones."""

from config.env import Environment
from config.settings.base import *  # noqa: F403 - Django's own idiom for layered settings.
from config.settings.base import settings_from

DEBUG = False
ENV = Environment.read(
    SECRET_KEY="development-only-not-a-secret-0123456789",  # noqa: S106 - Not used outside a checkout.
    API_TOKEN_PEPPER="development-only-not-a-pepper-0123456789",  # noqa: S106 - As above.
    DATABASE_URL="postgresql:///gpu_ledger",
    REDIS_URL="redis://127.0.0.1:6379/0",
    ALLOWED_HOSTS="127.0.0.1,localhost",
    LOG_FORMAT="console",
)
globals().update(settings_from(ENV))

"""Settings of the tests; tests/conftest.py points the database at the server it starts."""

import tempfile

from config.settings.base import *  # noqa: F403 - Django's own idiom for layered settings.
from config.settings.base import INSTALLED_APPS, settings_from
from simulator.environment import CheckoutEnvironment

DEBUG = False
ENV = CheckoutEnvironment.read(
    SECRET_KEY="tests-only-not-a-secret-0123456789abcdef",  # noqa: S106 - Throw-away.
    API_TOKEN_PEPPER="tests-only-not-a-pepper-0123456789abcdef",  # noqa: S106 - Throw-away.
    DATABASE_URL="postgresql://127.0.0.1:1/not_started",
    REDIS_URL="redis://127.0.0.1:1/0",
    API_REQUESTS_PER_MINUTE="0",
    ALLOWED_HOSTS="testserver,127.0.0.1,localhost",
    LOG_FORMAT="console",
    CLUSTER_SECRETS_DIR=tempfile.gettempdir(),
    LOG_LEVEL="WARNING",
    ISSUER_ADDRESS="Main Street 1\n10115 Berlin",
    ISSUER_TAX_ID="DE123456789",
    ISSUER_BANK_ACCOUNT="DE02 1203 0000 0000 2020 51",
    ISSUER_COUNTRY="DE",
    USAGE_SOURCE="simulated",
    CLUSTER_WATCH="simulated",
    QUOTA_ENFORCER="simulated",
    WORKLOAD_EVICTOR="simulated",
    NOTIFICATIONS="simulated",
)
globals().update(settings_from(ENV))
INSTALLED_APPS = [*INSTALLED_APPS, "embedded", "simulator"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STATIC_ROOT = None

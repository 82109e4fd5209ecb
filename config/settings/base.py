"""What every deployment shares. The environment is read in config/env.py and passed in."""

from collections.abc import Mapping
from decimal import Decimal
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from config.env import Environment
from config.monitoring.logging import logging_settings
from config.settings.billing import billing_settings
from config.settings.notifications import notification_settings
from config.settings.openapi import OPENAPI as OPENAPI  # noqa: PLC0414 - As below.
from config.settings.openapi import (
    SPECTACULAR_SETTINGS as SPECTACULAR_SETTINGS,  # noqa: PLC0414 - As below.
)
from config.settings.unfold import UNFOLD as UNFOLD  # noqa: PLC0414 - Named again so that settings modules export it.

# What `settings_from` fills in, for readers and type checkers.
API_TOKEN_PEPPER: str
REPLICA_LAG_SECONDS_MAX: int
REDIS_URL: str
REDIS_SENTINELS: tuple[str, ...]
API_REQUESTS_PER_MINUTE: int
PUBLIC_URL: str
SESSION_MAX_SECONDS: int
DEDICATED_CLUSTERS: tuple[str, ...]
USAGE_SOURCE: dict[str, Any]
CLUSTER_WATCH: dict[str, Any]
WATCH_HEARTBEAT_SECONDS: int
WATCH_LEASE_SECONDS: int
WATCH_RELIST_SECONDS: int
QUOTA_ENFORCER: dict[str, Any]
WORKLOAD_EVICTOR: dict[str, Any]
BURST_PRIORITY_CLASSES: list[str]
RESERVATION_TTL_SECONDS: int
RESERVATION_KEPT_DAYS: int
REFUSALS_KEPT_DAYS: int
NOTIFICATIONS_KEPT_DAYS: int
PREEMPTION_GRACE_SECONDS: int
PREEMPTION_AFTER_SECONDS: int
QUOTA_UNBOUND_NAMESPACES: str
ADMISSION_DEADLINE_SECONDS: int
ADMISSION_CLIENT_NAMES: dict[str, tuple[str, ...]]
COST_ESTIMATOR: dict[str, Any]
HELD_COSTS: str
NOTIFICATION_SENDERS: dict[str, dict[str, Any]]
NOTIFICATION_DOCUMENTS: str
MAIL_PAGES: dict[str, Any]
EXPORT_DESTINATIONS: dict[str, dict[str, Any]]
EXPORTS_KEPT_DAYS: int
ARCHIVE_DIR: Path | None
ARCHIVE_AFTER_MONTHS: dict[str, int]
WEBHOOK_CLEAR_TEXT_HOSTS: list[str]
CLUSTER_SECRETS_DIR: Path
WINDOW_LATENESS_SECONDS: int
HOLE_SECONDS_MAX: int
GAP_POLICY: str
WASTE_THRESHOLDS: dict[str, Any]
RECHECK_SECONDS: tuple[int, ...]
RECHECK_RETENTION_SECONDS: int
POST_LATE_USAGE: bool
FOUR_EYES: bool
ISSUER: dict[str, str]
ISSUER_LOGO: str
ISSUER_LOGOS: dict[str, str]
USAGE_ANNEX: bool
E_INVOICES: str
INVOICE_SERIES: str
INVOICE_FIRST_NUMBER: int
PAYMENT_DAYS: int
CARRY_MONTHS: int
CARRY_BELOW: dict[str, Decimal]
DUNNING_DAYS: tuple[int, ...]
JOURNAL_LAYOUTS: dict[str, str]
CREDIT_NOTE_SERIES: str
DEBIT_NOTE_SERIES: str
METRICS_PORT: int
TRUSTED_PROXIES: list[IPv4Network | IPv6Network]
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]]

BASE_DIR = Path(__file__).resolve().parent.parent.parent


LOST_HOST: Mapping[str, str] = {
    "connect_timeout": "10",
    "keepalives_idle": "20",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "50000",
}
"""A host that is lost sends no end of a connection: its loss is noticed within a minute, and not
after the two hours of Linux. A URL may have other values. Source: libpq's connection parameters."""


LOST_REPLICA: Mapping[str, str] = {
    **LOST_HOST,
    "connect_timeout": "3",
    "tcp_user_timeout": "15000",
}
"""A report that the replica does not answer is soon read from the primary."""


def database(url: str, *, lost_host: Mapping[str, str] = LOST_HOST) -> dict[str, Any]:
    """Return Django's settings for one PostgreSQL URL.

    Nothing is set in the session, so that a pooler may give each transaction another one: the
    timeouts are those of the role (deploy/postgres/roles.sql), and no cursor outlives its
    transaction. See docs/adr/0029.
    """
    parts = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    known = {
        "NAME": parts.pop("dbname", ""),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
    }
    return {
        "ENGINE": "django.db.backends.postgresql",
        **known,
        "OPTIONS": {**lost_host, **parts, "application_name": "gpu-ledger"},
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
        "ATOMIC_REQUESTS": False,
    }


def settings_from(env: Environment) -> dict[str, Any]:
    """Return the settings that depend on the environment."""
    databases = {"default": database(str(env.DATABASE_URL))}
    if env.DATABASE_OWNER_URL is not None:
        databases["owner"] = database(str(env.DATABASE_OWNER_URL))
    if env.DATABASE_REPLICA_URL is not None:
        databases["replica"] = database(str(env.DATABASE_REPLICA_URL), lost_host=LOST_REPLICA)
    return {
        "SECRET_KEY": env.SECRET_KEY,
        "API_TOKEN_PEPPER": env.API_TOKEN_PEPPER,
        "ALLOWED_HOSTS": list(env.ALLOWED_HOSTS),
        "DATABASES": databases,
        "REPLICA_LAG_SECONDS_MAX": env.REPLICA_LAG_SECONDS_MAX,
        "REDIS_URL": str(env.REDIS_URL),
        "REDIS_SENTINELS": env.REDIS_SENTINELS,
        "PUBLIC_URL": str(env.PUBLIC_URL).rstrip("/"),
        "STATIC_ROOT": env.STATIC_ROOT,
        "API_REQUESTS_PER_MINUTE": env.API_REQUESTS_PER_MINUTE,
        "SESSION_COOKIE_AGE": env.SESSION_IDLE_SECONDS,
        "SESSION_MAX_SECONDS": env.SESSION_MAX_SECONDS,
        "LOGGING": logging_settings(level=env.LOG_LEVEL, form=env.LOG_FORMAT),
        "DEDICATED_CLUSTERS": env.DEDICATED_CLUSTERS,
        "USAGE_SOURCE": _chosen(env, "USAGE_SOURCE", env.USAGE_SOURCE_OPTIONS),
        "CLUSTER_WATCH": _chosen(env, "CLUSTER_WATCH", env.CLUSTER_WATCH_OPTIONS),
        "WATCH_HEARTBEAT_SECONDS": env.WATCH_HEARTBEAT_SECONDS,
        "WATCH_LEASE_SECONDS": env.WATCH_LEASE_SECONDS,
        "WATCH_RELIST_SECONDS": env.WATCH_RELIST_SECONDS,
        "QUOTA_ENFORCER": _chosen(
            env, "QUOTA_ENFORCER", {"burst_classes": list(env.BURST_PRIORITY_CLASSES)}
        ),
        "WORKLOAD_EVICTOR": _chosen(env, "WORKLOAD_EVICTOR", {}),
        "PREEMPTION_GRACE_SECONDS": env.PREEMPTION_GRACE_SECONDS,
        "PREEMPTION_AFTER_SECONDS": env.PREEMPTION_AFTER_SECONDS,
        "BURST_PRIORITY_CLASSES": list(env.BURST_PRIORITY_CLASSES),
        "RESERVATION_TTL_SECONDS": env.RESERVATION_TTL_SECONDS,
        "RESERVATION_KEPT_DAYS": env.RESERVATION_KEPT_DAYS,
        "REFUSALS_KEPT_DAYS": env.REFUSALS_KEPT_DAYS,
        "NOTIFICATIONS_KEPT_DAYS": env.NOTIFICATIONS_KEPT_DAYS,
        "ARCHIVE_DIR": env.ARCHIVE_DIR,
        "ARCHIVE_AFTER_MONTHS": env.ARCHIVE_AFTER_MONTHS,
        "QUOTA_UNBOUND_NAMESPACES": env.QUOTA_UNBOUND_NAMESPACES,
        "ADMISSION_DEADLINE_SECONDS": env.ADMISSION_DEADLINE_SECONDS,
        "ADMISSION_CLIENT_NAMES": env.ADMISSION_CLIENT_NAMES,
        "COST_ESTIMATOR": {"BACKEND": _backend(env, "COST_ESTIMATOR")},
        "HELD_COSTS": HELD_COSTS_BACKENDS[env.COST_ESTIMATOR],
        "CLUSTER_SECRETS_DIR": env.CLUSTER_SECRETS_DIR,
        "WINDOW_LATENESS_SECONDS": env.WINDOW_LATENESS_SECONDS,
        "HOLE_SECONDS_MAX": env.HOLE_SECONDS_MAX,
        "GAP_POLICY": env.GAP_POLICY,
        "WASTE_THRESHOLDS": env.WASTE_THRESHOLDS,
        "RECHECK_SECONDS": env.RECHECK_SECONDS,
        "RECHECK_RETENTION_SECONDS": env.RECHECK_RETENTION_SECONDS,
        "POST_LATE_USAGE": env.POST_LATE_USAGE,
        "FOUR_EYES": env.FOUR_EYES,
        **billing_settings(env),
        **_entry_settings(env),
        **notification_settings(env),
    }


def _entry_settings(env: Environment) -> dict[str, Any]:
    """Return the authentication settings, and the settings of the metrics endpoint."""
    return {
        "METRICS_PORT": env.METRICS_PORT,
        "TRUSTED_PROXIES": list(env.TRUSTED_PROXIES),
        "AUTH_PASSWORD_VALIDATORS": _password_validators(env.BREACHED_PASSWORDS_FILE),
    }


def _backend(env: Environment, variable: str) -> str:
    chosen = getattr(env, variable)
    if chosen == "simulated":
        return env.SIMULATED[variable]
    return BACKENDS[variable][chosen]


def _chosen(env: Environment, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return {"BACKEND": _backend(env, name), "OPTIONS": options}


def _password_validators(breached_passwords: Path | None) -> list[dict[str, Any]]:
    django = "django.contrib.auth.password_validation"
    return [
        {"NAME": f"{django}.UserAttributeSimilarityValidator"},
        {"NAME": f"{django}.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
        {"NAME": f"{django}.CommonPasswordValidator"},
        {"NAME": f"{django}.NumericPasswordValidator"},
        {
            "NAME": "tenants.adapters.breached_passwords.BreachedPasswordValidator",
            "OPTIONS": {"path": breached_passwords},
        },
    ]


ADMITTED_OWNERS = "quotas.selectors.admission.owners.admitted_owners"
"""Returns the owners that pods were admitted for; metering compares those that pods name."""
CLUSTER_ADVICE = "metering.selectors.catalogue.advise_on_names"
"""Returns what is wrong with the resource names that a cluster offers."""
BACKENDS: Mapping[str, Mapping[str, str]] = {
    "USAGE_SOURCE": {"prometheus": "metering.adapters.prometheus.PrometheusUsageSource"},
    "CLUSTER_WATCH": {"kubernetes": "metering.adapters.kubernetes.KubernetesClusterWatch"},
    "QUOTA_ENFORCER": {"kubernetes": "quotas.adapters.routed.RoutedQuotaEnforcer"},
    "WORKLOAD_EVICTOR": {
        "kubernetes": "quotas.adapters.kubernetes_workloads.KubernetesWorkloadEvictor"
    },
    "COST_ESTIMATOR": {
        "billing": "billing.selectors.pricing.cost_estimate.PriceBookEstimator",
        "none": "quotas.adapters.cost_unknown.NoCostEstimator",
    },
}
"""By variable and value. Only the environment of a checkout defines `simulated`."""
HELD_COSTS_BACKENDS: Mapping[str, str] = {
    "billing": "billing.selectors.pricing.held_costs.PriceBookHeldCosts",
    "none": "metering.adapters.held_costs_unknown.NoHeldCosts",
}
"""By the value of `COST_ESTIMATOR`, which is of both."""

INSTALLED_APPS = [
    "config.admin_site.AdminSiteConfig",
    "unfold.contrib.filters",
    "django.contrib.admin",
    # Before Django's accounts: its commands that set passwords are replaced by audited ones.
    "tenants",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    # Its templates, which the renderer of forms reads by the loaders of all others.
    "django.forms",
    "rest_framework",
    "django_filters",
    "django_htmx",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    # Before metering: its command `watch_cluster` is replaced by one that keeps quotas too.
    "quotas",
    "metering",
    "billing",
    "config",
]
MIDDLEWARE = [
    "config.monitoring.metrics.MetricsPort",
    "config.monitoring.metrics.RequestMetrics",
    "config.responses.AnswerHeaders",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "config.pages.language.PageLanguage",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "tenants.admin.sign_in.SessionLimits",
    "tenants.admin.sign_in.DeviceCookie",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "config.responses.StorableText",
]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "config" / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    ["django.template.loaders.filesystem.Loader", "config.pages.theme.Loader"],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "config" / "locale"]
TIME_ZONE = "UTC"
USE_TZ = True
FORMAT_MODULE_PATH = ["config.formats"]
USE_I18N = True
STATIC_URL = "static/"
AUTHENTICATION_BACKENDS = ["tenants.admin.sign_in.LimitedPasswordBackend"]
CSRF_FAILURE_VIEW = "config.responses.forged"
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"
PASSWORD_RESET_TIMEOUT = 24 * 3600
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_ENGINE = "tenants.services.identity.sessions"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.api.actors.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["tenants.api.limits.RequestLimit"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["tenants.api.serializers.LimitedJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "tenants.api.pagination.CursorPages",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_SCHEMA_CLASS": "tenants.api.openapi.operations.LedgerSchema",
    "EXCEPTION_HANDLER": "tenants.api.problems.problem_response",
    "PAGE_SIZE": 50,
    "COERCE_DECIMAL_TO_STRING": True,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}

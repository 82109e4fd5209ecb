"""Settings of a real deployment: no defaults for anything secret, and HTTPS throughout."""

from config.env import Environment
from config.settings.base import *  # noqa: F403 - Django's own idiom for layered settings.
from config.settings.base import settings_from

DEBUG = False
ENV = Environment.read()
globals().update(settings_from(ENV))

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = True
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_HSTS_SECONDS = 31_536_000
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True
CSRF_TRUSTED_ORIGINS = [str(ENV.PUBLIC_URL).rstrip("/")]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

"""Django with the admission webhooks only: changed settings, and a handler."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
CONNECT_SECONDS = 2
"""The least that libpq honours."""
APPS_OF_PAGES = frozenset(
    {
        "config.admin_site.AdminSiteConfig",
        "unfold.contrib.filters",
        "django.contrib.admin",
        "django.contrib.messages",
        "django.contrib.staticfiles",
        "rest_framework",
        "django_filters",
        "drf_spectacular",
        "drf_spectacular_sidecar",
        "config",
    }
)
"""Apps of the site and its API. Django's admin would load every page of it; `config`, Celery."""


def admission_apps(installed: Sequence[str]) -> list[str]:
    """Return the apps whose tables admission may read, in their order.

    Args:
        installed: Django's setting, as every other process has it.
    """
    return [name for name in installed if name not in APPS_OF_PAGES]


def only_admission(databases: dict[str, Any]) -> dict[str, Any]:
    """Return the changed settings: own URLs, no middleware, and persistent connections.

    Connections have no health check before each query, which would cost a round trip. A dead one is
    replaced, and the query repeated.

    Args:
        databases: Django's setting, as every other process has it.
    """
    default = databases["default"]
    admission = {
        **default,
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": False,
        "OPTIONS": {
            **default["OPTIONS"],
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "gpu-ledger-admission",
        },
    }
    return {
        "DATABASES": {**databases, "default": admission},
        "MIDDLEWARE": [],
        "ROOT_URLCONF": "config.admission_urls",
    }


class PlainHandler(BaseHandler):
    """Django's handler without the request signals.

    The signals close old or dead connections and unused caches, and take up to a quarter of the
    time of a decision. Here connections persist, and the guard checks them.
    """

    def __init__(self) -> None:
        """Load what the settings name: no middleware, where they are those of admission."""
        super().__init__()
        self.load_middleware()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request; no view streams.

        Raises:
            TypeError: A view streams its response.
        """
        response = self.get_response(WSGIRequest(environ))
        if not isinstance(response, HttpResponse):
            raise TypeError("An admission endpoint answers at once.")
        status = f"{response.status_code} {response.reason_phrase}"
        start_response(status, list(response.items()))
        return [response.content]

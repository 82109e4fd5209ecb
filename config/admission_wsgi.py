"""Django with the admission doors alone: what differs in its settings, and a handler for them."""

from collections.abc import Callable, Iterable
from typing import Any

from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
CONNECT_SECONDS = 2
"""The least that libpq honours."""


def only_admission(databases: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that differ here: own URLs, no middleware, and connections that stay.

    A connection is not asked whether it lives before every question: that would be a round trip
    each. One that died is replaced, and the question asked again.

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
    """Django's handler without what happens around requests elsewhere.

    Its signals close connections that are old or dead and caches that nobody opened, and cost as
    much as a quarter of a decision. Connections are kept here, and looked after by the guard.
    """

    def __init__(self) -> None:
        """Load what the settings name: no middleware, where they are those of admission."""
        super().__init__()
        self.load_middleware()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request; no door streams its answer.

        Raises:
            TypeError: One does.
        """
        response = self.get_response(WSGIRequest(environ))
        if not isinstance(response, HttpResponse):
            raise TypeError("A door of admission answers at once.")
        status = f"{response.status_code} {response.reason_phrase}"
        start_response(status, list(response.items()))
        return [response.content]

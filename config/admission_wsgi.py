"""The admission server's way in: Django with the admission doors alone, and without middleware.

Every API server that asks shows a client certificate; gunicorn has verified who signed it. Here
its common name is looked at, where the environment names those that may ask.
"""

import os
import ssl
from collections.abc import Callable, Iterable
from typing import Any

import django
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
CONNECT_SECONDS = 2
"""The least that libpq honours."""
LOCK_MILLISECONDS = 1_000
STATEMENT_MILLISECONDS = 1_500


def only_admission(databases: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that differ here: own URLs, no middleware, and short patience.

    A connection is not asked whether it lives before every question: that would be a round trip
    each. One that died is replaced, and the question asked again.

    Args:
        databases: Django's setting, as every other process has it.
    """
    default = databases["default"]
    options = (
        f"-c lock_timeout={LOCK_MILLISECONDS} -c statement_timeout={STATEMENT_MILLISECONDS} "
        f"-c idle_in_transaction_session_timeout={2 * STATEMENT_MILLISECONDS}"
    )
    admission = {
        **default,
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": False,
        "OPTIONS": {
            **default["OPTIONS"],
            "options": options,
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "gpu-ledger-admission",
        },
    }
    return {
        "DATABASES": {**databases, "default": admission},
        "MIDDLEWARE": [],
        "ROOT_URLCONF": "config.admission_urls",
    }


def checking_names(inner: Application, names: frozenset[str]) -> Application:
    """Return an application that only certificates with one of these common names may ask.

    Args:
        inner: What answers them.
        names: Allowed common names; empty allows every certificate the authority signed.
    """
    if not names:
        return inner

    def check(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if common_name(environ) in names:
            return inner(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain"), ("Content-Length", "0")])
        return [b""]

    return check


def common_name(environ: Environ) -> str:
    """Return the common name of the client's certificate, "" without one."""
    connection = environ.get("gunicorn.socket")
    if not isinstance(connection, ssl.SSLSocket):
        return ""
    subject: Any = (connection.getpeercert() or {}).get("subject", ())
    found = (value for part in subject for key, value in part if key == "commonName")
    return next(found, "")


def make_application() -> Application:
    """Return the application with Django set up for it; called once, as the process begins."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.production")
    for name, value in only_admission(settings.DATABASES).items():
        setattr(settings, name, value)
    django.setup(set_prefix=False)
    return checking_names(WSGIHandler(), frozenset(settings.ADMISSION_CLIENT_NAMES))

"""The admission server's way in: Django with the admission doors alone, and without middleware.

Every API server that asks shows a client certificate; gunicorn has verified who signed it. Here
its common name is looked at, where the environment names those that may ask for a cluster.
"""

import gc
import os
import re
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from importlib import import_module
from typing import Any

import django
from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
CLUSTER_PATH = re.compile(r"/(?:admit|stamp|warn)/([-\w]+)(?:/.*)?", re.ASCII)
"""Where a cluster's doors are."""
COMMON_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""What tells nothing of a cluster's own: every signed certificate may look."""
CONNECT_SECONDS = 2
"""The least that libpq honours."""
CHECK_MILLISECONDS = 100
"""How often a statement that runs looks whether its connection was cut: it then undoes its work."""


def only_admission(databases: dict[str, Any], deadline_seconds: int) -> dict[str, Any]:
    """Return the settings that differ here: own URLs, no middleware, and short patience.

    The ledger gives up by itself before the deadline, so what is answered as undecided is not
    counted afterwards. A connection is not asked whether it lives before every question: that
    would be a round trip each. One that died is replaced, and the question asked again.

    Args:
        databases: Django's setting, as every other process has it.
        deadline_seconds: How long one question may take.
    """
    default = databases["default"]
    deadline_milliseconds = 1_000 * deadline_seconds
    options = (
        f"-c lock_timeout={deadline_milliseconds // 2}"
        f" -c statement_timeout={deadline_milliseconds * 3 // 4}"
        f" -c client_connection_check_interval={CHECK_MILLISECONDS}"
        f" -c idle_in_transaction_session_timeout={deadline_milliseconds * 3 // 2}"
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
        "ADMISSION_TOGETHER": True,
        "MIDDLEWARE": [],
        "ROOT_URLCONF": "config.admission_urls",
    }


def checking_names(inner: Application, names: Mapping[str, Sequence[str]]) -> Application:
    """Return an application in which a certificate asks only for its own clusters.

    Args:
        inner: What answers them.
        names: Allowed common names by cluster; empty allows every certificate the authority
            signed to ask for every cluster, and else nobody may ask for one that is not named.
    """
    if not names:
        return inner

    def check(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        if path in COMMON_PATHS:
            return inner(environ, start_response)
        found = CLUSTER_PATH.fullmatch(path)
        cluster, name = "" if found is None else found[1], common_name(environ)
        if name and name in names.get(cluster, ()):
            return inner(environ, start_response)
        return _forbidden(start_response, name, cluster)

    return check


def _forbidden(start_response: StartResponse, name: str, cluster: str) -> Iterable[bytes]:
    told = f"The certificate of {name!r} may not ask for cluster {cluster!r}.".encode()
    status = HTTPStatus.FORBIDDEN
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(told))),
    ]
    start_response(f"{status.value} {status.phrase}", headers)
    return [told]


def common_name(environ: Environ) -> str:
    """Return the common name of the client's certificate, "" without one."""
    connection = environ.get("gunicorn.socket")
    if not isinstance(connection, ssl.SSLSocket):
        return ""
    subject: Any = (connection.getpeercert() or {}).get("subject", ())
    found = (value for part in subject for key, value in part if key == "commonName")
    return next(found, "")


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


def make_application() -> Application:
    """Return the application with Django set up for it; called once, as the process begins."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.production")
    told = only_admission(settings.DATABASES, settings.ADMISSION_DEADLINE_SECONDS)
    for name, value in told.items():
        setattr(settings, name, value)
    django.setup(set_prefix=False)
    handler = PlainHandler()
    # The doors, and what they share, are there before the first pod asks.
    import_module(settings.ROOT_URLCONF)
    import_module("quotas.webhook.views").guard()
    import_module("quotas.webhook.together").let_in()
    # What is there by now stays: to look through all of it for garbage would stop every question.
    gc.collect()
    gc.freeze()
    return checking_names(handler, settings.ADMISSION_CLIENT_NAMES)

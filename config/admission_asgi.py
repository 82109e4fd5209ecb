"""ASGI application of the admission server: webhooks, and Django in threads for the rest.

Every API server presents a client certificate; gunicorn has verified its issuer. This module checks
its common name, where the environment names those allowed for a cluster.
"""

import asyncio
import gc
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from http import HTTPStatus
from importlib import import_module
from io import BytesIO
from typing import Any, NamedTuple, Protocol

import django
import structlog
from django.conf import settings

from config.admission_protocol import CLIENT_NAME, PROBE_PATHS, SHOWN_SECRET, Application, Scope
from config.admission_wsgi import Environ, PlainHandler, admission_apps, only_admission
from quotas.domain.admission.review import REVIEW_BYTES_MAX

logger = structlog.get_logger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]
CLUSTER_PATH = re.compile(r"/(?:admit|stamp|warn)/([-\w]+)(?:/.*)?", re.ASCII)
"""Paths of a cluster's webhooks."""
DOOR_PATH = re.compile(r"/(?:(admit)/([-\w]+)/pods|(stamp|warn)/([-\w]+))", re.ASCII)
READING_BYTES_MAX = 256 * 1024 * 1024
"""So much of all bodies of a process is kept while they come."""
ALIVE = b'{"status": "alive"}'
TEXT = (b"content-type", b"text/plain; charset=utf-8")
JSON = (b"content-type", b"application/json")


class Answered(Protocol):
    """What the front answers."""

    @property
    def status(self) -> HTTPStatus:
        """HTTP's own."""
        ...

    @property
    def body(self) -> bytes:
        """JSON."""
        ...


class WebhookFront(Protocol):
    """Answers webhook requests."""

    async def answer(self, endpoint: str, slug: str, body: bytes) -> Answered:
        """Return what is answered."""
        ...


class ClientGoneError(Exception):
    """Raised where a client went away before it had sent its whole request."""


class HTTPAnswer(NamedTuple):
    """The response."""

    status: int
    headers: Headers
    body: bytes


class AdmissionEndpoints:
    """The ASGI application.

    Args:
        front: Answers the webhooks.
        handler: Django's, for everything else.
        threads: Pool for the handler.
    """

    def __init__(self, front: WebhookFront, handler: PlainHandler, threads: Executor) -> None:
        """Answer on the event loop that calls."""
        self._front = front
        self._handler = handler
        self._threads = threads
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            ValueError: It is no HTTP request.
        """
        if scope["type"] != "http":
            raise ValueError(f"Only HTTP is answered, not {scope['type']}.")
        with suppress(ClientGoneError):
            await _send(send, await self._response(scope, receive))

    async def _response(self, scope: Scope, receive: Receive) -> HTTPAnswer:
        if scope["path"] == "/healthz" and scope["method"] in {"GET", "HEAD"}:
            # A process that waits for threads or the database is alive.
            return HTTPAnswer(HTTPStatus.OK, (JSON,), ALIVE)
        body = await self._bodies.whole(receive)
        if isinstance(body, HTTPAnswer):
            return body
        found = DOOR_PATH.fullmatch(scope["path"])
        if found is not None and scope["method"] == "POST":
            answer = await self._front.answer(found[1] or found[3], found[2] or found[4], body)
            return HTTPAnswer(answer.status, (JSON,), answer.body)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._by_django, scope, body)

    def _by_django(self, scope: Scope, body: bytes) -> HTTPAnswer:
        begun: list[tuple[str, list[tuple[str, str]]]] = []
        content = b"".join(
            self._handler(environ_of(scope, body), lambda *started: begun.append(started))
        )
        ((status, headers),) = begun
        # The sender sets Content-Length.
        kept = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in headers
            if name.lower() != "content-length"
        ]
        return HTTPAnswer(int(status.partition(" ")[0]), kept, content)


NOT_IN_FORCE = (
    "This secret is not in force for this cluster: add one with manage.py webhook_secret, then "
    "print and apply the webhook configuration again."
)


def checking_clients(
    inner: Application,
    names: Mapping[str, Sequence[str]],
    may_ask: Callable[[str, str], Awaitable[bool]],
) -> Application:
    """Return an application that accepts a certificate or a secret only for its own clusters.

    Args:
        inner: What answers them.
        names: Allowed common names by cluster; of a cluster that is not named, its slug alone.
        may_ask: Whether a cluster, by its slug, has a secret.
    """

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        found = CLUSTER_PATH.fullmatch(path)
        cluster, name = "" if found is None else found[1], scope.get(CLIENT_NAME, "")
        if SHOWN_SECRET in scope:
            if await may_ask(cluster, scope[SHOWN_SECRET]):
                await inner(scope, receive, send)
                return
            logger.warning("admission.secret_refused", cluster=cluster)
            await _send(send, _text(HTTPStatus.FORBIDDEN, NOT_IN_FORCE))
            return
        if path in PROBE_PATHS or (name and name in names.get(cluster, (cluster,))):
            await inner(scope, receive, send)
            return
        said = f"The certificate of {name!r} may not ask for cluster {cluster!r}."
        await _send(send, _text(HTTPStatus.FORBIDDEN, said))

    return check


class Bodies:
    """Bodies of requests that come at the same time, bounded each and together."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._bytes = 0

    async def whole(self, receive: Receive) -> bytes | HTTPAnswer:
        """Return the body of a request, or an error response where it is too large.

        Raises:
            ClientGoneError: The client disconnected.
        """
        read = bytearray()
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                part = message.get("body", b"")
                read += part
                self._bytes += len(part)
                if len(read) > REVIEW_BYTES_MAX:
                    return _text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "No review is as large.")
                if self._bytes > READING_BYTES_MAX:
                    return _text(HTTPStatus.SERVICE_UNAVAILABLE, "Too much comes at once.")
                if not message.get("more_body", False):
                    return bytes(read)
        finally:
            self._bytes -= len(read)


def environ_of(scope: Scope, body: bytes) -> Environ:
    """Return a request as Django's handler for WSGI takes it."""
    server = scope.get("server") or ("", 0)
    environ: Environ = {
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": scope["path"].encode().decode("latin-1"),
        "QUERY_STRING": scope.get("query_string", b"").decode("latin-1"),
        "SERVER_NAME": str(server[0]),
        "SERVER_PORT": str(server[1]),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.url_scheme": scope.get("scheme", "http"),
        "wsgi.input": BytesIO(body),
    }
    for name, value in scope["headers"]:
        key = name.decode("latin-1").upper().replace("-", "_")
        if key == "CONTENT_TYPE":
            environ[key] = value.decode("latin-1")
        elif key != "CONTENT_LENGTH":
            environ[f"HTTP_{key}"] = value.decode("latin-1")
    return environ


def _text(status: HTTPStatus, said: str) -> HTTPAnswer:
    return HTTPAnswer(status, (TEXT,), said.encode())


async def _send(send: Send, response: HTTPAnswer) -> None:
    headers = [*response.headers, (b"content-length", b"%d" % len(response.body))]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def on_starting(server: object) -> None:  # noqa: ARG001 - gunicorn's signature.
    """Load everything before gunicorn starts its processes, so that they share it.

    No thread runs and no connection is open yet: a process could not use either of its parent.
    Nothing that is loaded is garbage, so none is looked for meanwhile.
    """
    gc.disable()
    load()
    gc.freeze()
    gc.enable()


@lru_cache(maxsize=1)
def load() -> None:
    """Set Django up for the webhooks, and load them."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.production")
    overrides = only_admission(settings.DATABASES)
    overrides["INSTALLED_APPS"] = admission_apps(settings.INSTALLED_APPS)
    for name, value in overrides.items():
        setattr(settings, name, value)
    django.setup(set_prefix=False)
    for module in (settings.ROOT_URLCONF, "quotas.webhook.front", "quotas.webhook.following"):
        import_module(module)


def make_application(threads: int, *, is_proven: bool = True) -> Application:
    """Return the application with Django set up for it; called once, as the process begins.

    Args:
        threads: For what waits for the database by itself.
        is_proven: Whether clients show certificates; not so over plain HTTP on loopback.
    """
    load()
    # Make their shared state before the first request.
    answers = import_module("quotas.webhook.answers")
    answers.guard()
    answers.read_ahead()
    front = import_module("quotas.webhook.front")
    pool = ThreadPoolExecutor(threads, thread_name_prefix="admission")
    endpoints = AdmissionEndpoints(front.make_front(pool, time.monotonic_ns), PlainHandler(), pool)
    # What is there by now stays: to look through all of it for garbage would stop every question.
    gc.collect()
    gc.freeze()
    if not is_proven:
        return endpoints
    secrets = import_module("quotas.webhook.secrets").known_secrets()

    async def may_ask(cluster: str, secret: str) -> bool:
        if not secrets.is_fresh:
            await asyncio.get_running_loop().run_in_executor(pool, secrets.renew)
        return bool(secrets.may_ask(cluster, secret))

    return checking_clients(endpoints, settings.ADMISSION_CLIENT_NAMES, may_ask)

"""The admission server's way in: pods on the event loop, everything else in threads.

Every API server that asks shows a client certificate; gunicorn has verified who signed it. Here
its common name is looked at, where the environment names those that may ask for a cluster.
"""

import asyncio
import gc
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from http import HTTPStatus
from importlib import import_module
from io import BytesIO
from typing import Any, NamedTuple, Protocol

import django
from django.conf import settings

from config.admission_worker import CLIENT_NAME, Application, Scope
from config.admission_wsgi import Environ, PlainHandler, only_admission

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Headers = Sequence[tuple[bytes, bytes]]
CLUSTER_PATH = re.compile(r"/(?:admit|stamp|warn)/([-\w]+)(?:/.*)?", re.ASCII)
"""Where a cluster's doors are."""
PODS_PATH = re.compile(r"/admit/([-\w]+)/pods", re.ASCII)
COMMON_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""What tells nothing of a cluster's own: every signed certificate may look."""
BYTES_MAX = 8 * 1024 * 1024
"""More than this of a body is not read: no review is larger."""
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


class Pods(Protocol):
    """Answers at the door of pods."""

    async def pods(self, slug: str, body: bytes) -> Answered:
        """Return what is answered."""
        ...


class Response(NamedTuple):
    """What goes back."""

    status: int
    headers: Headers
    body: bytes


class Doors:
    """The ASGI application.

    Args:
        front: Answers the pods.
        handler: Django's, for everything else.
        threads: Where that answers.
    """

    def __init__(self, front: Pods, handler: PlainHandler, threads: Executor) -> None:
        """Answer on the event loop that calls."""
        self._front = front
        self._handler = handler
        self._threads = threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            ValueError: It is no HTTP request.
        """
        if scope["type"] != "http":
            raise ValueError(f"Only HTTP is answered, not {scope['type']}.")
        body = await whole_body(receive)
        await _send(send, await self._response(scope, body))

    async def _response(self, scope: Scope, body: bytes | None) -> Response:
        if body is None:
            return _text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "No review is as large.")
        found = PODS_PATH.fullmatch(scope["path"])
        if found is not None and scope["method"] == "POST":
            answer = await self._front.pods(found[1], body)
            return Response(answer.status, (JSON,), answer.body)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._by_django, scope, body)

    def _by_django(self, scope: Scope, body: bytes) -> Response:
        begun: list[tuple[str, list[tuple[str, str]]]] = []
        told = b"".join(
            self._handler(environ_of(scope, body), lambda *started: begun.append(started))
        )
        ((status, headers),) = begun
        # The length is told by whoever sends it.
        kept = [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in headers
            if name.lower() != "content-length"
        ]
        return Response(int(status.partition(" ")[0]), kept, told)


def checking_names(inner: Application, names: Mapping[str, Sequence[str]]) -> Application:
    """Return an application in which a certificate asks only for its own clusters.

    Args:
        inner: What answers them.
        names: Allowed common names by cluster; empty allows every certificate the authority
            signed to ask for every cluster, and else nobody may ask for one that is not named.
    """
    if not names:
        return inner

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        found = CLUSTER_PATH.fullmatch(path)
        cluster, name = "" if found is None else found[1], scope.get(CLIENT_NAME, "")
        if path in COMMON_PATHS or (name and name in names.get(cluster, ())):
            await inner(scope, receive, send)
            return
        said = f"The certificate of {name!r} may not ask for cluster {cluster!r}."
        await _send(send, _text(HTTPStatus.FORBIDDEN, said))

    return check


async def whole_body(receive: Receive) -> bytes | None:
    """Return the body of a request, None where it is larger than any review.

    A client that goes away in between has sent less than it announced: no review.
    """
    read = bytearray()
    while True:
        message = await receive()
        read += message.get("body", b"")
        if len(read) > BYTES_MAX:
            return None
        if not message.get("more_body", False):
            return bytes(read)


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


def _text(status: HTTPStatus, said: str) -> Response:
    return Response(status, (TEXT,), said.encode())


async def _send(send: Send, response: Response) -> None:
    headers = [*response.headers, (b"content-length", b"%d" % len(response.body))]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


def make_application(threads: int) -> Application:
    """Return the application with Django set up for it; called once, as the process begins.

    Args:
        threads: For what waits for the database by itself.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.production")
    told = only_admission(settings.DATABASES, settings.ADMISSION_DEADLINE_SECONDS)
    for name, value in told.items():
        setattr(settings, name, value)
    django.setup(set_prefix=False)
    # The doors, and what they share, are there before the first pod asks.
    import_module(settings.ROOT_URLCONF)
    answers = import_module("quotas.webhook.answers")
    answers.guard()
    front = import_module("quotas.webhook.front")
    pool = ThreadPoolExecutor(threads, thread_name_prefix="admission")
    doors = Doors(front.make_front(pool, time.monotonic_ns), PlainHandler(), pool)
    # What is there by now stays: to look through all of it for garbage would stop every question.
    gc.collect()
    gc.freeze()
    return checking_names(doors, settings.ADMISSION_CLIENT_NAMES)

"""A connection of the admission server: uvicorn's protocol, with the client certificate's name.

uvicorn parses HTTP in C, and limits neither the time to receive a request nor the size of its head:
both are limited here.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from quotas.domain.admission.secrets import SECRET_PATH

Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]
CLIENT_NAME = "gpu_ledger.client_name"
"""Where a request's scope has the common name of the client's certificate."""
SHOWN_SECRET = "gpu_ledger.secret"  # noqa: S105 - A key, and no secret.
"""Where a request's scope has the secret of its address, on the port of secrets."""
PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths without data of a cluster: open to probes and every signed certificate."""
CONNECTIONS_MAX = 1_000
"""Connections that a process keeps; it closes further ones."""
OPEN_CONNECTIONS_MAX = 500
"""How many of them the ports take where clients show no certificate, all together."""
REQUEST_SECONDS_MAX = 10
"""A connection is closed if it takes longer to send a request or to read a response: no API server
waits longer."""
HEAD_BYTES_MAX = 64 * 1024
"""Approximate limit of a request without its body: one read is checked as a whole."""
DRAIN_SECONDS = 1
"""How long an ending process responds with `Connection: close` before it closes connections."""


class AdmissionProtocol(HttpToolsProtocol):
    """One connection; its requests carry the common name of its client."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any]
    ) -> None:
        """Wait for a transport."""
        super().__init__(config, server_state, app_state)
        self.client_name = ""
        self.made_at = self.loop.time()
        self.has_request = False
        self.is_reading = False
        self.head_bytes = 0
        self.request_timer: asyncio.TimerHandle | None = None
        self.response_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # As uvicorn has it.
        """Begin a connection after its handshake, if the connection limit allows it."""
        super().connection_made(transport)
        self.client_name = common_name(transport.get_extra_info("ssl_object"))
        self.request_timer = self._abort_later()
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._end_request_timer()
        self._end_response_timer()
        # uvicorn's own timer would keep a broken connection and its buffers until it fires.
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait no longer for a client that does not read than for one that does not write."""
        super().pause_writing()
        self.response_timer = self._abort_later()

    def resume_writing(self) -> None:
        """Go on with what the client reads now."""
        super().resume_writing()
        self._end_response_timer()

    def data_received(self, data: bytes) -> None:
        """Read on; close a connection that takes too long for a request or its head."""
        self.is_reading = True
        self.head_bytes += len(data)
        super().data_received(data)
        if self.is_reading and self.request_timer is None:
            self.request_timer = self._abort_later()
        if self.head_bytes > HEAD_BYTES_MAX:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.is_reading = True
        super().on_message_begin()
        cast("Scope", self.scope)[CLIENT_NAME] = self.client_name

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self.head_bytes = 0
        super().on_headers_complete()
        self.has_request = True
        # Only HTTP is served here; bytes after an upgrade are not a request.
        if self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self.head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Have the whole request."""
        self.is_reading = False
        self.head_bytes = 0
        self._end_request_timer()
        super().on_message_complete()

    @property
    def is_pending(self) -> bool:
        """Whether a client waits for a response or reads one."""
        return self.has_request and not self.cycle.response_complete

    def end_after_response(self) -> None:
        """Add `Connection: close` to a pending response."""
        if self.is_pending:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """Close the connection: after a pending response, or after its time for a first request."""
        seconds_left = self.made_at + DRAIN_SECONDS - self.loop.time()
        if self.is_pending and not self.flow.write_paused:
            self.end_after_response()
        elif not self.has_request and seconds_left > 0:
            self.loop.call_later(seconds_left, self.shutdown)
        else:
            # To close it politely would wait half a minute for a client that does not listen.
            self.transport.abort()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request for another protocol is no fault of the operator."""

    def _abort_later(self) -> asyncio.TimerHandle:
        return self.loop.call_later(REQUEST_SECONDS_MAX, self.transport.abort)

    def _end_request_timer(self) -> None:
        if self.request_timer is not None:
            self.request_timer.cancel()
            self.request_timer = None

    def _end_response_timer(self) -> None:
        if self.response_timer is not None:
            self.response_timer.cancel()


class OpenProtocol(AdmissionProtocol):
    """A connection of a port where clients show no certificate: it leaves room for those who do."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # As uvicorn has it.
        """Begin a connection, if the limit of such connections allows it."""
        super().connection_made(transport)
        if sum(isinstance(one, OpenProtocol) for one in self.connections) > OPEN_CONNECTIONS_MAX:
            transport.abort()


def common_name(connection: ssl.SSLObject | None) -> str:
    """Return the common name of the client's certificate, "" without one."""
    shown: Any = None if connection is None else connection.getpeercert()
    subject = (shown or {}).get("subject", ())
    found = (value for part in subject for key, value in part if key == "commonName")
    return next(found, "")


def only_probes(application: Application) -> Application:
    """Return an application that answers only probes."""

    async def answer_probes(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's own.
        if scope["path"] in PROBE_PATHS and scope["method"] in {"GET", "HEAD"}:
            await application(scope, receive, send)
            return
        await _send_absent(send)

    return answer_probes


def only_secrets(application: Application) -> Application:
    """Return an application that answers only addresses with a secret, which it hands on."""

    async def answer_secrets(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's own.
        found = SECRET_PATH.fullmatch(scope["path"])
        if found is None:
            await _send_absent(send)
            return
        path = found[2]
        own = {"path": path, "raw_path": path.encode(), SHOWN_SECRET: found[1]}
        await application({**scope, **own}, receive, send)

    return answer_secrets


async def _send_absent(send: Any) -> None:  # noqa: ANN401 - ASGI's own.
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": b""})

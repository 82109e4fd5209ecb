"""A connection of the admission server: uvicorn's protocol, with the client certificate's name.

uvicorn parses HTTP in C, and limits neither the time to receive a request nor the size of its head:
both are limited here.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from config.admission_worker import AdmissionWorker

Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]
CLIENT_NAME = "gpu_ledger.client_name"
"""Where a request's scope has the common name of the client's certificate."""
PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths without data of a cluster: open to probes and every signed certificate."""
SILENCE_SECONDS = 10
"""A request that has not come whole by then ends its connection, and so does an answer that is not
read: no API server waits longer."""
HEAD_BYTES_MAX = 64 * 1024
"""Approximate limit of a request without its body: one read is checked as a whole."""


class NamingProtocol(HttpToolsProtocol):
    """One connection; its requests carry the common name of its client.

    Args:
        worker: Owner of the connection.
    """

    def __init__(self, worker: "AdmissionWorker") -> None:
        """Wait for a transport."""
        super().__init__(worker.protocol_config, worker.protocol_state, {}, worker.loop)
        self.worker = worker
        self.client_name = ""
        self.made_at = self.loop.time()
        self.was_asked = False
        self.is_reading = False
        self.head_bytes = 0
        self.silence: asyncio.TimerHandle | None = None
        self.stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # As uvicorn has it.
        """Begin a connection after its handshake, if the connection limit allows it."""
        self.worker.nr_conns += 1
        self.worker.connections.add(self)
        super().connection_made(transport)
        self.client_name = common_name(transport.get_extra_info("ssl_object"))
        self._begin_silence()
        if len(self.worker.connections) > self.worker.worker_connections:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._end_silence()
        self._end_stall()
        # uvicorn's own timer would keep a broken connection and its buffers until it fires.
        self._unset_keepalive_if_required()
        self.worker.nr_conns -= 1
        self.worker.connections.discard(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait no longer for a client that does not read than for one that does not write."""
        super().pause_writing()
        self.stall = self._abort_later()

    def resume_writing(self) -> None:
        """Go on with what the client reads now."""
        super().resume_writing()
        self._end_stall()

    def data_received(self, data: bytes) -> None:
        """Read on; close a connection that takes too long for a request or its head."""
        self.is_reading = True
        self.head_bytes += len(data)
        super().data_received(data)
        if self.is_reading and self.silence is None:
            self._begin_silence()
        if self.head_bytes > HEAD_BYTES_MAX:
            self.transport.abort()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.is_reading = True
        super().on_message_begin()
        cast("Scope", self.scope)[CLIENT_NAME] = self.client_name

    def on_headers_complete(self) -> None:
        """Begin to answer; a stopping worker adds `Connection: close`."""
        self.head_bytes = 0
        super().on_headers_complete()
        self.was_asked = True
        # Only HTTP is served here; bytes after an upgrade are not a request.
        if not self.worker.alive or self.parser.should_upgrade():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self.head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Have the whole request."""
        self.is_reading = False
        self.head_bytes = 0
        self._end_silence()
        super().on_message_complete()

    @property
    def is_asked(self) -> bool:
        """Whether a client waits for an answer or reads one."""
        return self.was_asked and not self.cycle.response_complete

    def end_with_answer(self) -> None:
        """Add `Connection: close` to the pending answer."""
        if self.is_asked:
            self.cycle.keep_alive = False

    def close_if_idle(self, *, new_for_seconds: int) -> None:
        """End a connection without a pending answer; others end after theirs.

        Args:
            new_for_seconds: A connection younger than this may still send its first request.
        """
        if self.is_asked and not self.flow.write_paused:
            return
        if not self.was_asked and self.loop.time() < self.made_at + new_for_seconds:
            return
        # To close it politely would wait half a minute for a client that does not listen.
        self.transport.abort()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request for another protocol is no fault of the operator."""

    def _begin_silence(self) -> None:
        self.silence = self._abort_later()

    def _abort_later(self) -> asyncio.TimerHandle:
        return self.loop.call_later(SILENCE_SECONDS, self.transport.abort)

    def _end_silence(self) -> None:
        if self.silence is not None:
            self.silence.cancel()
            self.silence = None

    def _end_stall(self) -> None:
        if self.stall is not None:
            self.stall.cancel()
            self.stall = None


def protocol_config(application: Application, *, keep_alive_seconds: int) -> Config:
    """Return the configuration of uvicorn's protocol: HTTP only, without an access log.

    Args:
        application: Answers.
        keep_alive_seconds: How long an idle connection is kept.
    """
    config = Config(
        application,
        http=NamingProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive_seconds,
    )
    config.load()
    return config


def common_name(connection: ssl.SSLObject | None) -> str:
    """Return the common name of the client's certificate, "" without one."""
    shown: Any = None if connection is None else connection.getpeercert()
    subject = (shown or {}).get("subject", ())
    found = (value for part in subject for key, value in part if key == "commonName")
    return next(found, "")


def probed(protocol: NamingProtocol) -> NamingProtocol:
    """Return a connection that answers only probes."""
    inner = protocol.app

    async def answer_probes(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's own.
        if scope["path"] in PROBE_PATHS and scope["method"] in {"GET", "HEAD"}:
            await inner(scope, receive, send)
            return
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 404, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    protocol.app = answer_probes
    return protocol

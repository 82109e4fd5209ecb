"""A connection of the admission server: uvicorn's protocol, telling whose certificate was shown.

It reads HTTP in C, and bounds neither how long a request takes to come nor how much comes before
its body: both are bounded here.
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
"""What tells nothing of a cluster's own: probes, and every signed certificate, may look."""
SILENCE_SECONDS = 10
"""A request that has not come whole by then ends its connection, and so does an answer that is not
read: no API server waits longer."""
HEAD_BYTES_MAX = 64 * 1024
"""About as much of a request may come without a body: what one read brings is looked at whole."""


class NamingProtocol(HttpToolsProtocol):
    """One connection; its requests carry the common name of its client.

    Args:
        worker: Whose connection it is.
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
        """Begin a connection whose handshake has been made, if there is room for one more."""
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
        # uvicorn's own timer would keep a connection that broke, and all it read, until it rings.
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
        """Read on; who takes too long for a request, or for its head, is let go."""
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
        """Begin to answer; whoever is told to end says with it that the connection is over."""
        self.head_bytes = 0
        super().on_headers_complete()
        self.was_asked = True
        # Nobody speaks anything but HTTP here, and what follows an upgrade is no request.
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
        """Whether somebody waits for an answer, or reads one."""
        return self.was_asked and not self.cycle.response_complete

    def end_with_answer(self) -> None:
        """Say with the answer that somebody waits for that the connection is over."""
        if self.is_asked:
            self.cycle.keep_alive = False

    def close_if_idle(self, *, new_for_seconds: int) -> None:
        """End a connection on which nobody waits for an answer; the others end with theirs.

        Args:
            new_for_seconds: One as new as this may still ask its first question.
        """
        if self.is_asked and not self.flow.write_paused:
            return
        if not self.was_asked and self.loop.time() < self.made_at + new_for_seconds:
            return
        # To close it politely would wait half a minute for a client that does not listen.
        self.transport.abort()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: to be asked for other protocols is no fault of whoever runs this."""

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
    """Return what uvicorn's protocol is told: it serves HTTP alone, and tells of no request.

    Args:
        application: Answers.
        keep_alive_seconds: How long a connection is kept on which nobody asks.
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
    """Return a connection on which nothing is answered but what probes ask."""
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

"""The worker of the admission server: gunicorn's for ASGI, with connections of our own making.

gunicorn looks after the processes; uvicorn's protocol, which reads HTTP in C, after a connection.
Neither tells an ASGI application whose certificate was shown. The connections that API servers
keep open would hold up a worker that is told to end, and one worker would take all the connections
that come at the same time.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, cast

import structlog
import uvloop
from gunicorn.workers import gasgi  # type: ignore[import-untyped] # It has no types.
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

logger = structlog.get_logger(__name__)

Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]
CLIENT_NAME = "gpu_ledger.client_name"
"""Where a request's scope has the common name of the client's certificate."""
SILENCE_SECONDS = 10
"""A request that has not come whole by then ends its connection: no API server waits longer."""
HEAD_BYTES_MAX = 64 * 1024
"""As much of a request may come without a body; Go's own servers and clients send far less."""
LEAVE_SECONDS = 1
"""So long a worker that is told to end answers that the connection is over; then it ends it."""
LOOK_SECONDS = 0.1
"""How often it looks for connections on which nobody waits then."""
REST_SECONDS = 0.002
"""How long a process leaves connections to others after it took one."""
BACKLOG = 2_048
"""Connections that wait to be taken."""


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
        self.was_asked = False
        self.is_reading = False
        self.head_bytes = 0
        self.silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # As uvicorn has it.
        """Begin a connection whose handshake has been made, if there is room for one more."""
        super().connection_made(transport)
        self.client_name = common_name(transport.get_extra_info("ssl_object"))
        self.worker.nr_conns += 1
        self.worker.connections.add(self)
        self._begin_silence()
        if len(self.worker.connections) > self.worker.worker_connections:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._end_silence()
        self.worker.nr_conns -= 1
        self.worker.connections.discard(self)
        super().connection_lost(exc)

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
        if not self.worker.alive:
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
        """Whether somebody waits for an answer."""
        return self.was_asked and not self.cycle.response_complete

    def end_with_answer(self) -> None:
        """Say with the answer that somebody waits for that the connection is over."""
        if self.is_asked:
            self.cycle.keep_alive = False

    def close_if_idle(self) -> None:
        """End a connection on which nobody waits for an answer; the others end with theirs."""
        if self.is_asked:
            return
        # To close it politely would wait half a minute for a client that does not listen.
        self.transport.abort()

    def _begin_silence(self) -> None:
        self.silence = self.loop.call_later(SILENCE_SECONDS, self.transport.abort)

    def _end_silence(self) -> None:
        if self.silence is not None:
            self.silence.cancel()
            self.silence = None


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


class Taking:
    """Takes connections one after the other, and rests in between: then another process takes one.

    asyncio's own server takes all that wait, which is all that a burst of an API server opens.

    Args:
        loop: What it runs on.
        factory: Makes a connection's protocol.
        listener: A socket that listens, and that other processes listen on too.
        tls: How connections are secured; None for not at all.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        factory: Callable[[], asyncio.BaseProtocol],
        listener: socket.socket,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Begin."""
        self._loop, self._factory, self._listener, self._tls = loop, factory, listener, tls
        self._shaking: set[asyncio.Task[None]] = set()
        listener.settimeout(0)
        listener.listen(BACKLOG)
        self._taking = loop.create_task(self._take())

    def close(self) -> None:
        """Take no more; what shakes hands may end that."""
        self._taking.cancel()

    async def wait_closed(self) -> None:
        """Return once nothing is taken."""
        await asyncio.wait([self._taking])

    async def _take(self) -> None:
        while True:
            try:
                taken, _ = await self._loop.sock_accept(self._listener)
            except OSError as error:
                # No descriptor is left, say: others may end in a moment.
                logger.warning("admission.not_taken", reason=str(error))
                await asyncio.sleep(LOOK_SECONDS)
                continue
            shaking = self._loop.create_task(self._shake_hands(taken))
            self._shaking.add(shaking)
            shaking.add_done_callback(self._shaking.discard)
            await asyncio.sleep(REST_SECONDS)

    async def _shake_hands(self, taken: socket.socket) -> None:
        patience = None if self._tls is None else SILENCE_SECONDS
        try:
            taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                self._factory, taken, ssl=self._tls, ssl_handshake_timeout=patience
            )
        except ssl.SSLError as error:
            # Whoever shows no certificate, or a strange one, is not let in; that they came is told.
            logger.warning("admission.no_handshake", reason=str(error))
            taken.close()
        except OSError as error:
            # They went away again, as probes do that only look whether somebody listens.
            logger.debug("admission.no_handshake", reason=type(error).__name__)
            taken.close()


class TakingLoop(uvloop.Loop):
    """An event loop whose servers take one connection after the other."""

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - As it is inherited.
        """Serve on a socket that listens."""
        return Taking(self, args[0], kwargs["sock"], kwargs.get("ssl"))


class AdmissionWorker(gasgi.ASGIWorker):  # type: ignore[misc] # As above.
    """gunicorn's worker for ASGI with connections that tell names.

    A gunicorn that would not take the protocol from here would tell no name, and whoever shows
    none asks for no cluster where names are required.
    """

    def init_process(self) -> None:
        """Begin, in the worker's own process."""
        self.connections: set[NamingProtocol] = set()
        gasgi.ASGIProtocol = NamingProtocol
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the application, and what each connection is told."""
        super().load_wsgi()
        self.answer_with(self.asgi)

    def answer_with(self, application: Application) -> None:
        """Have every connection ask an application."""
        self.protocol_state = ServerState()
        self.protocol_config = protocol_config(application, keep_alive_seconds=self.cfg.keepalive)

    def _setup_event_loop(self) -> None:
        self.loop = TakingLoop()
        asyncio.set_event_loop(self.loop)

    def handle_exit_signal(self) -> None:
        """End once everybody who waits has an answer, and has been told to connect to another.

        Whatever is answered from now on says that its connection is over. Who asks nothing for a
        while, or connects only now, is let go.
        """
        super().handle_exit_signal()
        for connection in self.connections:
            connection.end_with_answer()
        self.loop.call_later(LEAVE_SECONDS, self._let_go)

    def _let_go(self) -> None:
        for connection in list(self.connections):
            connection.close_if_idle()
        self.loop.call_later(LOOK_SECONDS, self._let_go)

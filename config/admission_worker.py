"""The worker of the admission server: gunicorn's for ASGI, telling whose certificate was shown.

gunicorn verifies who signed a client's certificate and tells an ASGI application nothing of it.
It also lets connections that API servers keep open hold up a worker that is told to end, and lets
one worker take all the connections that come at the same time.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
import uvloop
from gunicorn.asgi.protocol import ASGIProtocol  # type: ignore[import-untyped] # It has no types.
from gunicorn.workers import gasgi  # type: ignore[import-untyped] # As above.

logger = structlog.get_logger(__name__)

Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]
CLIENT_NAME = "gpu_ledger.client_name"
"""Where a request's scope has the common name of the client's certificate."""
SILENCE_SECONDS = 10
"""A connection on which no request has come by then is ended."""
LEAVE_SECONDS = 1
"""So long a worker that is told to end answers that the connection is over; then it ends it."""
LOOK_SECONDS = 0.1
"""How often it looks for connections on which nobody waits then."""
REST_SECONDS = 0.002
"""How long a process leaves connections to others after it took one."""
BACKLOG = 2_048
"""Connections that wait to be taken."""


class NamingProtocol(ASGIProtocol):  # type: ignore[misc] # As above.
    """One connection; its requests carry the common name of its client."""

    app: Application

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection whose handshake has been made, if there is room for one more."""
        super().connection_made(transport)
        self.requests = 0
        self.app = self._counting(
            naming(self.app, common_name(transport.get_extra_info("ssl_object")))
        )
        loop = asyncio.get_running_loop()
        self.silence = loop.call_later(SILENCE_SECONDS, self.close_if_idle)
        self.worker.connections.add(self)
        if len(self.worker.connections) > self.worker.worker_connections:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.silence.cancel()
        self.worker.connections.discard(self)
        super().connection_lost(exc)

    def close_if_idle(self) -> None:
        """End a connection on which nobody waits for an answer; the others end with theirs."""
        if self.requests == 0:
            # To close it politely would wait half a minute for a client that does not listen.
            self.transport.abort()

    def _counting(self, application: Application) -> Application:
        async def counted(scope: Scope, receive: object, send: object) -> None:
            self.requests += 1
            # From now on gunicorn's own patience with idle connections counts.
            self.silence.cancel()
            try:
                await application(scope, receive, send)
            finally:
                self.requests -= 1

        return counted


def naming(application: Application, name: str) -> Application:
    """Return an application whose requests carry a client's common name."""

    async def named(scope: Scope, receive: object, send: object) -> None:
        scope[CLIENT_NAME] = name
        await application(scope, receive, send)

    return named


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

    def _setup_event_loop(self) -> None:
        self.loop = TakingLoop()
        asyncio.set_event_loop(self.loop)

    def handle_exit_signal(self) -> None:
        """End once everybody who waits has an answer, and has been told to connect to another.

        Whatever is answered from now on says that its connection is over. Who asks nothing for a
        while, or connects only now, is let go.
        """
        super().handle_exit_signal()
        self.loop.call_later(LEAVE_SECONDS, self._let_go)

    def _let_go(self) -> None:
        for connection in list(self.connections):
            connection.close_if_idle()
        self.loop.call_later(LOOK_SECONDS, self._let_go)

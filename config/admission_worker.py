"""The worker of the admission server: gunicorn's ASGI worker with its own connections.

gunicorn manages the processes. Without this class, connections that API servers keep open would
delay a stopping worker, and one worker would accept all simultaneous connections.
"""

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from typing import Any

import structlog
import uvloop
from gunicorn.workers import gasgi  # type: ignore[import-untyped] # It has no types.
from uvicorn.server import ServerState

from config.admission_protocol import (
    SILENCE_SECONDS,
    Application,
    NamingProtocol,
    probed,
    protocol_config,
)

logger = structlog.get_logger(__name__)

LEAVE_SECONDS = 1
"""How long a stopping worker answers with `Connection: close` before it closes connections."""
LOOK_SECONDS = 0.1
"""How often a stopping worker checks for idle connections."""
PROBE_PORT = "ADMISSION_PROBE_PORT"
"""The variable that names the port of probes, where there is one: they show no certificate."""
REST_SECONDS = 0.002
"""How long a process leaves connections to others after it took one."""
BACKLOG = 2_048
"""Connections that wait to be taken."""


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
        """Stop accepting, after the waiting connections are accepted."""
        self._taking.cancel()

    async def wait_closed(self) -> None:
        """Accept waiting connections, which would be reset else; return after the handshakes.

        Other processes go on with the same socket; it is closed in this one.
        """
        await asyncio.wait([self._taking])
        with suppress(OSError):
            while True:
                self._begin(self._listener.accept()[0])
        self._listener.close()
        if self._shaking:
            await asyncio.wait(self._shaking)

    async def _take(self) -> None:
        while True:
            try:
                taken, _ = await self._loop.sock_accept(self._listener)
            except OSError as error:
                # No descriptor is left, say: others may end in a moment.
                logger.warning("admission.accept_failed", reason=str(error))
                await asyncio.sleep(LOOK_SECONDS)
                continue
            self._begin(taken)
            await asyncio.sleep(REST_SECONDS)

    def _begin(self, taken: socket.socket) -> None:
        shaking = self._loop.create_task(self._shake_hands(taken))
        self._shaking.add(shaking)
        shaking.add_done_callback(self._shaking.discard)

    async def _shake_hands(self, taken: socket.socket) -> None:
        patience = None if self._tls is None else SILENCE_SECONDS
        try:
            taken.setblocking(False)  # noqa: FBT003 - The socket's own signature.
            taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                self._factory, taken, ssl=self._tls, ssl_handshake_timeout=patience
            )
        except ssl.SSLError as error:
            # Reject clients without a valid certificate and log the attempt.
            logger.warning("admission.tls_handshake_failed", reason=str(error))
            taken.close()
        except (OSError, ValueError) as error:
            # The client disconnected, as TCP probes do; or the name in its certificate is not text.
            logger.debug("admission.tls_handshake_failed", reason=type(error).__name__)
            taken.close()


class TakingLoop(uvloop.Loop):
    """An event loop whose servers accept one connection at a time."""

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - As it is inherited.
        """Serve on a socket that listens: to probes alone, and without TLS, where it is theirs."""
        factory, listener = args[0], kwargs["sock"]
        if str(listener.getsockname()[1]) == os.environ.get(PROBE_PORT):
            return Taking(self, lambda: probed(factory()), listener, None)
        return Taking(self, factory, listener, kwargs.get("ssl"))


class AdmissionWorker(gasgi.ASGIWorker):  # type: ignore[misc] # As above.
    """gunicorn's ASGI worker with connections that know the certificate's name.

    If gunicorn did not use this protocol, no name would be known, and requests would be denied
    where names are required.
    """

    def init_process(self) -> None:
        """Begin, in the worker's own process."""
        self.connections: set[NamingProtocol] = set()
        gasgi.ASGIProtocol = NamingProtocol
        super().init_process()

    def load_wsgi(self) -> None:
        """Load the application and the connection's configuration."""
        super().load_wsgi()
        self.answer_with(self.asgi)

    def answer_with(self, application: Application) -> None:
        """Make every connection call an application."""
        self.protocol_state = ServerState()
        self.protocol_config = protocol_config(application, keep_alive_seconds=self.cfg.keepalive)

    def _setup_event_loop(self) -> None:
        self.loop = TakingLoop()
        asyncio.set_event_loop(self.loop)

    def handle_exit_signal(self) -> None:
        """End once all pending requests are answered with `Connection: close`.

        From now on every answer has `Connection: close`. Connections that are idle for a while or
        new are closed.
        """
        super().handle_exit_signal()
        for connection in self.connections:
            connection.end_with_answer()
        self.loop.call_later(LEAVE_SECONDS, self._let_go)

    async def _shutdown(self) -> None:
        if self.alive:
            # The gunicorn arbiter was killed: end as on its signal.
            self.handle_exit_signal()
        for server in self.servers:
            server.close()
        # gunicorn waits for connections, and half a second for those that still shake hands.
        await asyncio.wait([asyncio.ensure_future(one.wait_closed()) for one in self.servers])
        await super()._shutdown()

    def notify(self) -> None:
        """Once a second, update gunicorn's heartbeat and the Date header."""
        super().notify()
        date = formatdate(time.time(), usegmt=True).encode()
        self.protocol_state.default_headers = [(b"date", date)]

    def _let_go(self) -> None:
        for connection in list(self.connections):
            connection.close_if_idle(new_for_seconds=LEAVE_SECONDS)
        self.loop.call_later(LOOK_SECONDS, self._let_go)

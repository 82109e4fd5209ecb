"""The server of the admission webhooks: uvicorn's server in gunicorn's processes (ADR 0028).

gunicorn binds the ports and starts, watches and ends the processes. uvicorn serves in each of them.
Without the subclass of its server, one process would accept all simultaneous connections, and
connections that API servers keep open would be reset when a process ends.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import copy
from functools import partial
from importlib import import_module
from typing import cast

import structlog
from gunicorn.sock import ssl_context  # type: ignore[import-untyped] # It has no types.
from gunicorn.workers.base import Worker  # type: ignore[import-untyped] # As above.
from uvicorn.config import Config
from uvicorn.server import Server

from config.admission_protocol import (
    DRAIN_SECONDS,
    REQUEST_SECONDS_MAX,
    AdmissionProtocol,
    Application,
    OpenProtocol,
    only_probes,
    only_secrets,
)
from config.management.commands.serve_admission import PROBE_PORT, SECRET_PORT

logger = structlog.get_logger(__name__)

ACCEPT_PAUSE_SECONDS = 0.002
"""How long a process leaves connections to others after it accepted one."""
ACCEPT_RETRY_SECONDS = 0.1
"""How long a process waits after it could not accept a connection."""


class AdmissionWorker(Worker):  # type: ignore[misc] # As above.
    """A process of gunicorn that runs uvicorn's server.

    It ends when gunicorn ends it, and when gunicorn itself was killed.
    """

    def load_wsgi(self) -> None:
        """Load the application and the certificate; if either fails, gunicorn ends."""
        super().load_wsgi()
        import_module("quotas.webhook.following").begin()
        config = server_config(
            self.wsgi,
            keep_alive_seconds=self.cfg.keepalive,
            graceful_seconds=self.cfg.graceful_timeout,
            tls=ssl_context(self.cfg) if self.cfg.is_ssl else None,
            each_second=self._report,
        )
        self.server = AdmissionServer(config)
        if self.cfg.is_ssl:
            self.server.secret_tls = ssl_context(self.cfg)
            self.server.secret_tls.verify_mode = ssl.CERT_NONE

    def run(self) -> None:
        """Serve until the process is to end."""
        self.server.run([listener.sock for listener in self.sockets])

    async def _report(self) -> None:
        self.notify()
        # A signal that came before the server ran only cleared `alive`.
        if not self.alive or self.ppid != os.getppid():
            self.server.should_exit = True


class AdmissionServer(Server):
    """uvicorn's server, with an acceptor for each port and an end that loses no request.

    Attributes:
        secret_tls: For the port of secrets, where clients have no certificate.
    """

    secret_tls: ssl.SSLContext | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections on listening sockets.

        The port of probes serves only them, without TLS; that of secrets only addresses with one.
        """
        await super().startup(sockets=[])
        self.acceptors = [self._acceptor(listener) for listener in sockets or ()]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - As uvicorn has it.
        """Respond with `Connection: close` for a second, then close idle connections and wait.

        What clients have sent by then is answered, also on connections that wait to be accepted.
        """
        state = self.server_state
        connections = cast("set[AdmissionProtocol]", state.connections)
        state.default_headers = [*state.default_headers, (b"connection", b"close")]
        for connection in connections:
            connection.end_after_response()
        await asyncio.sleep(DRAIN_SECONDS)
        for connection in list(connections):
            connection.shutdown()
        await asyncio.gather(*(acceptor.close() for acceptor in self.acceptors))
        await super().shutdown()

    def _acceptor(self, listener: socket.socket) -> "Acceptor":
        config, protocol = self.config, AdmissionProtocol
        port = str(listener.getsockname()[1])
        if port == os.environ.get(PROBE_PORT):
            config, protocol = copy(config), OpenProtocol
            config.loaded_app, config.ssl = only_probes(config.loaded_app), None
        elif port == os.environ.get(SECRET_PORT):
            config, protocol = copy(config), OpenProtocol
            config.loaded_app, config.ssl = only_secrets(config.loaded_app), self.secret_tls
        make_protocol = partial(protocol, config, self.server_state, {})
        return Acceptor(listener, make_protocol, tls=config.ssl)


class Acceptor:
    """Accepts connections one at a time, with a pause in which another process accepts the next.

    The event loop's own server accepts all that wait, such as the whole burst of an API server.

    Args:
        listener: A socket that listens, and that other processes share.
        make_protocol: Makes a connection's protocol.
        tls: How connections are secured; None for not at all.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Begin, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._listener, self._make_protocol, self._tls = listener, make_protocol, tls
        self._handshakes: set[asyncio.Task[None]] = set()
        listener.setblocking(False)  # noqa: FBT003 - The socket's own signature.
        self._accepting = self._loop.create_task(self._accept())

    async def close(self) -> None:
        """Accept the waiting connections, which would be reset otherwise, and end all handshakes.

        Other processes go on with the same socket; it is closed in this one.
        """
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        with suppress(OSError):
            while True:
                self._begin(self._listener.accept()[0])
        self._listener.close()
        if self._handshakes:
            await asyncio.wait(self._handshakes)

    async def _accept(self) -> None:
        while True:
            try:
                accepted, _ = await self._loop.sock_accept(self._listener)
            except OSError as error:
                # For example no descriptor is left: other connections may end in a moment.
                logger.warning("admission.accept_failed", reason=str(error))
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)
                continue
            self._begin(accepted)
            await asyncio.sleep(ACCEPT_PAUSE_SECONDS)

    def _begin(self, accepted: socket.socket) -> None:
        handshake = self._loop.create_task(self._connect(accepted))
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        patience = None if self._tls is None else REQUEST_SECONDS_MAX
        try:
            accepted.setblocking(False)  # noqa: FBT003 - The socket's own signature.
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(
                self._make_protocol, accepted, ssl=self._tls, ssl_handshake_timeout=patience
            )
        except ssl.SSLError as error:
            # Reject clients without a valid certificate and log the attempt.
            logger.warning("admission.tls_handshake_failed", reason=str(error))
            accepted.close()
        except (OSError, ValueError) as error:
            # The client disconnected, as TCP probes do; or the name in its certificate is not text.
            logger.debug("admission.tls_handshake_failed", reason=type(error).__name__)
            accepted.close()


def server_config(
    application: Application,
    *,
    keep_alive_seconds: int,
    graceful_seconds: int,
    tls: ssl.SSLContext | None = None,
    each_second: Callable[[], Awaitable[None]] | None = None,
) -> Config:
    """Return uvicorn's configuration: HTTP only, without an access log.

    Args:
        application: Answers.
        keep_alive_seconds: How long an idle connection is kept.
        graceful_seconds: How long an ending server waits for its connections.
        tls: How connections are secured; None for not at all.
        each_second: What the server calls once a second.
    """
    config = Config(
        application,
        loop="uvloop",
        http=AdmissionProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=graceful_seconds,
        timeout_notify=0,
        callback_notify=each_second,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )
    config.load()
    return config

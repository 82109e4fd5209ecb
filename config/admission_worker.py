"""The worker of the admission server: gunicorn's for ASGI, telling whose certificate was shown.

gunicorn verifies who signed a client's certificate and tells an ASGI application nothing of it.
It also lets connections that API servers keep open hold up a worker that is told to end.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from gunicorn.asgi.protocol import ASGIProtocol  # type: ignore[import-untyped] # It has no types.
from gunicorn.workers import gasgi  # type: ignore[import-untyped] # As above.

Scope = dict[str, Any]
Application = Callable[[Scope, Any, Any], Awaitable[None]]
CLIENT_NAME = "gpu_ledger.client_name"
"""Where a request's scope has the common name of the client's certificate."""


class NamingProtocol(ASGIProtocol):  # type: ignore[misc] # As above.
    """One connection; its requests carry the common name of its client."""

    app: Application

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection whose handshake has been made."""
        super().connection_made(transport)
        self.requests = 0
        self.app = self._counting(
            naming(self.app, common_name(transport.get_extra_info("ssl_object")))
        )
        self.worker.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
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

    def handle_exit_signal(self) -> None:
        """End once everybody who waits has an answer; API servers connect to another then."""
        super().handle_exit_signal()
        for connection in list(self.connections):
            connection.close_if_idle()

"""The server: HTTPS on 127.0.0.1, bearer tokens, and one thread per connection."""

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from simulator.cluster.exporters.object_series import QuotaStatus
from simulator.cluster.scenario import SimulatedCluster
from simulator.kubernetes_api.access import (
    HOST,
    ServerCertificates,
    Tokens,
    make_identity,
    write_kubeconfig,
)
from simulator.kubernetes_api.controllers import DELAY_SECONDS, ControllerThread
from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.pods import load_cluster, quota_statuses, run_pods
from simulator.kubernetes_api.reading import BOOKMARK_SECONDS, Reader
from simulator.kubernetes_api.requests import APIResponse, Fault, Request, Responder
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.webhooks import Compile

FIRST_VERSION: Final = 1000
"""Where its history begins: no real server knows what happened at version 1."""
_POLL_SECONDS: Final = 0.05
"""How soon a stop is noticed."""


class KubernetesAPI:
    """One cluster's API server; use it as a context.

    Args:
        folder: Where its certificate and key go.
        tokens: Users by bearer token.
        port: The port to listen on; 0 for a free one.
        delay_seconds: Least and most between a write and what the controllers make of it.
        bookmark_seconds: Between two bookmarks of a watch.
        runs_pods: Whether pods are bound, run and end by themselves.
        first_version: Where its history begins; a server that is started again begins later than
            it ended, so that an old version, or the uid of an old object, is never a new one's.
        compile_condition: Compiles CEL expressions; None refuses match conditions.
        identity: The certificates of the server that is started again; None makes them.

    Attributes:
        store: The objects.
    """

    def __init__(  # noqa: PLR0913 - What a server is made of; all but one are keyword only.
        self,
        folder: Path,
        *,
        tokens: Mapping[str, str],
        port: int = 0,
        delay_seconds: tuple[float, float] = DELAY_SECONDS,
        bookmark_seconds: float = BOOKMARK_SECONDS,
        runs_pods: bool = False,
        first_version: int = FIRST_VERSION,
        compile_condition: Compile | None = None,
        identity: ServerCertificates | None = None,
    ) -> None:
        """Make the certificate and bind the port; nothing is answered before `start`."""
        self.identity = identity or make_identity(folder)
        self.store = ObjectStore(version=first_version)
        self.store.compile_condition = compile_condition
        self.store.client_certificate = (
            str(self.identity.client_certificate_path),
            str(self.identity.client_key_path),
        )
        self._token = next(iter(tokens))
        self._tokens = Tokens(tokens)
        self._bookmark_seconds = bookmark_seconds
        self._faults: list[Fault] = []
        self._controllers = ControllerThread(
            self.store, delay_seconds=delay_seconds, more=[run_pods] if runs_pods else []
        )
        self._bind(port)

    def _bind(self, port: int) -> None:
        """Bind a port for a new process of the server; nothing is answered yet."""
        is_stopping = threading.Event()
        responder = Responder(
            self.store,
            Reader(self.store, bookmark_seconds=self._bookmark_seconds),
            self._tokens,
            is_open=lambda: not is_stopping.is_set(),
        )
        responder.faults = self._faults
        self._is_stopping = is_stopping
        self._server = _HTTPServer((HOST, port), responder)
        # The handshake happens in the connection's own thread: a silent client blocks no other.
        self._server.socket = self.identity.server_context().wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_POLL_SECONDS,),
            name="kubernetes-api",
            daemon=True,
        )

    def __enter__(self) -> Self:
        """Start answering."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop answering."""
        self.stop()

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"https://{HOST}:{self._server.server_address[1]}"

    def start(self) -> None:
        """Start answering, and the controllers behind it."""
        self._controllers.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and give the port back; watches end."""
        self._is_stopping.set()
        self._controllers.stop()
        self._close()

    def restart(self, *, down_seconds: float = 0) -> None:
        """Break every connection and answer again: the same objects, but no history of them.

        Args:
            down_seconds: How long the port is closed.
        """
        port = self._server.server_address[1]
        self._is_stopping.set()
        self._close()
        self._server.break_connections()
        self.store.compact()
        time.sleep(down_seconds)
        self._bind(port)
        self._thread.start()

    def _close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def kubeconfig(self, path: Path, *, name: str = "simulated") -> Path:
        """Write a kubeconfig with the first token and return its path.

        Args:
            path: Where it goes.
            name: Of its context.
        """
        authority = self.identity.authority_pem
        return write_kubeconfig(
            path, url=self.url, authority_pem=authority, token=self._token, name=name
        )

    def load(self, cluster: SimulatedCluster, at: datetime) -> None:
        """Make the objects equal to a simulated cluster at a moment; quotas stay as they are."""
        load_cluster(self.store, cluster, at)

    def settle(self) -> None:
        """Run every controller once now, for a caller that does not want to wait."""
        self._controllers.settle()

    def quota_statuses(self) -> tuple[QuotaStatus, ...]:
        """Return the quotas as kube-state-metrics would show them."""
        return quota_statuses(self.store)

    def fail_next(
        self,
        code: int,
        *,
        verb: str = "",
        resource: str = "",
        times: int = 1,
        retry_after_seconds: int | None = None,
    ) -> None:
        """Answer the next requests with an error, such as 409, 429 or 503.

        Args:
            code: Of the response.
            verb: Of the requests, such as "list"; "" for every verb.
            resource: Of the requests, such as "pods/eviction"; "" for every resource.
            times: How many requests.
            retry_after_seconds: Sent as Retry-After and in the Status; None for neither.
        """
        status = HTTPStatus(code)
        message = f"{status.phrase}, as ordered"
        seconds = retry_after_seconds
        reason = status.phrase.title().replace(" ", "")
        error = StatusError(code, reason, message, retry_after_seconds=seconds)
        self._faults.append(Fault(error, verb, resource, times))

    def reset_faults(self) -> None:
        """Drop every error that no request has got."""
        self._faults.clear()


class _HTTPServer(ThreadingHTTPServer):
    """A server with one responder for all connections."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], responder: Responder) -> None:
        """Bind the port."""
        super().__init__(address, _Handler)
        self.responder = responder
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept a connection and remember it."""
        connection, address = super().get_request()
        with self._lock:
            self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        """Close a connection."""
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def break_connections(self) -> None:
        """End every open connection, as a process that is killed does."""
        with self._lock:
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    # Not TLS' own, which would take the socket away from the thread that reads it.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Serves one connection, request after request."""

    server: _HTTPServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Serve until the client closes the connection, in whatever way."""
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True

    def do_GET(self) -> None:
        """Answer a request of any method."""
        length = int(self.headers.get("Content-Length") or 0)
        headers = {key.lower(): value for key, value in self.headers.items()}
        request = Request(self.command, self.path, headers, self.rfile.read(length))
        response = self.server.responder.respond(request)
        self.send_response(response.code)
        for name, value in response.headers:
            self.send_header(name, value)
        if response.events is None:
            self._send(response)
            return
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for event in response.events:
            data = json.dumps(event).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    # The base class calls them by these names.
    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Write no log."""

    def _send(self, response: APIResponse) -> None:
        is_text = isinstance(response.document, str)
        text = response.document if is_text else json.dumps(response.document)
        body = f"{text}".encode()
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

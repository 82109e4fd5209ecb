"""The HTTP side of a request: headers, bodies, and watches in chunks."""

import json
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from simulator.kubernetes_api.answering import (
    Answer,
    Answerer,
    Request,
    refusal_answer,
)
from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.orders import Orders
from simulator.kubernetes_api.routing import asked_of

BODY_BYTES_MAX: Final = 3 * 1024 * 1024
"""As the real server has it."""
IDLE_SECONDS: Final = 120


class APIServer(ThreadingHTTPServer):
    """A server whose connections ask one answerer."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], answerer: Answerer, faults: Orders) -> None:
        """Bind the port."""
        super().__init__(address, Handler)
        self.answerer = answerer
        self.faults = faults


class Handler(BaseHTTPRequestHandler):
    """Serves one connection, request after request."""

    server: APIServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Serve until the client goes; how it goes is its own affair."""
        try:
            super().handle()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            self.close_connection = True

    def do_GET(self) -> None:
        """Answer."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_BYTES_MAX:
            self.close_connection = True
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        body = self.rfile.read(length)
        order = self.server.faults.take(asked_of(self.command, self.path))
        if order is not None:
            self._send(refusal_answer(order.error))
            return
        answer = self.server.answerer.answer(
            Request(
                method=self.command,
                target=self.path,
                headers={key.lower(): value for key, value in self.headers.items()},
                body=body,
            )
        )
        if answer.events is not None:
            self._stream(answer.events)
        else:
            self._send(answer)

    def do_POST(self) -> None:
        """Answer."""
        self.do_GET()

    def do_PUT(self) -> None:
        """Answer."""
        self.do_GET()

    def do_PATCH(self) -> None:
        """Answer."""
        self.do_GET()

    def do_DELETE(self) -> None:
        """Answer."""
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def _send(self, answer: Answer) -> None:
        is_text = isinstance(answer.document, str)
        text = str(answer.document) if is_text else json.dumps(answer.document) + "\n"
        body = text.encode()
        self.send_response(answer.code)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Iterator[JSON]) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for event in events:
            self._chunk(json.dumps(event).encode() + b"\n")
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

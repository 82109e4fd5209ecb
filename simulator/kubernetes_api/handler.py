"""The HTTP side of a request: headers, bodies, watches in chunks, and faults on order."""

import json
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Final

from simulator.kubernetes_api import orders
from simulator.kubernetes_api.answering import (
    Answer,
    Answerer,
    Request,
    refusal_answer,
)
from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.orders import Order, Orders
from simulator.kubernetes_api.routing import asked_of
from simulator.kubernetes_api.users import certified_user

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
        if order is not None and not self._is_honest(order):
            return
        answer = self.server.answerer.answer(
            Request(
                method=self.command,
                target=self.path,
                headers={key.lower(): value for key, value in self.headers.items()},
                body=body,
                certified=certified_user(self.connection),
            )
        )
        if answer.events is not None:
            self._stream(answer.events, order)
        else:
            self._send(answer, order)

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

    def _is_honest(self, order: Order) -> bool:
        """Do what an order says before any answer; whether an answer is to follow."""
        faults = self.server.faults
        if order.kind == orders.ANSWER and order.error is not None:
            self._send(refusal_answer(order.error), None)
            return False
        if order.kind == orders.STALL:
            if asked_of(self.command, self.path).verb == "watch":
                self._begin_stream()
            faults.hold(order.seconds)
            self.close_connection = True
            return False
        if order.kind == orders.DELAY:
            faults.pause(order.seconds)
        return True

    def _send(self, answer: Answer, order: Order | None) -> None:
        is_text = isinstance(answer.document, str)
        text = str(answer.document) if is_text else json.dumps(answer.document) + "\n"
        body = text.encode()
        kind = order.kind if order is not None else ""
        if kind == orders.GARBAGE:
            body = orders.GARBAGE_BYTES
        self.send_response(answer.code)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers:
            self.send_header(name, value)
        self.end_headers()
        if kind == orders.CUT:
            self.close_connection = True
            body = body[: len(body) // 2]
        self.wfile.write(body)

    def _begin_stream(self) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def _stream(self, events: Iterator[JSON], order: Order | None) -> None:
        self._begin_stream()
        kind = order.kind if order is not None else ""
        if order is not None and kind in {orders.CUT, orders.GARBAGE}:
            for event in islice(events, order.events):
                self._chunk(_line(event))
        if kind == orders.GARBAGE:
            self._chunk(orders.GARBAGE_BYTES)
        for event in events:
            if kind == orders.CUT:
                line = _line(event)
                self._chunk(line[: len(line) // 2])
                # Without a last chunk: the client sees the connection break.
                self.close_connection = True
                return
            self._chunk(_line(event))
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def _line(event: JSON) -> bytes:
    return json.dumps(event).encode() + b"\n"

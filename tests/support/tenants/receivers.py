"""Real receivers on this machine: one that takes POSTs, and one that takes mails."""

import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


@dataclass
class Post:
    """One POST as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """A receiver that answers what it is reported to.

    Attributes:
        answer: The bytes it answers, or None to answer nothing and wait.
    """

    port: int = 0
    answer: bytes | None = b"HTTP/1.1 204 No Content\r\n\r\n"
    posts: list[Post] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


@contextmanager
def receiving(*, certificate: Path | None = None) -> Iterator[Receiver]:
    """Run a receiver on a free port, over TLS where there is a certificate."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            receiver.posts.append(
                Post(self.path, dict(self.headers), self.rfile.read(length)),
            )
            if receiver.answer is None:
                receiver.released.wait(timeout=10)
                return
            self.wfile.write(receiver.answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(socketserver.ThreadingMixIn, HTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that hangs up is part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


class MailHandler(socketserver.StreamRequestHandler):
    """As much of SMTP as it takes to be handed a mail. Source: RFC 5321."""

    def handle(self) -> None:
        self._say(b"220 receiver")
        while line := self.rfile.readline():
            verb = line[:4].upper().strip()
            if verb == b"DATA":
                self._say(b"354 go on")
                self._keep()
            self._say({b"QUIT": b"221 bye", b"RCPT": self.server.answer}.get(verb, b"250 ok"))  # type: ignore[attr-defined]
            if verb == b"QUIT":
                return

    def _say(self, line: bytes) -> None:
        self.wfile.write(line + b"\r\n")

    def _keep(self) -> None:
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line.removeprefix(b"."))
        self.server.mails.append(b"".join(lines))  # type: ignore[attr-defined]


class MailServer(socketserver.ThreadingTCPServer):
    """A mail server that keeps what it is handed."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), MailHandler)
        self.mails: list[bytes] = []
        self.answer = b"250 ok"


@contextmanager
def mailbox() -> Iterator[MailServer]:
    """Run a mail server on a free port."""
    server = MailServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)


def make_certificate(folder: Path, *, host: str = "localhost") -> Path:
    """Return a file with a key and a certificate of a host, signed by itself."""
    path = folder / f"{host}.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={host}"),
            *("-addext", f"subjectAltName=DNS:{host}"),
            *("-keyout", str(path), "-out", str(folder / f"{host}.crt")),
        ],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + (folder / f"{host}.crt").read_text())
    return path

"""A small HTTPS server that answers as reported, byte by byte, and the objects it shows of."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from metering.adapters.kubernetes import KubernetesClusterWatch
from metering.protocols.watch import WatchTarget
from simulator.kubernetes_api import write_kubeconfig
from simulator.kubernetes_api.access import make_identity
from tests.support.references import reference_to

NOW = datetime(2026, 10, 5, 12, 0, 0, tzinfo=UTC)
GPU = "nvidia.com/gpu"
JSON = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One answer: its pieces are sent one after another, each as a chunk of its own.

    Attributes:
        is_cut: The connection is closed without the end of the body.
        stalls: Nothing more comes, and the connection stays.
    """

    pieces: tuple[bytes, ...] = ()
    code: int = 200
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False
    stalls: bool = False


@dataclass
class Reported:
    """What the server answers, first answer first and the last one for ever; what it was asked."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str], str]] = field(default_factory=list)
    kubeconfig: Path = Path()
    release: threading.Event = field(default_factory=threading.Event)

    def target(self, **fields: Any) -> WatchTarget:  # noqa: ANN401 - Of a target.
        reference = reference_to(self.kubeconfig)
        return WatchTarget("hopper", credential_reference=reference, **fields)

    def write(self, answer: Answer, stream: BufferedIOBase) -> bool:
        """Send a body, and return whether the connection is still good."""
        stream.writelines(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in answer.pieces)
        if answer.stalls:
            self.release.wait(timeout=30)
        if answer.is_cut or answer.stalls:
            return False
        stream.write(b"0\r\n\r\n")
        return True

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def _handler(reported: Reported) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            authorization = self.headers.get("Authorization", "")
            reported.asked.append((parts.path, dict(parse_qsl(parts.query)), authorization))
            answer = reported.next_answer()
            self.send_response(answer.code)
            self.send_header("Content-Type", answer.content_type)
            for name, text in answer.headers:
                self.send_header(name, text)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.close_connection = not reported.write(answer, self.wfile)

        def handle(self) -> None:
            try:
                super().handle()
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


@contextmanager
def canned_api(folder: Path) -> Iterator[Reported]:
    """Run a server; yield what it is reported and was asked."""
    reported = Reported()
    identity = make_identity(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(reported))
    server.daemon_threads = True
    server.socket = identity.server_context().wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    (folder / "ca.pem").write_text(identity.authority_pem)
    reported.kubeconfig = write_kubeconfig(
        folder / "kubeconfig",
        url=f"https://127.0.0.1:{server.server_address[1]}",
        authority_pem=identity.authority_pem,
        token="sesame",
    )
    yield reported
    reported.release.set()
    server.shutdown()
    server.server_close()
    thread.join()


def make_watch(
    *,
    stall_seconds: float = 20,
    page_objects: int = 500,
    clock: Callable[[], datetime] = lambda: NOW,
) -> KubernetesClusterWatch:
    """Return the adapter under test with a clock that stands still."""
    return KubernetesClusterWatch(
        stall_seconds=stall_seconds, page_objects=page_objects, clock=clock
    )


def pod(uid: str = "uid-1", *, version: str = "11", **spec: Any) -> JSON:  # noqa: ANN401 - Raw JSON.
    """Return a raw pod with one GPU that waits for a node."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "uid": uid,
            "name": f"pod-{uid}",
            "namespace": "llm",
            "resourceVersion": version,
            "creationTimestamp": "2026-10-05T11:00:00Z",
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {GPU: "1"}}}],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


def event(change: str = "ADDED", obj: object = None) -> bytes:
    """Return one line of a watch."""
    return json.dumps({"type": change, "object": pod() if obj is None else obj}).encode() + b"\n"


def bookmark(version: str = "99") -> bytes:
    """Return a bookmark of pods."""
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


def page(
    *items: object, version: str | None = "50", token: str = "", kind: str = "PodList"
) -> Answer:
    """Return a list, or a page of one."""
    metadata: JSON = {} if version is None else {"resourceVersion": version}
    if token:
        metadata["continue"] = token
    document = {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": list(items)}
    return Answer((json.dumps(document).encode(),))


# NOIMPORT

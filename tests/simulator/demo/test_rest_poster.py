"""What the demo sends over HTTP, and what it makes of the answers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from simulator.demo.asking import DemoRefusedError, rest_poster

PROBLEM = '{"status": 409, "detail": "The limit is 10 now."}'


class Heard:
    """A server that answers what it is reported to, and remembers what it was sent."""

    def __init__(self) -> None:
        self.status, self.text = 201, '{"id": "7"}'
        self.requests: list[dict[str, Any]] = []
        heard = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                names = ("Authorization", "Content-Type", "Idempotency-Key")
                found = {name: self.headers[name] for name in names}
                heard.requests.append({"path": self.path, "body": json.loads(body), **found})
                self.send_response(heard.status)
                self.end_headers()
                self.wfile.write(heard.text.encode())

            def log_message(self, *_: object) -> None:
                """Stay quiet."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    thread = threading.Thread(target=heard.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield heard
    heard.server.shutdown()
    thread.join()
    heard.server.server_close()


def post(heard: Heard) -> dict[str, Any]:
    return rest_poster(heard.url)("quota-requests/", token="gl_1", key="demo-ask", body={"n": 1})


def test_a_post_bears_its_token_and_its_key(heard: Heard) -> None:
    assert post(heard) == {"id": "7"}

    assert heard.requests == [
        {
            "path": "/api/v1/quota-requests/",
            "body": {"n": 1},
            "Authorization": "Bearer gl_1",
            "Content-Type": "application/json",
            "Idempotency-Key": "demo-ask",
        }
    ]


def test_a_refusal_is_raised_with_its_status_and_its_sentence(heard: Heard) -> None:
    heard.status, heard.text = 409, PROBLEM

    with pytest.raises(DemoRefusedError) as refused:
        post(heard)

    assert (refused.value.status, refused.value.sentence) == (409, "The limit is 10 now.")
    assert str(refused.value) == f"{heard.url}/api/v1/quota-requests/: 409 {PROBLEM}"

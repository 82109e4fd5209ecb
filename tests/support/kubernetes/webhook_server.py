"""A webhook of one's own: HTTPS on this machine, with an authority made for it."""

import base64
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from simulator.kubernetes_api.access import HOST, make_identity

Body = dict[str, Any]
Rule = Callable[[Body], Body]
HOLD_SECONDS = 10


def allow(request: Body) -> Body:
    return {"uid": request["uid"], "allowed": True}


def deny(message: str = "", code: int | None = None) -> Rule:
    status = {**({"message": message} if message else {}), **({"code": code} if code else {})}

    def rule(request: Body) -> Body:
        reported = {"status": status} if status else {}
        return {"uid": request["uid"], "allowed": False, **reported}

    return rule


def patching(*operations: Body) -> Rule:
    def rule(request: Body) -> Body:
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        return {**allow(request), "patchType": "JSONPatch", "patch": patch}

    return rule


class WebhookServer:
    """Answers AdmissionReviews, and remembers the requests in them.

    Attributes:
        rule: What it answers, from a request to a response; may be changed at any time.
        seen: The requests, oldest first.
        url: Where it is; its certificate is for `name`, or for that host.
        code: Of its answers over HTTP.
        version: Of its answers; "" for the one it was asked in.
        released: Lets go of what `hold` holds.
    """

    def __init__(self, folder: Path, host: str, *, name: str = "", trusting: str = "") -> None:
        self.rule: Rule = allow
        self.seen: list[Body] = []
        self.code = 200
        self.version = ""
        self.released = threading.Event()
        identity = make_identity(folder, host=name or host)
        self.authority = base64.b64encode(identity.authority_pem.encode()).decode()
        self._server = ThreadingHTTPServer((host if host == HOST else "", 0), self._handler())
        self._server.daemon_threads = True
        tls = identity.server_context()
        # Without an authority to believe, nobody is asked who they are.
        tls.verify_mode = ssl.CERT_NONE
        if trusting:
            tls.verify_mode = ssl.CERT_REQUIRED
            tls.load_verify_locations(cadata=trusting)
        self._server.socket = tls.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self._server.server_address[1]
        self.url = f"https://{host}:{self.port}/review"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )
        self._thread.start()

    def hold(self, request: Body) -> Body:
        """Answer only once it is released: later than any client waits."""
        self.released.wait(HOLD_SECONDS)
        return allow(request)

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    self.close_connection = True

            def do_POST(self) -> None:
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                request = review["request"]
                webhook.seen.append(request)
                response = webhook.rule(request)
                version = webhook.version or review["apiVersion"]
                answer = {"apiVersion": version, "kind": review["kind"], "response": response}
                body = json.dumps(answer).encode()
                self.send_response(webhook.code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        return Handler

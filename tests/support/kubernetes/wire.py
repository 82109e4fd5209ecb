"""Requests as they are, for kinds and versions that the official client types otherwise."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import urllib3

MERGE = "application/merge-patch+json"
CONNECT_SECONDS = 10
READ_SECONDS = 60
Body = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """What came back; header names are compared without case."""

    code: int
    body: Body
    headers: Any = field(default_factory=dict)

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Wire:
    """A client that adds nothing but the credentials of a kubeconfig."""

    def __init__(self, configuration: Any, token: str = "") -> None:  # noqa: ANN401 - Untyped there.
        self._configuration = configuration
        self.url: str = configuration.host
        certificates = (
            {}
            if token
            else {
                "cert_file": configuration.cert_file,
                "key_file": configuration.key_file,
            }
        )
        self._pool = urllib3.PoolManager(
            ca_certs=configuration.ssl_ca_cert,
            cert_reqs="CERT_REQUIRED" if configuration.verify_ssl else "CERT_NONE",
            timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
            retries=False,
            **certificates,
        )
        known = next(iter(configuration.api_key.values()), "")
        authorization = f"Bearer {token}" if token else known
        self._headers = {"User-Agent": "gpu-ledger-contract"}
        if authorization:
            self._headers["Authorization"] = authorization

    def as_token(self, token: str) -> "Wire":
        """Return a client of the same server for somebody else."""
        return Wire(self._configuration, token)

    def get(self, path: str, **query: object) -> Reply:
        return self.ask("GET", path, None, "application/json", query)

    def post(self, path: str, body: object, **query: object) -> Reply:
        return self.ask("POST", path, body, "application/json", query)

    def put(self, path: str, body: object, **query: object) -> Reply:
        return self.ask("PUT", path, body, "application/json", query)

    def patch(self, path: str, body: object, kind: str = MERGE, **query: object) -> Reply:
        return self.ask("PATCH", path, body, kind, query)

    def delete(self, path: str, body: object = None, **query: object) -> Reply:
        return self.ask("DELETE", path, body, "application/json", query)

    def ask(
        self, method: str, path: str, body: object, kind: str, query: dict[str, object]
    ) -> Reply:
        answer = self._pool.request(
            method,
            self._target(path, query),
            body=None if body is None else json.dumps(body).encode(),
            headers={**self._headers, "Content-Type": kind, "Accept": "application/json"},
        )
        text = answer.data.decode()
        is_json = text.lstrip().startswith("{")
        return Reply(answer.status, json.loads(text) if is_json else {"text": text}, answer.headers)

    def watch(self, path: str, *, seconds: int = 1, **query: object) -> Iterator[Body]:
        """Yield what a watch shows until the server ends it."""
        query = {"watch": "true", "timeoutSeconds": seconds, **query}
        answer = self._pool.request(
            "GET",
            self._target(path, query),
            headers=self._headers,
            preload_content=False,
        )
        assert answer.status == 200, answer.data
        try:
            for line in answer:
                yield json.loads(line)
        finally:
            answer.release_conn()

    def _target(self, path: str, query: dict[str, object]) -> str:
        return f"{self.url}{path}" + (f"?{urlencode(query)}" if query else "")

"""One call of a webhook: HTTPS to its URL, trusting its own authority, within its own time."""

import base64
import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.places import Place, place_of
from simulator.kubernetes_api.reviews import ADMISSION_VERSION
from simulator.kubernetes_api.store import ObjectStore

ANSWER_BYTES_MAX: Final = 3 * 1024 * 1024
TIMEOUT_SECONDS: Final = 10


class CallError(Exception):
    """A webhook that cannot be asked, or answers what is no answer; its failurePolicy decides."""


@dataclass(frozen=True)
class Verdict:
    """What a webhook says.

    Attributes:
        status: Its Status for a refusal.
        patch: JSON patch operations; empty for none.
        warnings: For the client, one header each.
    """

    is_allowed: bool
    status: JSON
    patch: list[JSON]
    warnings: tuple[str, ...] = ()


class _Connection(http.client.HTTPSConnection):
    """A connection to an address, with the certificate of a name."""

    def __init__(self, place: Place, *, timeout: int, tls: ssl.SSLContext) -> None:
        """Keep the place; nothing is connected yet."""
        super().__init__(place.name, place.address[1], timeout=timeout, context=tls)
        self._address = place.address
        self._tls = tls

    def connect(self) -> None:
        """Connect."""
        plain = socket.create_connection(self._address, self.timeout)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


def call_webhook(store: ObjectStore, webhook: JSON, request: JSON) -> Verdict:
    """Ask a webhook.

    Args:
        store: Where Services are.
        webhook: As it stands in its configuration.
        request: Of the AdmissionReview.

    Raises:
        CallError: No answer, too late, or none that can be understood.
    """
    review = {"kind": "AdmissionReview", "apiVersion": ADMISSION_VERSION, "request": request}
    try:
        place = place_of(store, webhook["clientConfig"])
        tls = _trusting(webhook["clientConfig"].get("caBundle"), proof=store.client_certificate)
        return _verdict(_post(place, webhook, review, tls), request["uid"])
    except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
        raise CallError(f"failed to call webhook: {error}") from error


def _trusting(bundle: str | None, *, proof: tuple[Path, Path] | None) -> ssl.SSLContext:
    """Return what a call is made with: whom it believes, and what it shows of itself."""
    tls = ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)
    if proof is not None:
        tls.load_cert_chain(*proof)
    return tls


def _post(place: Place, webhook: JSON, review: JSON, tls: ssl.SSLContext) -> Any:  # noqa: ANN401 - JSON is any value.
    seconds = webhook.get("timeoutSeconds", TIMEOUT_SECONDS)
    connection = _Connection(place, timeout=seconds, tls=tls)
    try:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        path = f"{place.path}?timeout={seconds}s"
        connection.request("POST", path, json.dumps(review).encode(), headers)
        answer = connection.getresponse()
        body = answer.read(ANSWER_BYTES_MAX)
    finally:
        connection.close()
    if answer.status != HTTPStatus.OK:
        raise ValueError(f"the server answered {answer.status}")
    return json.loads(body)


def _verdict(review: Any, uid: str) -> Verdict:  # noqa: ANN401 - JSON is any value.
    """Return what an answer says; it must be of the version that asked, and of the same uid."""
    if not isinstance(review, dict) or not isinstance(review.get("response"), dict):
        raise TypeError("webhook response was absent")
    told = (review.get("apiVersion"), review.get("kind"))
    if told != (ADMISSION_VERSION, "AdmissionReview"):
        raise ValueError(f"expected webhook response of {ADMISSION_VERSION}, got {told}")
    response = review["response"]
    if response.get("uid") != uid:
        raise ValueError(f'expected response.uid="{uid}", got "{response.get("uid")}"')
    patch = response.get("patch")
    if (patch is None) is not (response.get("patchType") is None):
        raise ValueError("webhook returned response.patch or response.patchType without the other")
    if patch is not None and response["patchType"] != "JSONPatch":
        raise ValueError(f"unexpected patch type {response['patchType']}")
    return Verdict(
        is_allowed=response.get("allowed") is True,
        status=response.get("status") or {},
        patch=json.loads(base64.b64decode(patch, validate=True)) if patch is not None else [],
        warnings=tuple(str(one) for one in response.get("warnings") or []),
    )

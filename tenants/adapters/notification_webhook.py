"""Notifications by webhook: one signed POST of JSON.

`X-GPU-Ledger-Signature: t=<unix seconds>,v1=<hex>`, where v1 is HMAC-SHA256 of "<t>.<body>" under
the endpoint's secret. A receiver compares it in constant time, refuses a `t` older than five
minutes, and knows a repeated event by its id.
"""

import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable
from typing import Any, Final

from tenants.adapters.guarded import GuardedPoster
from tenants.domain.errors import SourceUnavailableError
from tenants.protocols import OutgoingNotification

SIGNATURE_HEADER: Final = "X-GPU-Ledger-Signature"
_ENVIRONMENT: Final = "env:"
_TAKEN: Final = range(200, 300)


class WebhookSender:
    """Posts to webhooks."""

    def __init__(self, *, poster: GuardedPoster, clock: Callable[[], float] = time.time) -> None:
        """Keep the HTTP client and the clock for signatures."""
        self.poster = poster
        self.clock = clock

    def send(self, notification: OutgoingNotification) -> None:
        """Post it; any 2xx status means accepted.

        Raises:
            SourceUnavailableError: Its secret is missing, or it was not accepted.
        """
        secret = _secret(notification.secret_reference)
        body = body_of(notification)
        status = self.poster.post(
            notification.address,
            body=body,
            headers={
                "Content-Type": "application/json",
                "User-Agent": "gpu-ledger",
                "X-GPU-Ledger-Event": notification.event,
                "X-GPU-Ledger-Event-Id": str(notification.event_id),
                SIGNATURE_HEADER: signature(body, secret=secret, unix_seconds=int(self.clock())),
            },
        )
        if status not in _TAKEN:
            raise SourceUnavailableError(f"It answered {status}.", reason=f"status_{status}")


def guarded_webhook_sender(**options: Any) -> WebhookSender:  # noqa: ANN401 - As the poster takes them.
    """Return a sender that posts as `GuardedPoster` with these options allows."""
    return WebhookSender(poster=GuardedPoster(**options))


def body_of(notification: OutgoingNotification) -> bytes:
    """Return the JSON a receiver gets; the same at every attempt."""
    document = {
        "id": str(notification.event_id),
        "event": notification.event,
        "occurred_at": notification.occurred_at.isoformat(),
        "organization": notification.organization or None,
        "subject": notification.subject,
        "text": notification.text,
        "facts": dict(notification.facts),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


def signature(body: bytes, *, secret: bytes, unix_seconds: int) -> str:
    """Return the value of the signature's header."""
    signed = f"{unix_seconds}.".encode("ascii") + body
    digest = hmac.new(secret, signed, hashlib.sha256).hexdigest()
    return f"t={unix_seconds},v1={digest}"


def _secret(reference: str) -> bytes:
    secret = os.environ.get(reference.removeprefix(_ENVIRONMENT), "")
    if not reference.startswith(_ENVIRONMENT) or not secret:
        raise SourceUnavailableError(
            "The variable that holds its secret is not set.", reason="secret_missing"
        )
    return secret.encode("utf-8")

"""Notifications by webhook: one POST of JSON, signed as Standard Webhooks has it.

`webhook-signature` is `v1,` and base64 of HMAC-SHA256 of "<webhook-id>.<webhook-timestamp>.<body>",
once for each secret. Source: Standard Webhooks 1.0.0, standardwebhooks.com.
"""

import hashlib
import hmac
import json
import os
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final

from tenants.adapters.guarded import GuardedPoster
from tenants.domain.errors import SourceUnavailableError
from tenants.domain.notifications import signing_keys
from tenants.protocols import OutgoingNotification

_ENVIRONMENT: Final = "env:"
TAKEN: Final = range(200, 300)
"""Statuses by which a receiver accepts."""


class WebhookSender:
    """Posts to webhooks."""

    def __init__(self, *, poster: GuardedPoster, clock: Callable[[], float] = time.time) -> None:
        """Keep the HTTP client and the clock for signatures."""
        self.poster = poster
        self.clock = clock

    def send(self, notification: OutgoingNotification) -> None:
        """Post it; any 2xx status means accepted.

        Raises:
            SourceUnavailableError: Its secret is missing or wrong, or it was not accepted.
        """
        keys = _keys(notification.secret_reference)
        body, unix_seconds = body_of(notification), int(self.clock())
        status = self.poster.post(
            notification.address,
            body=body,
            headers={
                "Content-Type": "application/json",
                "User-Agent": "gpu-ledger",
                **signature_headers(
                    body,
                    message_id=str(notification.event_id),
                    keys=keys,
                    unix_seconds=unix_seconds,
                ),
            },
        )
        if status not in TAKEN:
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


def signature_headers(
    body: bytes, *, message_id: str, keys: Sequence[bytes], unix_seconds: int
) -> dict[str, str]:
    """Return the headers by which a receiver knows sender, event and age of a body."""
    signed = f"{message_id}.{unix_seconds}.".encode("ascii") + body
    digests = (b64encode(hmac.new(key, signed, hashlib.sha256).digest()) for key in keys)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(unix_seconds),
        "webhook-signature": " ".join(f"v1,{digest.decode('ascii')}" for digest in digests),
    }


def _keys(reference: str) -> tuple[bytes, ...]:
    value = os.environ.get(reference.removeprefix(_ENVIRONMENT), "")
    if not reference.startswith(_ENVIRONMENT) or not value:
        raise SourceUnavailableError(
            "The variable that holds its secret is not set.", reason="secret_missing"
        )
    try:
        return signing_keys(value)
    except ValueError:
        raise SourceUnavailableError(
            "The variable of its secret holds another form of secret.", reason="secret_invalid"
        ) from None

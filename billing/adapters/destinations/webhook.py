"""Export files by webhook: a signed POST says which file is ready, and where it is downloaded.

The body has no content: a receiver that is away would get gigabytes again and again. Source of the
signature: Standard Webhooks 1.0.0.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from billing.adapters.destinations import secret_of
from billing.protocols import ExportPlace, OutgoingFile
from tenants.adapters.guarded import GuardedPoster
from tenants.adapters.notification_webhook import TAKEN, signature_headers
from tenants.domain.errors import SourceUnavailableError
from tenants.domain.notifications import signing_keys


class WebhookDestination:
    """Posts to webhooks as `GuardedPoster` with these options allows."""

    def __init__(
        self,
        *,
        public_url: str,
        clock: Callable[[], float] = time.time,
        **guard: Any,  # noqa: ANN401 - As the poster takes them.
    ) -> None:
        """Keep the address of the API and the HTTP client.

        Args:
            public_url: Without a slash at its end.
            clock: For signatures.
            guard: Of `GuardedPoster`.
        """
        self.public_url = public_url
        self.clock = clock
        self.poster = GuardedPoster(**guard)

    def deliver(self, file: OutgoingFile) -> None:
        """Post that a file is ready.

        Raises:
            SourceUnavailableError: Its secret is missing or wrong, or it was not accepted.
        """
        body = self.body_of(file)
        status = self.poster.post(
            file.address,
            body=body,
            headers={
                "Content-Type": "application/json",
                "User-Agent": "gpu-ledger",
                **signature_headers(
                    body,
                    message_id=str(file.file_id),
                    keys=_keys(file.secret_reference),
                    unix_seconds=int(self.clock()),
                ),
            },
        )
        if status not in TAKEN:
            raise SourceUnavailableError(f"It answered {status}.", reason=f"status_{status}")

    def check(self, place: ExportPlace) -> None:
        """Read the secret, and connect to a webhook; nothing is posted.

        Raises:
            SourceUnavailableError: Its secret is missing or wrong, or it cannot be reached.
        """
        _keys(place.secret_reference)
        self.poster.reach(place.address)

    def body_of(self, file: OutgoingFile) -> bytes:
        """Return the JSON a receiver gets; the same at every attempt."""
        path = f"/api/v1/export-files/{file.file_id}/content/"
        document = {
            "id": str(file.file_id),
            "event": "billing:export:ready",
            "occurred_at": file.occurred_at.isoformat(),
            "run": str(file.run_id),
            "schedule": file.schedule,
            "month": file.month,
            "file": {
                "name": file.name,
                "content_type": file.content_type,
                "size": file.size,
                "sha256": file.sha256,
                "url": f"{self.public_url}{path}",
            },
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode("ascii")


def _keys(reference: str) -> tuple[bytes, ...]:
    try:
        return signing_keys(secret_of(reference))
    except ValueError:
        raise SourceUnavailableError(
            "The variable of the secret holds another form of secret.", reason="secret_invalid"
        ) from None

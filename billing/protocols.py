"""What billing needs from outside, as protocols."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol
from uuid import UUID

from billing.domain.ledger.batches import BatchFacts, ExportedEntry


class JournalLayout(Protocol):
    """How a general ledger wants journal entries."""

    @property
    def name(self) -> str:
        """What it is called in a request."""
        ...

    def render(self, batch: BatchFacts, entries: Sequence[ExportedEntry]) -> str:
        """Return the file's text: of the same entries always the same."""
        ...


@dataclass(frozen=True)
class ExportPlace:
    """Where files go, and what admits there.

    Attributes:
        address: A mail address, or the URL of a bucket, folder or webhook.
        secret_reference: `env:<NAME>` of the secret; "" where none is needed.
        host_key: The public key of an SFTP server; "" for others.
    """

    address: str
    secret_reference: str
    host_key: str


@dataclass(frozen=True)
class OutgoingFile:
    """A file of an export run, and where it goes.

    Attributes:
        file_id: The same at every attempt.
        path: Where its content is, while it is delivered.
        address: As of its place, like the next two.
        occurred_at: When the run was opened.
    """

    file_id: UUID
    run_id: UUID
    schedule: str
    month: str
    name: str
    content_type: str
    size: int
    sha256: str
    path: Path
    address: str
    secret_reference: str
    host_key: str
    occurred_at: datetime

    @property
    def place(self) -> ExportPlace:
        """Return where it goes."""
        return ExportPlace(self.address, self.secret_reference, self.host_key)


class ExportDestination(Protocol):
    """Delivers files to an address; the same file again replaces it under its name."""

    def deliver(self, file: OutgoingFile) -> None:
        """Deliver a file; it returns after the other side has all of it.

        Raises:
            SourceUnavailableError: It was not delivered; it is retried later.
        """
        ...

    def check(self, place: ExportPlace) -> None:
        """Reach a place and sign in there, as far as that is possible without writing anything.

        Raises:
            SourceUnavailableError: A file would not be delivered; `not_shown` where the other side
                lets the secret look at nothing.
        """
        ...

"""What billing needs from outside, as protocols."""

from collections.abc import Sequence
from typing import Protocol

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

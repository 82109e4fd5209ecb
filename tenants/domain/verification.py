"""Verification: what a check of the database is, and what one batch of it comes to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DIFFERENCES_KEPT_MAX: Final = 200
"""Of one run; beyond, only their number is kept: somebody has to look at the database anyway."""

Cursor = Mapping[str, Any]
"""JSON: how far a check has come; {} at its begin."""


@dataclass(frozen=True)
class Batch:
    """What one batch of a check came to.

    Attributes:
        count: How many rows it read.
        differences: One sentence each, naming what differs.
        cursor: From where the next batch goes on; None when nothing is left.
        facts: What a complete check leaves for the next run.
    """

    count: int
    differences: tuple[str, ...] = ()
    cursor: Cursor | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_last(self) -> bool:
        """Whether nothing of the check is left."""
        return self.cursor is None


Check = Callable[[Cursor], Batch]
"""Reads one batch after a cursor; it keeps nothing in the session and changes nothing."""

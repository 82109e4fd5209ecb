"""Verification: checks of the database, and the result of one batch."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DIFFERENCES_KEPT_MAX: Final = 200
"""Of one run; beyond, only their number is kept: somebody has to look at the database anyway."""

Cursor = Mapping[str, Any]
"""JSON: how far a check has come; {} at its begin."""


@dataclass(frozen=True)
class CheckedBatch:
    """The result of one batch of a check.

    Attributes:
        count: How many rows it read.
        differences: One sentence each, naming what differs.
        cursor: Where the next batch begins; None after the last.
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


Check = Callable[[Cursor], CheckedBatch]
"""Reads one batch after a cursor; it keeps nothing in the session and changes nothing."""


def differences_of(name: str, compare: Callable[[], Iterable[str]]) -> list[str]:
    """Return in what a row differs; one that cannot be read differs, and hides no other row.

    Args:
        name: Of the row, as a sentence begins.
        compare: Returns how the sentence goes on, for each difference.
    """
    try:
        return [f"{name} {sentence}." for sentence in compare()]
    except Exception as error:  # noqa: BLE001 - An attacker may have written anything.
        return [f"{name} cannot be read: {type(error).__name__}."]

"""Repairs of a quota that others delete or change: how often, and when the next one may be."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

REPAIRS_MAX: Final = 3
REPAIRS_WITHIN: Final = timedelta(minutes=10)
"""A person deletes a quota once; a GitOps controller that prunes it does so at each sync."""


def next_repair_at(repaired_at: Sequence[str], *, at: datetime) -> datetime:
    """Return when a quota may be repaired again: now, or once the oldest repair is long ago.

    Args:
        repaired_at: The last repairs, oldest first, as ISO 8601 text.
        at: Now.
    """
    recent = recent_repairs(repaired_at, at=at)
    if len(recent) < REPAIRS_MAX:
        return at
    return datetime.fromisoformat(recent[-REPAIRS_MAX]) + REPAIRS_WITHIN


def recent_repairs(repaired_at: Sequence[str], *, at: datetime) -> list[str]:
    """Return the repairs that count at a time, oldest first."""
    return [text for text in repaired_at if datetime.fromisoformat(text) > at - REPAIRS_WITHIN]

"""Where a grant stands at a time."""

from datetime import datetime
from enum import StrEnum


class GrantState(StrEnum):
    """What a grant is at a time."""

    COMING = "coming"
    IN_FORCE = "in_force"
    OVER = "over"
    CANCELLED = "cancelled"
    """Ended before it began."""


def grant_state(begin_at: datetime | None, end_at: datetime | None, *, at: datetime) -> GrantState:
    """Return where a grant stands; one without a begin was cancelled."""
    if begin_at is None:
        return GrantState.CANCELLED
    if at < begin_at:
        return GrantState.COMING
    return GrantState.IN_FORCE if end_at is None or at < end_at else GrantState.OVER

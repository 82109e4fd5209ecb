"""Where a protected window stands at a time."""

from datetime import datetime
from enum import StrEnum


class WindowState(StrEnum):
    """What a protected window is at a time."""

    COMING = "coming"
    IN_FORCE = "in_force"
    OVER = "over"
    CANCELLED = "cancelled"
    """Taken back before it began."""


def window_state(
    begin_at: datetime | None,
    end_at: datetime | None,
    cancelled_at: datetime | None,
    *,
    at: datetime,
) -> WindowState:
    """Return where a protected window stands; one of an older version may have lost its times."""
    if cancelled_at is not None or begin_at is None or end_at is None:
        return WindowState.CANCELLED
    if at < begin_at:
        return WindowState.COMING
    return WindowState.IN_FORCE if at < end_at else WindowState.OVER

"""Where a protected window stands at a time."""

from datetime import datetime
from enum import StrEnum
from typing import Protocol


class WindowState(StrEnum):
    """What a protected window is at a time."""

    COMING = "coming"
    IN_FORCE = "in_force"
    OVER = "over"
    CANCELLED = "cancelled"
    """Taken back before it began."""


class Times(Protocol):
    """A range of times, as the database has it; an empty one has neither bound."""

    lower: datetime | None
    upper: datetime | None


def window_state(valid: Times, cancelled_at: datetime | None, *, at: datetime) -> WindowState:
    """Return where a protected window stands; one of an older version may have lost its times."""
    if cancelled_at is not None or valid.lower is None or valid.upper is None:
        return WindowState.CANCELLED
    if at < valid.lower:
        return WindowState.COMING
    return WindowState.IN_FORCE if at < valid.upper else WindowState.OVER

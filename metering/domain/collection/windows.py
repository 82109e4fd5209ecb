"""Windows: one UTC hour of one cluster, when each is due, and which state may follow which."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

WINDOW: Final = timedelta(hours=1)
_SECOND: Final = timedelta(seconds=1)
SCRAPES_AFTER_END: Final = 4
"""Scrapes that must lie between a window's end and its query, so that presence after it is
observed."""


def window_containing(moment: datetime) -> datetime:
    """Return the start of the hour a moment lies in.

    Raises:
        ValueError: The moment has no zone.
    """
    if moment.tzinfo is None:
        raise ValueError("a window needs a time with a zone")
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def end_of(start_at: datetime) -> datetime:
    """Return the end of a window, which no longer belongs to it."""
    return start_at + WINDOW


def whole_hours(begin_at: datetime, *, until: datetime) -> tuple[datetime, ...]:
    """Return the start of every UTC hour that [begin_at, until) touches, oldest first.

    Raises:
        ValueError: A time has no zone.
    """
    if until.tzinfo is None:
        raise ValueError("a window needs a time with a zone")
    first = window_containing(begin_at)
    count = max(0, -((first - until) // WINDOW))
    return tuple(first + number * WINDOW for number in range(count))


def due_at(start_at: datetime, *, lateness_seconds: int, scrape_interval_seconds: int) -> datetime:
    """Return when a window may first be collected."""
    wait = max(lateness_seconds, SCRAPES_AFTER_END * scrape_interval_seconds)
    return end_of(start_at) + timedelta(seconds=wait)


def whole_second(moment: datetime) -> datetime:
    """Return a moment without its fraction of a second, rounded down."""
    return moment.replace(microsecond=0) if moment.microsecond else moment


def seconds_between(begin_at: datetime, end_at: datetime) -> int:
    """Return the whole seconds from one moment to a later one, rounded down; 0 if not later."""
    return max(0, (end_at - begin_at) // _SECOND)


class WindowState(StrEnum):
    """How far an hour's metering has come. `gap` and `quarantined` wait for a person."""

    OPEN = "open"
    COLLECTING = "collecting"
    COLLECTED = "collected"
    RECONCILED = "reconciled"
    SEALED = "sealed"
    GAP = "gap"
    QUARANTINED = "quarantined"


class DeviceState(StrEnum):
    """How far an hour's device figures have come, apart from its bill; the last two are final."""

    DUE = "due"
    COLLECTING = "collecting"
    SEALED = "sealed"
    UNAVAILABLE = "unavailable"


MOVES: Final[Mapping[WindowState, frozenset[WindowState]]] = {
    # A person may waive or re-meter an hour that is over its patience, in any state before.
    WindowState.OPEN: frozenset({WindowState.COLLECTING, WindowState.RECONCILED}),
    # Back to collecting is another worker taking over after the lease; back to open, a failure.
    WindowState.COLLECTING: frozenset(
        {
            WindowState.COLLECTING,
            WindowState.COLLECTED,
            WindowState.RECONCILED,
            WindowState.OPEN,
            WindowState.GAP,
            WindowState.QUARANTINED,
        }
    ),
    WindowState.COLLECTED: frozenset({WindowState.RECONCILED, WindowState.OPEN}),
    WindowState.RECONCILED: frozenset({WindowState.SEALED, WindowState.OPEN}),
    # A person accepts (open again) or waives (reconciled without usage).
    WindowState.GAP: frozenset({WindowState.OPEN, WindowState.RECONCILED}),
    WindowState.QUARANTINED: frozenset({WindowState.OPEN, WindowState.RECONCILED}),
    WindowState.SEALED: frozenset(),
}


def may_move(before: WindowState, *, after: WindowState) -> bool:
    """Whether a window in one state may come into another."""
    return after in MOVES[before]


def states_before(after: WindowState) -> tuple[WindowState, ...]:
    """Return the states from which a window may come into another, in the order of the enum."""
    return tuple(state for state in WindowState if after in MOVES[state])

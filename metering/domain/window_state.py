"""The moves of a window: which state may follow which."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


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
    # A person may waive or meter anew an hour that is over its patience, in any state before.
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

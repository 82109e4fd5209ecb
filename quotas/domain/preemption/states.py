"""States of preemption plans, of their steps and of protected windows."""

from datetime import datetime
from enum import StrEnum
from typing import Final


class PlanState(StrEnum):
    """State of a plan."""

    PLANNED = "planned"
    """Shown; nothing has been done in any cluster."""
    RUNNING = "running"
    DONE = "done"
    """Nothing is over any more."""
    STOPPED = "stopped"
    """By a person, or because nothing more can be done without one."""
    EXPIRED = "expired"
    """Too old to be true; another one is made."""


class StepState(StrEnum):
    """State of the step of one pod."""

    PLANNED = "planned"
    CLAIMED = "claimed"
    """A worker is at it, or died there: it is done again, which changes nothing the second time."""
    STARTED = "started"
    """The cluster accepted it: the pod is terminating, and holds its devices until deleted."""
    FREED = "freed"
    BLOCKED = "blocked"
    """The cluster does not allow it now; it is retried."""
    NEEDS_PERSON = "needs_person"
    NEEDLESS = "needless"
    """What was over is over no more."""


OPEN_PLANS: Final = frozenset({PlanState.PLANNED, PlanState.RUNNING})
DUE_STEPS: Final = frozenset({StepState.PLANNED, StepState.CLAIMED, StepState.BLOCKED})
"""Steps that a worker may take up."""
ENDED_STEPS: Final = frozenset({StepState.FREED, StepState.NEEDS_PERSON, StepState.NEEDLESS})

_MOVES: Final = {
    PlanState.PLANNED: frozenset({PlanState.RUNNING, PlanState.STOPPED, PlanState.EXPIRED}),
    PlanState.RUNNING: frozenset({PlanState.DONE, PlanState.STOPPED, PlanState.EXPIRED}),
}


def may_become(state: PlanState, target: PlanState) -> bool:
    """Whether a plan of a state may come into another."""
    return target in _MOVES.get(state, frozenset())


class ProtectionState(StrEnum):
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
) -> ProtectionState:
    """Return the state of a protected window; one of an older version may have lost its times."""
    if cancelled_at is not None or begin_at is None or end_at is None:
        return ProtectionState.CANCELLED
    if at < begin_at:
        return ProtectionState.COMING
    return ProtectionState.IN_FORCE if at < end_at else ProtectionState.OVER

"""Terms of a limit: its units, burst and monthly allowance; and when a grant is in force."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Final

from quotas.domain.limits.input import (
    limit_units_problems,
    overcommit_problems,
    unit_hours_problems,
    units_problems,
)
from tenants.domain.errors import FieldProblem


class Keep(Enum):
    """What is not said: a new limit gets the default, one that is set keeps its own."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


@dataclass(frozen=True)
class LimitTerms:
    """The terms of a limit that are set.

    Attributes:
        limit_units: Zero is none; None is unlimited.
        burst_units: What preemptible pods may hold beyond.
        overcommit_percent: How much of it may be promised to the level below, together.
        monthly_unit_hours: What may be used in a UTC month; None for any number.
    """

    limit_units: int | None
    burst_units: int | Keep = KEEP
    overcommit_percent: int | Keep = KEEP
    monthly_unit_hours: int | Keep | None = KEEP

    def problems(self) -> Iterator[FieldProblem]:
        """Yield every problem of the terms that are set."""
        yield from limit_units_problems(self.limit_units, field="limit_units")
        if self.burst_units is not KEEP:
            yield from units_problems(self.burst_units, field="burst_units")
        if self.overcommit_percent is not KEEP:
            yield from overcommit_problems(self.overcommit_percent)
        if self.monthly_unit_hours is not KEEP:
            yield from unit_hours_problems(self.monthly_unit_hours)

    def said(self) -> dict[str, Any]:
        """Return the terms that are set, by column."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not KEEP}


class GrantState(StrEnum):
    """What a grant is at a time."""

    COMING = "coming"
    IN_FORCE = "in_force"
    OVER = "over"
    CANCELLED = "cancelled"
    """Ended before it began."""


def grant_state(begin_at: datetime | None, end_at: datetime | None, *, at: datetime) -> GrantState:
    """Return the state of a grant; one without a begin was cancelled."""
    if begin_at is None:
        return GrantState.CANCELLED
    if at < begin_at:
        return GrantState.COMING
    return GrantState.IN_FORCE if end_at is None or at < end_at else GrantState.OVER

"""Terms of limits and grants: which sizes, units, times and texts are valid."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Final

from metering.domain.catalogue.units import GPUSize
from quotas.domain.errors import QuotaInputError
from tenants.domain.errors import FieldProblem

LIMIT_UNITS_MAX: Final = 1_000_000
"""Ten times the largest platform planned for (100,000 GPUs); more is a slip of the finger."""
OVERCOMMIT_PERCENT_MIN: Final = 100
OVERCOMMIT_PERCENT_MAX: Final = 1_000
UNIT_HOURS_MAX: Final = 744_000_000
"""Every unit of the largest limit for each hour of a month of 31 days."""
JUSTIFICATION_LENGTH_MAX: Final = 4_000
NOTE_LENGTH_MAX: Final = 4_000
"""About a page each: what a person reads before deciding."""


def units_problems(value: object, *, field: str) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a number of units; zero is right, and means none may be held."""
    if type(value) is int and 0 <= value <= LIMIT_UNITS_MAX:
        return ()
    message = f"Send a whole number of units from 0 to {LIMIT_UNITS_MAX}."
    return (FieldProblem(field=field, code="units_invalid", message=message),)


def limit_units_problems(value: object, *, field: str) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a limit's units; None is right, and means unlimited."""
    return () if value is None else units_problems(value, field=field)


def overcommit_problems(
    value: object, *, field: str = "overcommit_percent"
) -> tuple[FieldProblem, ...]:
    """Return what is wrong with how much of a limit may be promised to the level below."""
    if type(value) is int and OVERCOMMIT_PERCENT_MIN <= value <= OVERCOMMIT_PERCENT_MAX:
        return ()
    message = (
        f"Send a whole number of percent from {OVERCOMMIT_PERCENT_MIN} to "
        f"{OVERCOMMIT_PERCENT_MAX}; 100 promises every unit once."
    )
    return (FieldProblem(field=field, code="overcommit_invalid", message=message),)


def unit_hours_problems(
    value: object, *, field: str = "monthly_unit_hours"
) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a month's allowance; None is right, and means any number.

    Zero is refused: a limit of zero units says the same without a month's delay.
    """
    if value is None or (type(value) is int and 1 <= value <= UNIT_HOURS_MAX):
        return ()
    message = (
        f"Send a whole number of unit-hours from 1 to {UNIT_HOURS_MAX}, or null for any number; "
        "to allow nothing, set limit_units to 0."
    )
    return (FieldProblem(field=field, code="unit_hours_invalid", message=message),)


def size_problems(value: object, *, field: str = "size") -> tuple[FieldProblem, ...]:
    """Return what is wrong with the name of a size."""
    known = [size.value for size in GPUSize]
    if value in known:
        return ()
    message = f"Use one of: {', '.join(known)}."
    return (FieldProblem(field=field, code="size_unknown", message=message),)


def justification_problems(text: str, *, field: str = "justification") -> tuple[FieldProblem, ...]:
    """Return what is wrong with the reason of a request."""
    if not text.strip():
        message = "Say in a sentence what the units are needed for."
        return (FieldProblem(field=field, code="justification_missing", message=message),)
    return _length_problems(text, field=field, length_max=JUSTIFICATION_LENGTH_MAX)


def note_problems(text: str, *, field: str = "note") -> tuple[FieldProblem, ...]:
    """Return what is wrong with the note of a decision; it may be empty."""
    return _length_problems(text, field=field, length_max=NOTE_LENGTH_MAX)


def text_problems(text: str, *, field: str, length_max: int) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a text that must say something."""
    if not text.strip():
        return (FieldProblem(field=field, code="text_missing", message="Write something."),)
    return _length_problems(text, field=field, length_max=length_max)


def _length_problems(text: str, *, field: str, length_max: int) -> tuple[FieldProblem, ...]:
    problems = []
    if len(text) > length_max:
        message = f"Send at most {length_max} characters."
        problems.append(FieldProblem(field=field, code="text_too_long", message=message))
    if "\x00" in text:
        message = "Send text without NUL characters."
        problems.append(FieldProblem(field=field, code="text_has_nul", message=message))
    return tuple(problems)


def refuse_problems(problems: Iterable[FieldProblem]) -> None:
    """Raise one error with all problems, if there are any.

    Raises:
        QuotaInputError: There is at least one.
    """
    found = tuple(problems)
    if found:
        raise QuotaInputError(
            f"The input cannot be used: {found[0].field} is wrong.",
            field=found[0].field,
            problems=found,
        )


GRANT_HORIZON: Final = timedelta(days=1_830)
"""Five years: longer than hardware is kept; a later time is a slip of the finger."""


def grant_units_problems(value: object, *, field: str = "units") -> tuple[FieldProblem, ...]:
    """Return what is wrong with a grant's units; those below zero take units away."""
    if type(value) is int and value != 0 and abs(value) <= LIMIT_UNITS_MAX:
        return ()
    message = (
        f"Send a whole number of units from 1 to {LIMIT_UNITS_MAX}, or below zero to take units "
        "away for a time."
    )
    return (FieldProblem(field=field, code="grant_units_invalid", message=message),)


def span_problems(
    begin_at: datetime, end_at: datetime | None, *, at: datetime
) -> tuple[FieldProblem, ...]:
    """Return what is wrong with when a grant begins and ends; without an end it holds until ended.

    Args:
        begin_at: UTC; now, or later.
        end_at: UTC; after the begin.
        at: Now, UTC.
    """
    problems = []
    if begin_at < at:
        message = "Leave valid_from out to begin now, or name a time to come."
        problems.append(FieldProblem("valid_from", "begin_past", message))
    if begin_at > at + GRANT_HORIZON:
        problems.append(_too_far("valid_from", at=at))
    if end_at is not None:
        problems += _end_problems(begin_at, end_at, at=at)
    return tuple(problems)


def _end_problems(begin_at: datetime, end_at: datetime, *, at: datetime) -> list[FieldProblem]:
    if end_at <= at:
        message = "Name a time to come, or leave valid_until out for a grant without end."
        return [FieldProblem("valid_until", "end_past", message)]
    if end_at <= begin_at:
        message = "Name a time after valid_from."
        return [FieldProblem("valid_until", "end_before_begin", message)]
    if end_at > at + GRANT_HORIZON:
        return [_too_far("valid_until", at=at)]
    return []


def _too_far(field: str, *, at: datetime) -> FieldProblem:
    message = f"Name a time before {at + GRANT_HORIZON:%Y-%m-%d}, or set the limit itself."
    return FieldProblem(field, "time_too_far", message)


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

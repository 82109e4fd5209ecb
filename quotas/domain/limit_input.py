"""Input of limits, grants and requests: which sizes, units, times and words can be one."""

from collections.abc import Iterable
from typing import Final

from metering.domain.gpu_sizes import GPUSize
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
    """Refuse the input when there are problems, telling all of them.

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

"""Input of limits and requests: which sizes, units and words can be one."""

from collections.abc import Iterable
from typing import Final

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.errors import QuotaInputError
from tenants.domain.errors import FieldProblem

LIMIT_UNITS_MAX: Final = 1_000_000
"""Ten times the largest platform planned for (100,000 GPUs); more is a slip of the finger."""
JUSTIFICATION_LENGTH_MAX: Final = 4_000
NOTE_LENGTH_MAX: Final = 4_000
"""About a page each: what a person reads before deciding."""


def units_problems(value: object, *, field: str) -> tuple[FieldProblem, ...]:
    """Return what is wrong with a number of units; zero is right, and means none may be held."""
    if type(value) is int and 0 <= value <= LIMIT_UNITS_MAX:
        return ()
    message = f"Send a whole number of units from 0 to {LIMIT_UNITS_MAX}."
    return (FieldProblem(field=field, code="units_invalid", message=message),)


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

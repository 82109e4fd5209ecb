"""Input of grants: which signed units and which times can be one."""

from datetime import datetime, timedelta
from typing import Final

from quotas.domain.limit_input import LIMIT_UNITS_MAX
from tenants.domain.errors import FieldProblem

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

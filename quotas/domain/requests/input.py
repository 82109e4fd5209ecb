"""Input of requests and of request policies: which amounts, steps and times are valid."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.input import (
    GRANT_HORIZON,
    LIMIT_UNITS_MAX,
    justification_problems,
    size_problems,
    units_problems,
)
from quotas.domain.limits.selectors import model_group_problems
from quotas.domain.requests.routing import RequestLevel
from tenants.domain.errors import FieldProblem


@dataclass(frozen=True)
class RequestInput:
    """The fields of a request, as received.

    Attributes:
        requested_units: The wanted total, never the difference.
        burst_units: The wanted total of burst units; None leaves them as they are.
        begin_at: UTC; None is from the approval on.
        end_at: UTC; None is without end.
    """

    size: str
    requested_units: int
    justification: str
    model_group: str = ""
    burst_units: int | None = None
    begin_at: datetime | None = None
    end_at: datetime | None = None

    @property
    def is_dated(self) -> bool:
        """Whether it becomes a grant for a time, rather than the limit itself."""
        return self.begin_at is not None or self.end_at is not None

    def problems(self, *, at: datetime) -> tuple[FieldProblem, ...]:
        """Return everything that is wrong with it.

        Args:
            at: Now, UTC.
        """
        return (
            *size_problems(self.size),
            *units_problems(self.requested_units, field="requested_units"),
            *model_group_problems(self.model_group),
            *self._burst_problems(),
            *self._time_problems(at=at),
            *justification_problems(self.justification),
        )

    def _burst_problems(self) -> Iterator[FieldProblem]:
        if self.burst_units is None:
            return
        yield from units_problems(self.burst_units, field="burst_units")
        if self.is_dated:
            message = "Leave it out: burst units are asked for without times."
            yield FieldProblem("burst_units", "burst_dated", message)

    def _time_problems(self, *, at: datetime) -> Iterator[FieldProblem]:
        for field, moment in (("begin_at", self.begin_at), ("end_at", self.end_at)):
            if moment is not None:
                yield from _moment_problems(field, moment, at=at)
        if self.begin_at is not None and self.end_at is not None and self.end_at <= self.begin_at:
            yield FieldProblem("end_at", "end_before_begin", "Name a time after begin_at.")


def _moment_problems(field: str, moment: datetime, *, at: datetime) -> Iterator[FieldProblem]:
    if moment <= at:
        message = "Name a time to come, or leave it out."
        yield FieldProblem(field, "time_past", message)
    if moment > at + GRANT_HORIZON:
        message = f"Name a time before {at + GRANT_HORIZON:%Y-%m-%d}, or leave it out."
        yield FieldProblem(field, "time_too_far", message)


STEPS_MAX: Final = 8
COST_MAX: Final = Decimal(10) ** 12
"""A thousand milliards a month; more is a slip of the finger."""
HOURS_MAX: Final = 720
DAYS_MAX: Final = 365
REMIND_DAYS_MAX: Final = 90
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_KEYS: Final = frozenset({"level", "units_from", "cost_from"})


def policy_problems(policy: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
    """Return everything that is wrong with the columns of a policy."""
    return (
        *_steps_problems(policy["steps"]),
        *_units_problems("automatic_units", policy["automatic_units"], name="automatic_units"),
        *_cost_problems("automatic_cost", policy["automatic_cost"], name="automatic_cost"),
        *_currency_problems(policy),
        *_number_problems(policy, "escalate_after_hours", most=HOURS_MAX, may_be_none=True),
        *_number_problems(policy, "expire_after_days", most=DAYS_MAX),
        *_number_problems(policy, "remind_days", most=REMIND_DAYS_MAX),
    )


def _steps_problems(steps: object) -> Iterator[FieldProblem]:
    if (
        not isinstance(steps, Sequence)
        or isinstance(steps, str)
        or not 1 <= len(steps) <= STEPS_MAX
    ):
        message = f'List 1 to {STEPS_MAX} steps, such as [{{"level": "organization_admin"}}].'
        yield FieldProblem("steps", "steps_invalid", message)
        return
    for position, step in enumerate(steps):
        yield from _step_problems(f"steps.{position}", step, name=f"Step {position + 1}")


def _step_problems(field: str, step: object, *, name: str) -> Iterator[FieldProblem]:
    if not isinstance(step, Mapping):
        message = f'{name} is no object: write one with a level, such as {{"level": "finance"}}.'
        yield FieldProblem(field, "step_invalid", message)
        return
    if not set(step) <= _KEYS:
        message = (
            f"{name} has {_quoted(set(step) - _KEYS)}, which it cannot have: send level, and if "
            "you like units_from and cost_from."
        )
        yield FieldProblem(field, "step_invalid", message)
        return
    levels = [level.value for level in RequestLevel]
    if step.get("level") not in levels:
        wrong = f'"{step["level"]}" is none' if "level" in step else "it is missing"
        message = f"{name}, level: {wrong}. Use one of: {', '.join(levels)}."
        yield FieldProblem(f"{field}.level", "level_unknown", message)
    units, cost = step.get("units_from", {}), step.get("cost_from")
    yield from _units_problems(f"{field}.units_from", units, name=f"{name}, units_from")
    yield from _cost_problems(f"{field}.cost_from", cost, name=f"{name}, cost_from")


def _units_problems(field: str, units: object, *, name: str) -> Iterator[FieldProblem]:
    sizes = {size.value for size in GPUSize}
    if not isinstance(units, Mapping) or not set(units) <= sizes:
        wrong = f"{_quoted(set(units) - sizes)} is no size. " if isinstance(units, Mapping) else ""
        message = (
            f"{name}: {wrong}Map sizes ({', '.join(sorted(sizes))}) to whole numbers of units, "
            'such as {"large": 16}.'
        )
        yield FieldProblem(field, "units_by_size_invalid", message)
        return
    for size, count in units.items():
        if type(count) is not int or not 0 <= count <= LIMIT_UNITS_MAX:
            message = f"{name}, {size}: send a whole number of units from 0 to {LIMIT_UNITS_MAX}."
            yield FieldProblem(f"{field}.{size}", "units_invalid", message)


def _quoted(keys: Iterable[object]) -> str:
    return ", ".join(f'"{key}"' for key in sorted(map(str, keys)))


def _cost_problems(field: str, cost: object, *, name: str) -> Iterator[FieldProblem]:
    if cost is None or _is_cost(cost):
        return
    message = f'{name}: send an amount from 0 as text, such as "10000.00", or null.'
    yield FieldProblem(field, "cost_invalid", message)


def _is_cost(cost: object) -> bool:
    if not isinstance(cost, str | Decimal):
        return False
    try:
        amount = Decimal(cost)
    except InvalidOperation:
        return False
    return amount.is_finite() and 0 <= amount <= COST_MAX


def _currency_problems(policy: Mapping[str, Any]) -> Iterator[FieldProblem]:
    currency = policy["currency"]
    has_cost = policy["automatic_cost"] is not None or _names_cost(policy["steps"])
    if currency and not (isinstance(currency, str) and _CURRENCY.fullmatch(currency)):
        yield FieldProblem("currency", "currency_invalid", "Use the three letters of ISO 4217.")
    elif has_cost and not currency:
        yield FieldProblem("currency", "currency_missing", "Say in which currency the amounts are.")


def _names_cost(steps: object) -> bool:
    if not isinstance(steps, Sequence):
        return False
    return any(isinstance(step, Mapping) and step.get("cost_from") is not None for step in steps)


def _number_problems(
    policy: Mapping[str, Any], field: str, *, most: int, may_be_none: bool = False
) -> Iterator[FieldProblem]:
    value = policy[field]
    if value is None and may_be_none:
        return
    if type(value) is not int or not 1 <= value <= most:
        yield FieldProblem(field, "number_invalid", f"Send a whole number from 1 to {most}.")

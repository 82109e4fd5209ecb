"""Waste rules: which there are, and from when each accuses; every threshold can be configured.

Thresholds without another source are our proposals, see docs/reference/waste-and-health.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Final


class WasteRule(StrEnum):
    """Findings about an allocation, the strongest first; only one applies at a time."""

    NOT_RUNNING = "not_running"
    IDLE = "idle"
    MEMORY_PARKED = "memory_parked"
    IMBALANCED = "imbalanced"
    LOW_USE = "low_use"
    LOW_USE_DAY = "low_use_day"
    OVERSIZED = "oversized"


class Work(StrEnum):
    """The kind of work a pod does, as far as its controller shows."""

    NOTEBOOK = "notebook"
    BATCH = "batch"
    UNKNOWN = "unknown"


_KINDS: Final[Mapping[str, Work]] = {
    **dict.fromkeys(("Notebook", "StatefulSet"), Work.NOTEBOOK),
    **dict.fromkeys(
        ("Job", "JobSet", "MPIJob", "PyTorchJob", "RayJob", "TFJob", "TrainJob", "Workflow"),
        Work.BATCH,
    ),
}
"""Notebooks run as stateful sets; operators' jobs own their pods themselves."""


def work_of(controller: str) -> Work:
    """Return the kind of work of a controller, written as "Kind/name"; "" is unknown."""
    return _KINDS.get(controller.partition("/")[0], Work.UNKNOWN)


HOURS_MAX: Final = 24 * 31
"""A longer range finds pods whose purpose is no longer known, and reads a month of rows."""
DAILY_FROM_HOURS: Final = 24
"""A rule that looks back so far is judged once a day: an hour more changes little of a day."""


@dataclass(frozen=True)
class WasteThresholds:
    """From when a rule reports waste. Names end in their unit; `_ratio` is a share from 0 to 1.

    Attributes:
        coverage_ratio_min: Least share of the time that must have been measured; below it there is
            no data, and no finding.
        headroom_ratio: How much more than its usage a suggestion leaves to a pod.
        contradicting_watts: A whole GPU that draws more is not reported as idle.
        low_use_hours: So many hours in a row must each stay below `low_use_activity_ratio`.
        low_use_day_hours: Over so many hours the mean use must stay below the ratio of the kind of
            work: `notebook_activity_ratio` or `batch_activity_ratio`.
        hoarding_hours: How far back a quota is compared with its use.
    """

    coverage_ratio_min: Decimal = Decimal("0.8")
    headroom_ratio: Decimal = Decimal("0.2")
    contradicting_watts: int = 150
    not_running_minutes: int = 15
    idle_hours: int = 1
    idle_activity_ratio: Decimal = Decimal("0.01")
    idle_memory_mebibytes: int = 500
    parked_hours: int = 2
    parked_activity_ratio: Decimal = Decimal("0.01")
    parked_memory_ratio: Decimal = Decimal("0.5")
    imbalanced_hours: int = 1
    imbalanced_ratio: Decimal = Decimal("0.1")
    low_use_hours: int = 4
    low_use_activity_ratio: Decimal = Decimal("0.2")
    low_use_day_hours: int = 24
    notebook_activity_ratio: Decimal = Decimal("0.1")
    batch_activity_ratio: Decimal = Decimal("0.3")
    oversized_hours: int = 168
    oversized_activity_ratio: Decimal = Decimal("0.3")
    oversized_memory_ratio: Decimal = Decimal("0.333333")
    hoarding_hours: int = 336
    hoarding_ratio: Decimal = Decimal("0.3")

    def hours_of(self, rule: WasteRule) -> int:
        """Return how many hours a rule about activity looks back; 0 for one that needs none."""
        return {
            WasteRule.NOT_RUNNING: 0,
            WasteRule.IDLE: self.idle_hours,
            WasteRule.MEMORY_PARKED: self.parked_hours,
            WasteRule.IMBALANCED: self.imbalanced_hours,
            WasteRule.LOW_USE: self.low_use_hours,
            WasteRule.LOW_USE_DAY: self.low_use_day_hours,
            WasteRule.OVERSIZED: self.oversized_hours,
        }[rule]

    @property
    def hours_max(self) -> int:
        """Return how many hours the rule looks back that looks back the furthest."""
        return max(map(self.hours_of, WasteRule))

    def is_daily(self, rule: WasteRule) -> bool:
        """Whether a rule is judged once a day instead of every hour."""
        return self.hours_of(rule) >= DAILY_FROM_HOURS

    def activity_ratio_of(self, work: Work) -> Decimal | None:
        """Return the mean use of a day below which a kind of work is little; None for no such."""
        return {
            Work.NOTEBOOK: self.notebook_activity_ratio,
            Work.BATCH: self.batch_activity_ratio,
            Work.UNKNOWN: None,
        }[work]


DEFAULT_THRESHOLDS: Final = WasteThresholds()
_TYPES: Final[Mapping[str, type]] = {
    field.name: type(getattr(DEFAULT_THRESHOLDS, field.name)) for field in fields(WasteThresholds)
}


def thresholds_of(given: Mapping[str, object]) -> WasteThresholds:
    """Return the thresholds with some replaced by values from an operator's JSON.

    Args:
        given: Name to a whole number, or for ratios to a number or its text.

    Raises:
        ValueError: With one sentence that names every wrong threshold.
    """
    problems = [f"{name} is no threshold" for name in sorted(given.keys() - _TYPES.keys())]
    values: dict[str, Decimal | int] = {}
    for name in sorted(given.keys() & _TYPES.keys()):
        value = _ratio(given[name]) if _TYPES[name] is Decimal else _whole(name, given[name])
        if value is None:
            problems.append(f"{name} must be {_wanted(name)}")
        else:
            values[name] = value
    if problems:
        raise ValueError("; ".join(problems) + ".")
    return WasteThresholds(**values)  # type: ignore[arg-type]


def _ratio(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return None
    return number if number.is_finite() and 0 <= number <= 1 else None


def _whole(name: str, value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return None
    return None if name.endswith("_hours") and value > HOURS_MAX else value


def _wanted(name: str) -> str:
    if _TYPES[name] is Decimal:
        return "a number from 0 to 1"
    return f"a whole number from 1 to {HOURS_MAX}" if name.endswith("_hours") else "from 1 up"

"""Headroom: what is held against what may be held, and the day on which the trend uses it up.

The trend is the Theil-Sen line: the median of the slopes between every two days, through the median
of what is left. One wild day, or a week of holidays, does not bend it. Fractions are exact.

Source: P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, 1968.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from fractions import Fraction
from itertools import combinations
from typing import Final


@dataclass(frozen=True)
class Headroom:
    """Units against a limit.

    Nominal and burst units never mix: a preemptible pod counts against `burst_limit_units` only,
    every other pod against `limit_units` only.

    Attributes:
        limit_units: What is in force, with grants; None where no number binds: not set, or
            unlimited.
        used_units: What bound pods hold now; more than the limit after the limit was lowered.
        reserved_units: Admitted units that are not bound to a node yet.
        burst_limit_units: What preemptible pods may hold beyond.
        burst_used_units: Units that they hold, admitted or bound.
    """

    limit_units: int | None
    used_units: int
    reserved_units: int = 0
    burst_limit_units: int = 0
    burst_used_units: int = 0

    @property
    def taken_units(self) -> int:
        """Units held or admitted: not available to others."""
        return self.used_units + self.reserved_units

    @property
    def free_units(self) -> int | None:
        """How many more may be held: never negative; None where no number binds."""
        return None if self.limit_units is None else max(0, self.limit_units - self.taken_units)

    @property
    def over_units(self) -> int:
        """How many are taken beyond the limit."""
        return 0 if self.limit_units is None else max(0, self.taken_units - self.limit_units)

    @property
    def burst_free_units(self) -> int:
        """How many more preemptible pods may hold."""
        return max(0, self.burst_limit_units - self.burst_used_units)

    @property
    def used_percent(self) -> int | None:
        """Whole percent of the limit that is taken, rounded down, at most 100; None without one.

        A limit of zero is full: nothing more can be held.
        """
        if self.limit_units is None:
            return None
        if self.limit_units == 0:
            return 100
        return min(100, 100 * self.taken_units // self.limit_units)

    @property
    def held_percent(self) -> int:
        """Whole percent of the limit that bound pods hold, rounded down, at most 100."""
        if self.limit_units is None:
            return 0
        if self.limit_units == 0:
            return 100 if self.used_units else 0
        return min(100, 100 * self.used_units // self.limit_units)


HISTORY_DAYS: Final = 28
"""Four whole weeks, so that weekends weigh alike."""
HISTORY_DAYS_MIN: Final = 14
"""Two of each weekday; with less, the week's own swing looks like a trend."""
HORIZON_DAYS: Final = 90
"""A quarter: a trend of four weeks says nothing beyond it."""


class ExhaustionOutcome(StrEnum):
    """Kind of forecast."""

    REACHED = "reached"
    """The trend is at the limit today, or beyond."""
    EXPECTED = "expected"
    NOT_WITHIN_HORIZON = "not_within_horizon"
    TOO_LITTLE_HISTORY = "too_little_history"


@dataclass(frozen=True)
class Exhaustion:
    """The trend of one limit.

    Attributes:
        on: The first day on which the trend's peak is at least the limit; set for EXPECTED.
        weekly_units: How the peak grows in a week, to a hundredth; None with too little history.
    """

    outcome: ExhaustionOutcome
    on: date | None = None
    weekly_units: Fraction | None = None


def expect_exhaustion(peaks: Sequence[int], *, limit_units: int, today: date) -> Exhaustion:
    """Return when the peaks reach a limit, if they go on as they did.

    Args:
        peaks: Most units held at once on each day, oldest first, up to yesterday; days before the
            first use do not stand here.
        limit_units: What is in force.
        today: The day after the last peak.
    """
    if len(peaks) < HISTORY_DAYS_MIN:
        return Exhaustion(ExhaustionOutcome.TOO_LITTLE_HISTORY)
    slope, start = _line(peaks)
    weekly = slope * 7
    now = start + slope * len(peaks)
    if now >= limit_units:
        return Exhaustion(ExhaustionOutcome.REACHED, weekly_units=weekly)
    if slope <= 0:
        return Exhaustion(ExhaustionOutcome.NOT_WITHIN_HORIZON, weekly_units=weekly)
    days = -((now - limit_units) // slope)
    if days > HORIZON_DAYS:
        return Exhaustion(ExhaustionOutcome.NOT_WITHIN_HORIZON, weekly_units=weekly)
    return Exhaustion(
        ExhaustionOutcome.EXPECTED, on=today + timedelta(days=int(days)), weekly_units=weekly
    )


def _line(peaks: Sequence[int]) -> tuple[Fraction, Fraction]:
    """Return the slope a day, and the height on the first day."""
    points = list(enumerate(peaks))
    slope = _median([Fraction(y2 - y1, x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2)])
    return slope, _median([y - slope * x for x, y in points])


def _median(values: Sequence[Fraction]) -> Fraction:
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2

"""The calendar of hours: the progress of each, as one tone per cell, from its window."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from metering.domain.collection.windows import WindowState

HOURS_PER_DAY: Final = 24
FULL: Final = Decimal(1)


class Tone(StrEnum):
    """The colour of a cell, worst last."""

    NONE = "none"
    """No window: before the first metered hour, or still to come."""
    WHOLE = "whole"
    """Sealed, and fully observed."""
    PART = "part"
    """Sealed, and only partly observed."""
    WAIVED = "waived"
    """Sealed without any use, by a person's decision."""
    WAITING = "waiting"
    """On its way: open, being collected, or collected."""
    GAP = "gap"
    """Waits for a person."""


@dataclass(frozen=True)
class HourFact:
    """One window, as the calendar needs it.

    Attributes:
        coverage: The best of its sources' coverage, 0 to 1; None before it was collected.
        open_exceptions: How many causes still want a person.
        begun_incidents: How many of the open incidents begin in it.
    """

    window_id: int
    start_at: datetime
    state: WindowState
    coverage: Decimal | None
    sources: tuple[str, ...]
    records: int
    open_exceptions: int
    begun_incidents: int = 0


@dataclass(frozen=True)
class CalendarCell:
    """One hour of one day; `fact` is None when there is no window."""

    hour: int
    tone: Tone
    fact: HourFact | None = None


@dataclass(frozen=True)
class Day:
    """One UTC day of one cluster, hour by hour."""

    date: date
    cells: tuple[CalendarCell, ...]


def tone_of(fact: HourFact) -> Tone:
    """Return the tone of a window in the calendar."""
    if fact.state in {WindowState.GAP, WindowState.QUARANTINED}:
        return Tone.GAP
    if fact.state is not WindowState.SEALED:
        return Tone.WAITING
    if not fact.sources:
        return Tone.WAIVED
    return Tone.WHOLE if fact.coverage is not None and fact.coverage >= FULL else Tone.PART


def days_of(facts: Iterable[HourFact], *, begin: date, end: date) -> tuple[Day, ...]:
    """Return every day of [begin, end), hour by hour, whether there are windows or not.

    Args:
        facts: Windows of one cluster in any order; those outside are left out.
        begin: First day, UTC.
        end: The day after the last.
    """
    by_hour: Mapping[tuple[date, int], HourFact] = {
        (fact.start_at.date(), fact.start_at.hour): fact for fact in facts
    }
    return tuple(
        Day(day, tuple(_cell(by_hour.get((day, hour)), hour=hour) for hour in range(HOURS_PER_DAY)))
        for day in (begin + timedelta(days=number) for number in range((end - begin).days))
    )


def _cell(fact: HourFact | None, *, hour: int) -> CalendarCell:
    return CalendarCell(hour=hour, tone=Tone.NONE if fact is None else tone_of(fact), fact=fact)


def month_of(text: str, *, today: date) -> date:
    """Return the first day of a month such as "2026-10"; today's when unreadable."""
    try:
        year, _, month = text.partition("-")
        return date(int(year), int(month), 1)
    except ValueError:
        return today.replace(day=1)


def next_month(first: date) -> date:
    """Return the first day of the month after; of December 9999 the same."""
    if first.year == date.max.year and first.month == date.max.month:
        return first
    return (first + timedelta(days=31)).replace(day=1)


def previous_month(first: date) -> date:
    """Return the first day of the month before; of January of the year 1 the same."""
    return first if first == date.min else (first - timedelta(days=1)).replace(day=1)

"""The calendar page of windows: hours by cluster and day, as colours, each a link to its window."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import QuerySet
from django.urls import reverse

from metering.domain.calendar import (
    HOURS_PER_DAY,
    Cell,
    Tone,
    month_of,
    next_month,
    previous_month,
)
from metering.domain.words import percent_words
from metering.models import MeteringWindow
from metering.selectors.calendar import ClusterCalendar, window_calendar

TONES: Final = (
    (Tone.WHOLE, "sealed, seen throughout"),
    (Tone.PART, "sealed, seen in part"),
    (Tone.WAIVED, "waived"),
    (Tone.WAITING, "on its way"),
    (Tone.GAP, "waits for a decision"),
    (Tone.NONE, "not metered"),
    ("wanting", "has open exceptions"),
)


@dataclass(frozen=True)
class CellWords:
    """What a cell shows and says."""

    text: str
    title: str
    is_wanting: bool


def calendar_context(
    windows: QuerySet[MeteringWindow], *, month: str, at: datetime
) -> dict[str, Any]:
    """Return the template's values for one month.

    Args:
        windows: Those the caller may see.
        month: As "2026-10"; anything else is the month of `at`.
        at: Now.
    """
    first = month_of(month, today=at.date())
    following = next_month(first)
    found = window_calendar(windows, begin=first, end=following)
    return {
        "first": first,
        "following": following,
        "previous": previous_month(first),
        "hours": range(HOURS_PER_DAY),
        "tones": TONES,
        "clusters": [_cluster(one) for one in found],
    }


def _cluster(found: ClusterCalendar) -> dict[str, Any]:
    return {
        "name": found.name,
        "waiting": found.waiting,
        "open_exceptions": found.open_exceptions,
        "days": [
            {"date": day.date, "cells": [_cell(cell) for cell in day.cells]} for day in found.days
        ],
    }


def _cell(cell: Cell) -> dict[str, Any]:
    if cell.fact is None:
        return {"tone": cell.tone.value}
    link = reverse("admin:metering_meteringwindow_change", args=[cell.fact.window_id])
    return {"tone": cell.tone.value, "link": link, "words": _words(cell)}


def _words(cell: Cell) -> CellWords:
    fact = cell.fact
    assert fact is not None  # noqa: S101 - The caller's branch; tells the type.
    is_part = fact.coverage is not None and fact.coverage < 1
    parts = [
        f"{fact.start_at:%Y-%m-%d %H}:00 UTC: {fact.state.value}",
        f"seen {percent_words(fact.coverage)}" if fact.coverage is not None else "nothing seen",
        f"by {' and '.join(fact.sources)}" if fact.sources else "",
        f"records: {fact.records}",
        f"open exceptions: {fact.open_exceptions}" if fact.open_exceptions else "",
    ]
    return CellWords(
        text=f"{int(fact.coverage * 100)}" if is_part and fact.coverage is not None else "",
        title=", ".join(part for part in parts if part),
        is_wanting=fact.open_exceptions > 0,
    )

"""The calendar has a cell for every hour, and a tone for every state."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.collection.calendar import (
    HourFact,
    Tone,
    days_of,
    month_of,
    next_month,
    previous_month,
    tone_of,
)
from metering.domain.collection.windows import WindowState

OCTOBER = date(2026, 10, 1)
TODAY = date(2026, 11, 21)


def fact(
    *,
    start_at: datetime = datetime(2026, 10, 5, 13, tzinfo=UTC),
    state: WindowState = WindowState.SEALED,
    coverage: str | None = "1",
    sources: tuple[str, ...] = ("prometheus",),
) -> HourFact:
    return HourFact(
        window_id=7,
        start_at=start_at,
        state=state,
        coverage=None if coverage is None else Decimal(coverage),
        sources=sources,
        records=3,
        open_exceptions=0,
    )


@pytest.mark.parametrize(
    ("state", "coverage", "tone"),
    [
        (WindowState.SEALED, "1", Tone.WHOLE),
        (WindowState.SEALED, "0.99999", Tone.PART),
        (WindowState.SEALED, None, Tone.PART),
        (WindowState.OPEN, None, Tone.WAITING),
        (WindowState.COLLECTING, None, Tone.WAITING),
        (WindowState.COLLECTED, "1", Tone.WAITING),
        (WindowState.RECONCILED, "1", Tone.WAITING),
        (WindowState.GAP, "0.4", Tone.GAP),
        (WindowState.QUARANTINED, None, Tone.GAP),
    ],
)
def test_a_window_has_the_tone_of_its_state(
    state: WindowState, coverage: str | None, tone: Tone
) -> None:
    assert tone_of(fact(state=state, coverage=coverage)) is tone


def test_an_hour_without_any_source_was_waived() -> None:
    assert tone_of(fact(sources=(), coverage="0.4")) is Tone.WAIVED


def test_every_hour_of_every_day_has_a_cell() -> None:
    days = days_of([fact()], begin=OCTOBER, end=date(2026, 11, 1))

    assert [day.date.day for day in days] == list(range(1, 32))
    assert all([cell.hour for cell in day.cells] == list(range(24)) for day in days)
    reported = [
        (day.date.day, cell.hour, cell.tone) for day in days for cell in day.cells if cell.fact
    ]
    assert reported == [(5, 13, Tone.WHOLE)]


def test_hours_of_other_days_are_left_out() -> None:
    outside = fact(start_at=datetime(2026, 11, 1, tzinfo=UTC))

    days = days_of([outside], begin=OCTOBER, end=date(2026, 11, 1))

    assert {cell.tone for day in days for cell in day.cells} == {Tone.NONE}


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("2026-10", OCTOBER),
        ("2026-1", date(2026, 1, 1)),
        ("", date(2026, 11, 1)),
        ("2026-13", date(2026, 11, 1)),
        ("0-1", date(2026, 11, 1)),
        ("<script>", date(2026, 11, 1)),
    ],
)
def test_an_unreadable_month_is_this_month(text: str, first: date) -> None:
    assert month_of(text, today=TODAY) == first


@given(st.dates(min_value=date(2, 1, 1), max_value=date(9998, 12, 31)))
def test_the_month_after_the_month_before_is_the_month_itself(day: date) -> None:
    first = day.replace(day=1)

    assert next_month(previous_month(first)) == first == previous_month(next_month(first))
    assert timedelta(days=28) <= next_month(first) - first <= timedelta(days=31)


def test_the_calendar_ends_where_time_ends() -> None:
    assert next_month(date(9999, 12, 1)) == date(9999, 12, 1)
    assert previous_month(date.min) == date.min

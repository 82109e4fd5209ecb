"""Windows are whole UTC hours."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.collection.windows import due_at, end_of, whole_hours, window_containing

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
moments = st.datetimes(
    min_value=datetime(2020, 1, 1),  # noqa: DTZ001 - The zone is drawn beside it.
    max_value=datetime(2040, 1, 1),  # noqa: DTZ001 - As above.
    timezones=st.timezones(),
)


def test_a_moment_lies_in_the_hour_of_its_own_zone_reported_in_utc() -> None:
    kolkata = timezone(timedelta(hours=5, minutes=30))

    assert window_containing(datetime(2026, 10, 5, 18, 45, tzinfo=kolkata)) == HOUR


def test_a_moment_without_a_zone_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="zone"):
        window_containing(datetime(2026, 10, 5))  # noqa: DTZ001 - That is the mistake.


@given(moments)
def test_every_moment_lies_in_exactly_one_window(moment: datetime) -> None:
    start_at = window_containing(moment)

    assert start_at <= moment < end_of(start_at)
    assert window_containing(start_at) == start_at


@pytest.mark.parametrize(("scrape", "seconds"), [(30, 900), (225, 900), (300, 1200)])
def test_a_window_is_due_after_the_lateness_and_four_scrapes(scrape: int, seconds: int) -> None:
    due = due_at(HOUR, lateness_seconds=900, scrape_interval_seconds=scrape)

    assert due == HOUR + timedelta(hours=1, seconds=seconds)


@pytest.mark.parametrize(
    ("begin", "until", "hours"),
    [
        ("13:00", "14:00", [13]),
        ("13:00", "14:01", [13, 14]),
        ("13:59", "14:00", [13]),
        ("13:30", "16:30", [13, 14, 15, 16]),
        ("13:00", "13:00", []),
        ("15:00", "13:00", []),
    ],
)
def test_a_range_touches_whole_hours(begin: str, until: str, hours: list[int]) -> None:
    first, last = (datetime.fromisoformat(f"2026-10-05T{text}Z") for text in (begin, until))

    assert [one.hour for one in whole_hours(first, until=last)] == hours


def test_a_range_needs_zones() -> None:
    with_zone = datetime(2026, 10, 5, 13, tzinfo=UTC)

    with pytest.raises(ValueError, match="with a zone"):
        whole_hours(with_zone, until=with_zone.replace(tzinfo=None))
    with pytest.raises(ValueError, match="with a zone"):
        whole_hours(with_zone.replace(tzinfo=None), until=with_zone)

"""Windows are whole UTC hours."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.window import (
    due_at,
    end_of,
    seconds_between,
    whole_second,
    window_containing,
)

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
moments = st.datetimes(
    min_value=datetime(2020, 1, 1),  # noqa: DTZ001 - The zone is drawn beside it.
    max_value=datetime(2040, 1, 1),  # noqa: DTZ001 - As above.
    timezones=st.timezones(),
)


def test_a_moment_lies_in_the_hour_of_its_own_zone_told_in_utc() -> None:
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


def test_fractions_of_a_second_are_dropped() -> None:
    late = HOUR + timedelta(seconds=9, microseconds=999_999)

    assert whole_second(late) == HOUR + timedelta(seconds=9)
    assert seconds_between(HOUR, late) == 9


def test_time_backwards_is_no_time() -> None:
    assert seconds_between(HOUR, HOUR - timedelta(seconds=5)) == 0

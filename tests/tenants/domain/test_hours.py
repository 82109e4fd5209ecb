"""Tests of whole UTC hours."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.domain.hours import floor_hour, hours_text, is_whole_hour

moments = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - Hypothesis adds the zone.
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]),
)


@given(moments)
def test_the_floor_is_a_whole_hour_at_most_an_hour_before(moment: datetime) -> None:
    floor = floor_hour(moment)

    assert is_whole_hour(floor)
    assert timedelta() <= moment - floor < timedelta(hours=1)
    assert floor.tzinfo is UTC


def test_an_hour_of_a_half_hour_zone_is_no_utc_hour() -> None:
    india = timezone(timedelta(hours=5, minutes=30))

    assert not is_whole_hour(datetime(2026, 10, 1, 12, tzinfo=india))
    assert is_whole_hour(datetime(2026, 10, 1, 12, 30, tzinfo=india))


def test_a_time_without_a_zone_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="zone"):
        floor_hour(datetime(2026, 10, 1))  # noqa: DTZ001 - The mistake itself.


def test_a_range_is_reported_in_utc_with_its_first_hour_and_the_one_after_its_last() -> None:
    berlin = timezone(timedelta(hours=2))
    begin_at = datetime(2026, 10, 1, tzinfo=berlin)

    assert hours_text(begin_at, None) == "since 2026-09-30 22:00"
    assert (
        hours_text(begin_at, datetime(2026, 11, 1, tzinfo=UTC))
        == "2026-09-30 22:00 to 2026-11-01 00:00"
    )

"""Months of a zone become whole UTC hours that follow each other without gap or overlap."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.errors import NotOnTheHourError, PeriodLabelInvalidError
from billing.domain.period import (
    HOUR,
    HourSpan,
    Month,
    fit_between,
    floor_hour,
    month_hours,
    month_of,
    require_hour,
)

ZONES = st.sampled_from(sorted(available_timezones() - {"localtime"})).map(ZoneInfo)
MONTHS = st.builds(Month, st.integers(2000, 2199), st.integers(1, 12))


@pytest.mark.parametrize(
    ("zone", "label", "hours"),
    [
        ("UTC", "2026-10", 744),
        ("UTC", "2028-02", 696),
        ("Europe/Berlin", "2026-03", 743),
        ("Europe/Berlin", "2026-10", 745),
        ("America/New_York", "2026-11", 721),
        ("America/Santiago", "2026-09", 719),
        ("Asia/Kolkata", "2026-10", 744),
        ("Australia/Lord_Howe", "2026-10", 744),
    ],
)
def test_months_with_a_change_of_clocks_have_their_own_length(
    zone: str, label: str, hours: int
) -> None:
    assert month_hours(Month.parse(label), ZoneInfo(zone)).hours == hours


def test_a_month_of_berlin_begins_at_ten_in_the_evening_utc() -> None:
    span = month_hours(Month(2026, 10), ZoneInfo("Europe/Berlin"))

    assert span.begin_at == datetime(2026, 9, 30, 22, tzinfo=UTC)
    assert span.end_at == datetime(2026, 10, 31, 23, tzinfo=UTC)


def test_a_zone_off_the_hour_begins_in_the_hour_of_its_midnight() -> None:
    span = month_hours(Month(2026, 10), ZoneInfo("Asia/Kathmandu"))

    assert span.begin_at == datetime(2026, 9, 30, 18, tzinfo=UTC)


@given(zone=ZONES, month=MONTHS)
def test_months_follow_each_other_without_gap_or_overlap(zone: ZoneInfo, month: Month) -> None:
    span, following = month_hours(month, zone), month_hours(month.shift(1), zone)

    assert span.end_at == following.begin_at
    assert span.begin_at == floor_hour(span.begin_at)
    assert 28 * 24 - 25 <= span.hours <= 31 * 24 + 25


@given(zone=ZONES, year=st.integers(2000, 2100))
def test_the_hours_of_a_year_are_the_hours_of_its_months(zone: ZoneInfo, year: int) -> None:
    months = [month_hours(Month(year, number), zone) for number in range(1, 13)]

    assert sum(span.hours for span in months) * HOUR == months[-1].end_at - months[0].begin_at


@given(
    zone=ZONES,
    at=st.datetimes(
        min_value=datetime(2001, 1, 1),  # noqa: DTZ001 - The strategy adds the zone.
        max_value=datetime(2199, 1, 1),  # noqa: DTZ001 - As above.
        timezones=st.just(UTC),
    ),
)
def test_every_moment_lies_in_the_month_it_is_counted_to(zone: ZoneInfo, at: datetime) -> None:
    assert at in month_hours(month_of(at, zone), zone)


def test_the_part_of_an_hour_before_a_midnight_off_the_hour_counts_to_the_new_month() -> None:
    early = datetime(2026, 9, 30, 18, 5, tzinfo=UTC)  # 23:50 in Kathmandu, still September.

    assert month_of(early, ZoneInfo("Asia/Kathmandu")) == Month(2026, 10)


@given(month=MONTHS, months=st.integers(-1000, 1000))
def test_shifting_forth_and_back_changes_nothing(month: Month, months: int) -> None:
    assert month.shift(months).shift(-months) == month


@given(month=MONTHS)
def test_a_label_names_its_month(month: Month) -> None:
    assert Month.parse(month.label) == month


@pytest.mark.parametrize("label", ["2026-13", "2026-00", "26-10", "2026-1", "1999-12", "2026-10 "])
def test_a_label_that_names_no_month_is_refused(label: str) -> None:
    with pytest.raises(PeriodLabelInvalidError) as refused:
        Month.parse(label)

    assert refused.value.code == "period_label_invalid"


def test_a_whole_hour_comes_back_in_utc() -> None:
    local = datetime(2026, 10, 1, 2, tzinfo=ZoneInfo("Europe/Berlin"))

    assert require_hour(local, field="valid_from") == datetime(2026, 10, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "at",
    [
        datetime(2026, 10, 1),  # noqa: DTZ001 - What is refused.
        datetime(2026, 10, 1, 0, 0, 1, tzinfo=UTC),
    ],
)
def test_a_time_off_the_hour_or_without_zone_is_refused(at: datetime) -> None:
    with pytest.raises(NotOnTheHourError) as refused:
        require_hour(at, field="valid_from")

    assert (refused.value.code, refused.value.field) == ("not_on_the_hour", "valid_from")


def test_a_month_joins_its_stored_neighbours_after_a_change_of_zone() -> None:
    span = HourSpan(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
    earlier, later = span.begin_at - 2 * HOUR, span.end_at + timedelta(hours=5)

    assert fit_between(span, previous_end_at=None, next_begin_at=None) == span
    assert fit_between(span, previous_end_at=earlier, next_begin_at=later) == HourSpan(
        earlier, later
    )

"""On which day the trend of daily peaks reaches a limit."""

from datetime import date, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.headroom.headroom import (
    HISTORY_DAYS,
    HISTORY_DAYS_MIN,
    HORIZON_DAYS,
    Exhaustion,
    ExhaustionOutcome,
    expect_exhaustion,
)

TODAY = date(2026, 11, 2)
RISING = tuple(range(28))
peaks_of_days = st.lists(
    st.integers(min_value=0, max_value=200), min_size=HISTORY_DAYS_MIN, max_size=HISTORY_DAYS
)


def ask(peaks: tuple[int, ...] | list[int], limit: int) -> Exhaustion:
    return expect_exhaustion(peaks, limit_units=limit, today=TODAY)


def test_one_more_a_day_reaches_the_limit_on_the_day_it_is_equal() -> None:
    assert ask(RISING, 30) == Exhaustion(
        ExhaustionOutcome.EXPECTED, on=TODAY + timedelta(days=2), weekly_units=Fraction(7)
    )
    assert ask(RISING, 29).on == TODAY + timedelta(days=1)


def test_part_of_a_day_is_a_day() -> None:
    every_other_day = tuple(day // 2 for day in range(28))

    found = ask(every_other_day, 20)

    assert found.outcome is ExhaustionOutcome.EXPECTED
    assert found.weekly_units == Fraction(7, 2)
    assert found.on == TODAY + timedelta(days=13)


def test_a_trend_at_its_limit_has_reached_it() -> None:
    assert ask(RISING, 28).outcome is ExhaustionOutcome.REACHED
    assert ask((5,) * 14, 5).outcome is ExhaustionOutcome.REACHED
    assert ask((0,) * 14, 0).outcome is ExhaustionOutcome.REACHED


def test_a_level_or_falling_use_exhausts_nothing() -> None:
    assert ask((5,) * 28, 6).outcome is ExhaustionOutcome.NOT_WITHIN_HORIZON
    assert ask(tuple(reversed(RISING)), 40).outcome is ExhaustionOutcome.NOT_WITHIN_HORIZON


def test_the_horizon_is_its_last_day() -> None:
    assert ask(RISING, 28 + HORIZON_DAYS).on == TODAY + timedelta(days=HORIZON_DAYS)
    assert ask(RISING, 29 + HORIZON_DAYS).outcome is ExhaustionOutcome.NOT_WITHIN_HORIZON


def test_thirteen_days_are_too_little_history() -> None:
    assert ask(RISING[:13], 20) == Exhaustion(ExhaustionOutcome.TOO_LITTLE_HISTORY)
    assert ask(RISING[:14], 20).outcome is ExhaustionOutcome.EXPECTED


def test_one_wild_day_does_not_bend_the_line() -> None:
    wild = [*RISING[:20], 500, *RISING[21:]]

    assert ask(wild, 40) == ask(RISING, 40)


@given(peaks=peaks_of_days, limit=st.integers(min_value=0, max_value=400))
def test_a_higher_limit_is_never_reached_sooner(peaks: list[int], limit: int) -> None:
    def day(found: Exhaustion) -> date:
        if found.outcome is ExhaustionOutcome.REACHED:
            return TODAY
        return found.on or date.max

    assert day(ask(peaks, limit)) <= day(ask(peaks, limit + 1))


@given(peaks=peaks_of_days, limit=st.integers(min_value=0, max_value=400))
def test_a_day_is_reported_exactly_when_it_is_expected(peaks: list[int], limit: int) -> None:
    found = ask(peaks, limit)

    assert (found.on is not None) == (found.outcome is ExhaustionOutcome.EXPECTED)
    if found.on is not None:
        assert 1 <= (found.on - TODAY).days <= HORIZON_DAYS

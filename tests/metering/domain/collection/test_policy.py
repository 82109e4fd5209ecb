"""Patience has limits, and they are in one place."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.collection.windows import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    DEFAULT_POLICY,
    backoff_seconds,
    is_gap,
    query_time,
)

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
END = HOUR + timedelta(hours=1)


@given(st.integers(1, 1_000), st.text())
def test_the_wait_is_bounded_and_the_same_for_the_same_seed(failures: int, seed: str) -> None:
    wait = backoff_seconds(failures=failures, seed=seed)

    assert BACKOFF_SECONDS_MIN <= wait <= BACKOFF_SECONDS_MAX * 5 // 4
    assert wait == backoff_seconds(failures=failures, seed=seed)


@given(st.text(), st.integers(1, 5))
def test_the_wait_grows_with_every_failure(seed: str, failures: int) -> None:
    assert backoff_seconds(failures=failures, seed=seed) < backoff_seconds(
        failures=failures + 1, seed=seed
    )


def test_windows_do_not_come_back_all_at_once() -> None:
    waits = {backoff_seconds(failures=4, seed=str(seed)) for seed in range(100)}

    assert len(waits) > 15
    assert min(waits) >= 120
    assert max(waits) <= 150


def asked(at: datetime, *, failures: int = 0) -> datetime:
    return query_time(
        DEFAULT_POLICY, start_at=HOUR, at=at, scrape_interval_seconds=30, failures=failures
    )


@pytest.mark.parametrize(
    ("failures", "minutes"), [(0, 15), (1, 30), (2, 60), (5, 480), (6, 480), (99, 480)]
)
def test_each_failure_looks_twice_as_far_ahead_up_to_eight_hours(
    failures: int, minutes: int
) -> None:
    assert asked(END + timedelta(days=9), failures=failures) == END + timedelta(minutes=minutes)


def test_nothing_is_asked_of_the_future() -> None:
    at = END + timedelta(minutes=20)

    assert asked(at, failures=3) == at


def test_a_window_is_not_asked_about_before_it_is_due() -> None:
    with pytest.raises(ValueError, match="not due before 2026-10-05T14:15"):
        asked(END + timedelta(minutes=14))


@pytest.mark.parametrize(
    ("hours", "failures", "expected"),
    [(1, 1, False), (1, 5, False), (1, 6, True), (23, 1, False), (24, 1, True)],
)
def test_a_gap_is_declared_after_six_answers_or_a_day(
    hours: int, failures: int, *, expected: bool
) -> None:
    at = END + timedelta(hours=hours)

    assert is_gap(DEFAULT_POLICY, start_at=HOUR, at=at, failures=failures) is expected

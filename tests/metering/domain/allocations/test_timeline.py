"""Timelines: begin and end from the object's own times, and how sure they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.allocations.timeline import (
    EndKind,
    Interval,
    Life,
    clip,
    is_blind_at,
    life_of,
    observed_ticks,
    seconds_between,
    whole_second,
)

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
SCRAPE = 30
LATE = Decimal("10.9")
"""Seconds are counted whole, downwards."""


Seconds = int | Decimal


def at(seconds: Seconds) -> datetime:
    return HOUR + timedelta(microseconds=int(seconds * 1_000_000))


@dataclass(frozen=True)
class Seen:
    scheduled_at: datetime | None
    last_seen_at: datetime
    finished_at: datetime | None = None
    terminal_seen_at: datetime | None = None


def seen(
    scheduled: Seconds | None,
    last: Seconds,
    *,
    finished: Seconds | None = None,
    terminal: Seconds | None = None,
) -> Seen:
    return Seen(
        scheduled_at=None if scheduled is None else at(scheduled),
        last_seen_at=at(last),
        finished_at=None if finished is None else at(finished),
        terminal_seen_at=None if terminal is None else at(terminal),
    )


TICKS = tuple(at(second) for second in range(-113, 4600, SCRAPE))


def life(pod: Seen, ticks: Sequence[datetime] = TICKS) -> Life | None:
    return life_of(pod, ticks=ticks, scrape_interval_seconds=SCRAPE)


def holed(begin: int, end: int) -> tuple[datetime, ...]:
    return tuple(tick for tick in TICKS if not at(begin) < tick < at(end))


# ---------------------------------------------------------------- lives


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        # Never bound.
        (seen(None, 1000), None),
        # Terminal, with the containers' end: exact to the second.
        (seen(10, 900, finished=800, terminal=817), Life(at(10), at(800), EndKind.EXACT)),
        (seen(LATE, 900, finished=790 + LATE, terminal=817), Life(at(10), at(800), EndKind.EXACT)),
        # A container that ended before the bind cannot be.
        (seen(10, 900, finished=5, terminal=817), Life(at(10), at(10), EndKind.EXACT)),
        # Terminal soon after the bind without any container's end: refused by the kubelet.
        (seen(10, 900, terminal=37), None),
        (seen(10, 900, terminal=85), None),
        # Terminal later without one: it ended within the last scrape.
        (seen(10, 900, terminal=97), Life(at(10), at(97), EndKind.VANISHED, 30)),
        # Still there at the last look.
        (seen(10, 4597), Life(at(10), None, EndKind.OPEN)),
        # Gone between two scrapes: the middle, give or take half a scrape.
        (seen(10, 607), Life(at(10), at(622), EndKind.VANISHED, 15)),
        # Bound after its last observation: it held nothing that anybody saw.
        (seen(700, 607), Life(at(700), at(700), EndKind.VANISHED, 15)),
    ],
)
def test_a_life_is_reported_by_the_objects_times(pod: Seen, expected: Life | None) -> None:
    assert life(pod) == expected


def test_a_pod_gone_after_a_hole_lived_at_least_to_its_last_observation() -> None:
    ticks = holed(607, 757)

    assert life(seen(10, 607), ticks) == Life(at(10), at(607), EndKind.VANISHED_IN_GAP, 150)


def test_two_scrapes_seventy_five_seconds_apart_are_no_hole_and_more_is() -> None:
    near, far = [at(607), at(682)], [at(607), at(683)]

    assert life(seen(10, 607), near) == Life(at(10), at(644), EndKind.VANISHED, 38)
    assert life(seen(10, 607), far) == Life(at(10), at(607), EndKind.VANISHED_IN_GAP, 76)


def test_a_pod_found_terminal_after_a_hole_lived_at_least_to_the_scrape_before() -> None:
    ticks = holed(607, 757)

    assert life(seen(10, 900, terminal=757), ticks) == Life(
        at(10), at(607), EndKind.VANISHED_IN_GAP, 150
    )


def test_a_pod_terminal_from_the_first_look_on_may_have_ended_any_time_before() -> None:
    assert life(seen(-900, 900, terminal=-113)) == Life(
        at(-900), at(-900), EndKind.VANISHED_IN_GAP, 787
    )


# ---------------------------------------------------------------- clips


def clipped(lived: Life) -> Interval | None:
    return clip(lived, start_at=HOUR, end_at=at(3600))


@pytest.mark.parametrize(
    ("lived", "expected"),
    [
        (
            Life(at(-50), None, EndKind.OPEN),
            Interval(HOUR, at(3600), EndKind.OPEN, 0),
        ),
        (
            Life(at(5), at(65), EndKind.EXACT),
            Interval(at(5), at(65), EndKind.EXACT, 0),
        ),
        # Whatever comes after the window, the window shows the same.
        (
            Life(at(5), at(3600), EndKind.EXACT),
            Interval(at(5), at(3600), EndKind.OPEN, 0),
        ),
        (
            Life(at(5), at(9999), EndKind.VANISHED, 15),
            Interval(at(5), at(3600), EndKind.OPEN, 0),
        ),
        # Its end may lie inside the window after all.
        (
            Life(at(5), at(3605), EndKind.VANISHED, 15),
            Interval(at(5), at(3600), EndKind.VANISHED, 15),
        ),
        # A lower bound past the window is past the window.
        (
            Life(at(5), at(3605), EndKind.VANISHED_IN_GAP, 600),
            Interval(at(5), at(3600), EndKind.OPEN, 0),
        ),
        (
            Life(at(5), at(3000), EndKind.VANISHED_IN_GAP, 600),
            Interval(at(5), at(3000), EndKind.VANISHED_IN_GAP, 600),
        ),
        # Outside, or empty.
        (Life(at(-50), at(0), EndKind.EXACT), None),
        (Life(at(3600), None, EndKind.OPEN), None),
        (Life(at(7), at(7), EndKind.EXACT), None),
    ],
)
def test_a_window_holds_its_own_part_of_a_life(lived: Life, expected: Interval | None) -> None:
    assert clipped(lived) == expected


def test_an_intervals_seconds_are_whole() -> None:
    assert Interval(at(5), at(65), EndKind.EXACT, 0).seconds == 60


lives = st.builds(
    lambda begin, length: Life(at(begin), at(begin + length), EndKind.EXACT),
    st.integers(-90_000, 90_000),
    st.integers(0, 90_000),
)


@given(lives)
def test_hours_share_out_every_second_of_a_life_once(lived: Life) -> None:
    hours = [HOUR + timedelta(hours=hour) for hour in range(-26, 52)]
    parts = [clip(lived, start_at=h, end_at=h + timedelta(hours=1)) for h in hours]
    assert lived.end_at is not None

    seconds = sum(part.seconds for part in parts if part is not None)

    assert seconds == (lived.end_at - lived.begin_at) // timedelta(seconds=1)


@given(
    scheduled=st.integers(-7200, 7200),
    finished=st.none() | st.integers(-7200, 7200),
    terminal=st.none() | st.integers(-113, 4597),
    last=st.integers(-113, 4597),
    lost=st.sets(st.integers(0, 150), max_size=60),
)
def test_whatever_was_seen_an_interval_lies_in_its_window(
    scheduled: int, finished: int | None, terminal: int | None, last: int, lost: set[int]
) -> None:
    ticks = [tick for index, tick in enumerate(TICKS) if index not in lost]

    lived = life(seen(scheduled, last, finished=finished, terminal=terminal), ticks)
    part = None if lived is None else clipped(lived)

    if lived is not None and lived.end_at is not None:
        assert lived.end_at >= lived.begin_at == at(scheduled)
        assert lived.slack_seconds >= 0
    if part is not None:
        assert HOUR <= part.begin_at < part.end_at <= at(3600)
        assert 1 <= part.seconds <= 3600


# ---------------------------------------------------------------- coverage


def observed(ticks: Sequence[datetime]) -> int:
    return observed_ticks(
        ticks,
        start_at=HOUR,
        end_at=at(3600),
        scrape_interval_seconds=SCRAPE,
        expected=120,
    )


def test_an_hour_with_every_scrape_is_fully_observed() -> None:
    assert observed(TICKS) == 120
    assert observed([tick for tick in TICKS if HOUR <= tick < at(3600)]) == 120


@pytest.mark.parametrize(
    ("hole", "expected"),
    [
        ((600, 660), 118),
        ((-200, 600), 100),
        ((3000, 9999), 100),
        ((3000, 4000), 100),
        ((-200, 9999), 0),
        ((-90, -10), 120),
        ((3610, 3800), 120),
    ],
)
def test_missing_scrapes_are_counted_where_they_are_missing(
    hole: tuple[int, int], expected: int
) -> None:
    assert observed(holed(*hole)) == expected


def test_two_replicas_side_by_side_do_not_cover_for_a_hole() -> None:
    twins = sorted({*holed(1800, 3600), *(t + timedelta(seconds=11) for t in holed(1800, 3600))})

    assert len([tick for tick in twins if HOUR <= tick < at(3600)]) == 120
    assert observed(twins) == 60


def test_jitter_is_no_hole() -> None:
    jittered = [tick + timedelta(seconds=(index * 7 % 11) - 5) for index, tick in enumerate(TICKS)]

    assert observed(jittered) == 120


def test_nothing_expected_is_never_less_than_nothing() -> None:
    count = observed_ticks(
        [at(0)], start_at=HOUR, end_at=at(3600), scrape_interval_seconds=SCRAPE, expected=10
    )

    assert count == 0


@given(st.sets(st.integers(4, 123)))
def test_every_lost_scrape_lowers_the_count_by_one(lost: set[int]) -> None:
    kept = [tick for index, tick in enumerate(TICKS) if index not in lost]

    assert observed(kept) == 120 - len(lost)


@pytest.mark.parametrize(
    ("ticks", "expected"), [((), True), ((at(3599),), True), ((at(3600),), False)]
)
def test_an_end_nobody_saw_is_reported(ticks: tuple[datetime, ...], *, expected: bool) -> None:
    assert is_blind_at(at(3600), ticks=ticks) is expected


def test_fractions_of_a_second_are_dropped() -> None:
    late = HOUR + timedelta(seconds=9, microseconds=999_999)

    assert whole_second(late) == HOUR + timedelta(seconds=9)
    assert seconds_between(HOUR, late) == 9


def test_time_backwards_is_no_time() -> None:
    assert seconds_between(HOUR, HOUR - timedelta(seconds=5)) == 0

"""Billed, held and idle add up to what a node offered, and too much is reported."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.collection.capacity import Balance, ObservedCapacity, balance_of, blind_seconds

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)

HOUR_START = datetime(2026, 10, 5, 12, tzinfo=UTC)


def balance(offer: ObservedCapacity) -> Balance:
    return balance_of(offer, scrape_interval_seconds=30, window_seconds=3600)


@pytest.mark.parametrize(
    ("offer", "expected"),
    [
        (ObservedCapacity(8, 28_800, 7200, 3600), Balance(28_800, 18_000, 3600)),
        (ObservedCapacity(8, 14_400, 0, 0), Balance(14_400, 14_400)),
        (ObservedCapacity(1, 3600, 3600, 0), Balance(3600, 0)),
        # The node was seen a scrape late: the pod proves that it was there.
        (ObservedCapacity(1, 3540, 3600, 0), Balance(3600, 0)),
        (ObservedCapacity(1, 3539, 3600, 0), Balance(3539, -61, is_over_capacity=True)),
        # Uncertain ends explain as much as they are uncertain.
        (ObservedCapacity(1, 3600, 3675, 0, slack_unit_seconds=15), Balance(3675, 0)),
        (
            ObservedCapacity(1, 3600, 3676, 0, slack_unit_seconds=15),
            Balance(3600, -76, is_over_capacity=True),
        ),
        # A node never seen to offer any.
        (ObservedCapacity(0, 0, 60, 0, units_in_use_max=1), Balance(60, 0)),
        (ObservedCapacity(0, 0, 0, 61, units_in_use_max=1), Balance(61, 0, 61, is_unseen=True)),
        # What only one source shows of is held as far as there was room for it.
        (ObservedCapacity(1, 3600, 1200, 600, disputed_unit_seconds=900), Balance(3600, 900, 1500)),
        (ObservedCapacity(1, 3600, 3000, 0, disputed_unit_seconds=900), Balance(3600, 0, 600)),
        (ObservedCapacity(1, 3600, 3600, 0, disputed_unit_seconds=900), Balance(3600, 0, 0)),
        (ObservedCapacity(0, 0, 0, 0, disputed_unit_seconds=900), Balance(0, 0, 0)),
        (ObservedCapacity(0, 0, 0, 0), Balance(0, 0)),
    ],
)
def test_an_offer_is_shared_out(offer: ObservedCapacity, expected: Balance) -> None:
    assert balance(offer) == expected


@given(
    units=st.integers(0, 64),
    offered=st.integers(0, 250_000),
    billed=st.integers(0, 500_000),
    held=st.integers(0, 500_000),
    disputed=st.integers(0, 500_000),
    slack=st.integers(0, 500_000),
)
def test_the_parts_always_add_up(
    units: int, offered: int, billed: int, held: int, disputed: int, slack: int
) -> None:
    found = balance(
        ObservedCapacity(
            units, offered, billed, held, disputed_unit_seconds=disputed, slack_unit_seconds=slack
        )
    )

    parts = billed + found.held_unit_seconds + found.idle_unit_seconds
    assert found.capacity_unit_seconds == parts
    assert held <= found.held_unit_seconds <= held + disputed
    assert (found.idle_unit_seconds < 0) is found.is_over_capacity


@given(st.integers(1, 16), st.lists(st.integers(0, 3600), max_size=16))
def test_shares_of_one_device_and_idle_are_one_device(replicas: int, seconds: list[int]) -> None:
    used = seconds[:replicas]

    found = balance(ObservedCapacity(replicas, replicas * 3600, sum(used), 0))

    assert found.idle_unit_seconds + sum(used) == replicas * 3600


def _ticks(*minutes: int) -> list[datetime]:
    return [HOUR_START + timedelta(minutes=minute) for minute in minutes]


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [
        (range(-2, 64), 0),
        ((*range(-2, 11), *range(35, 64)), 24 * 60),
        ((*range(-30, -10), *range(20, 64)), 20 * 60 - 30),
        ((*range(-2, 50), *range(90, 95)), 10 * 60 + 30),
        (range(20, 64), 0),
        ((), 0),
    ],
    ids=["no hole", "inside", "over the begin", "over the end", "begins late", "never"],
)
def test_blind_seconds_are_those_in_holes_between_scrapes(
    minutes: Iterable[int], seconds: int
) -> None:
    found = blind_seconds(
        _ticks(*minutes),
        start_at=HOUR_START,
        end_at=HOUR_START + timedelta(hours=1),
        scrape_interval_seconds=60,
    )

    assert found == seconds


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (range(-30, 3700, 30), 0),
        ((-30, 0, 600, 3600), 570 + 2970),
        ((0, 75, 3600), 3495),
        ((-600, 600), 585),
        ((3000, 4000), 585),
        ((-900, -600, 4000, 9000), 3600),
        ((0,), 0),
        ((), 0),
    ],
)
def test_a_hole_between_two_scrapes_is_time_nobody_saw(
    seconds: Sequence[int], expected: int
) -> None:
    found = blind_seconds(
        [HOUR + timedelta(seconds=second) for second in seconds],
        start_at=HOUR,
        end_at=HOUR + timedelta(hours=1),
        scrape_interval_seconds=30,
    )

    assert found == expected

"""Energy is split exactly: what parts get and what nobody accounts for is what the GPU took."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.devices.energy import EnergyPart, EnergySplit, share_out, split_device

HOUR = datetime(2026, 10, 5, 13, tzinfo=UTC)
SLICES = 7


def at(seconds: int) -> datetime:
    return HOUR + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Energy:
    marks: tuple[datetime, ...]
    taken_millijoules: tuple[int, ...]
    idle_milliwatts: int | None = None


def took(*taken: int, seconds: int = 3600, idle: int | None = None) -> Energy:
    """Return the energy of an hour, marked at even steps."""
    step = seconds // (len(taken) - 1)
    return Energy(tuple(at(index * step) for index in range(len(taken))), taken, idle)


def part(
    slices: int, activity: str | None = "0", begin: int = 0, end: int = 3600, *, held: bool = True
) -> EnergyPart:
    reported = None if activity is None else Decimal(activity)
    return EnergyPart(at(begin), at(end), slices, reported, held)


def split(energy: Energy, *parts: EnergyPart, slices: int = SLICES) -> EnergySplit:
    return split_device(energy, parts=parts, slices=slices)


@pytest.mark.parametrize(
    ("total", "weights", "parts"),
    [
        (10, (1, 1), (5, 5)),
        (10, (1, 1, 1), (4, 3, 3)),
        (11, (1, 1, 1), (4, 4, 3)),
        (5, (0, 3), (0, 5)),
        (0, (1, 2), (0, 0)),
        (7, (0, 0), (0, 0)),
        (7, (), ()),
        (100, (2, 1, 4), (29, 14, 57)),
    ],
)
def test_a_total_is_shared_out_by_largest_remainder(
    total: int, weights: tuple[int, ...], parts: tuple[int, ...]
) -> None:
    assert share_out(total, weights=weights) == parts


@pytest.mark.parametrize(("total", "weights"), [(-1, (1,)), (1, (1, -1))])
def test_nothing_negative_is_shared_out(total: int, weights: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="not negative"):
        share_out(total, weights=weights)


@given(st.integers(0, 10**13), st.lists(st.integers(0, 10**9), min_size=1, max_size=12))
def test_parts_add_up_and_are_within_one_of_their_share(total: int, weights: list[int]) -> None:
    parts = share_out(total, weights=weights)

    whole = sum(weights)
    assert sum(parts) == (total if whole else 0)
    for amount, weight in zip(parts, weights, strict=True):
        assert abs(amount * whole - total * weight) < whole or whole == 0
        assert weight or amount == 0


def test_a_whole_gpu_takes_all_of_it() -> None:
    assert split(took(0, 1_000), part(1, None), slices=1) == EnergySplit((1_000,), 0)


def test_idle_power_goes_by_slices_and_the_rest_by_activity() -> None:
    # 70 W idle is 252,000 J of an hour; 700,000 J were taken.
    energy = took(0, 700_000_000, idle=70_000)

    found = split(energy, part(3, "0.8"), part(2, "0.4"), part(1, "0", held=False))

    # Idle 252 kJ by 3:2:1 and 1 slice nobody has; dynamic 448 kJ by 2.4 : 0.8 : 0.
    assert found == EnergySplit(
        (108_000_000 + 336_000_000, 72_000_000 + 112_000_000, 36_000_000), 36_000_000
    )


def test_without_activity_everything_goes_by_slices() -> None:
    energy = took(0, 700, idle=0)

    assert split(energy, part(3, None), part(2, "0.9")) == EnergySplit((300, 200), 200)


def test_an_idle_instance_without_activity_hides_nobody_elses() -> None:
    energy = took(0, 700, idle=0)

    found = split(energy, part(3, "0.5"), part(2, None, held=False))

    assert found == EnergySplit((700, 0), 0)


def test_when_nobody_was_active_everything_goes_by_slices() -> None:
    assert split(took(0, 700, idle=0), part(3), part(4)) == EnergySplit((300, 400), 0)


def test_idle_power_is_never_more_than_what_was_taken() -> None:
    energy = took(0, 700, idle=10**9)

    assert split(energy, part(3, "1"), part(4, "0")) == EnergySplit((300, 400), 0)


def test_a_gpu_that_was_never_idle_is_held_to_what_others_take_idle() -> None:
    energy = took(0, 700_000_000, idle=190_000)

    # 100 W are 360 kJ of the hour, by slices; 340 kJ by activity.
    assert split(energy, part(3, "1"), part(4, "0")) == EnergySplit(
        (154_285_714 + 340_000_000, 205_714_286), 0
    )


def test_a_part_takes_only_of_the_steps_it_covers() -> None:
    energy = took(0, 100, 1_100, idle=0)

    found = split(energy, part(1, "1", 0, 1800), part(1, "1", 1800, 3600), slices=1)

    assert found == EnergySplit((100, 1_000), 0)


def test_a_step_that_no_part_covers_is_overhead() -> None:
    energy = took(0, 100, 300, 600)

    found = split(energy, part(1, "1", 0, 1200), part(1, "1", 2400, 3600), slices=1)

    assert found == EnergySplit((100, 300), 200)


def test_more_slices_than_a_gpu_has_still_take_no_more_than_all() -> None:
    assert split(took(0, 900), *[part(4, None)] * 3) == EnergySplit((300, 300, 300), 0)


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=6),
    st.lists(
        st.tuples(
            st.integers(1, 7),
            st.decimals(0, 1, places=6) | st.none(),
            st.integers(0, 5),
            st.integers(1, 6),
            st.booleans(),
        ),
        max_size=8,
    ),
    st.none() | st.integers(0, 10**6),
)
def test_whatever_the_parts_nothing_is_lost_or_made(
    steps: list[int],
    reported: list[tuple[int, Decimal | None, int, int, bool]],
    idle: int | None,
) -> None:
    taken = [0]
    for step in steps:
        taken.append(taken[-1] + step)
    energy = Energy(tuple(at(index * 600) for index in range(len(taken))), tuple(taken), idle)
    parts = [
        EnergyPart(at(begin * 600), at(max(begin + 1, end) * 600), slices, activity, held)
        for slices, activity, begin, end, held in reported
    ]

    found = split(energy, *parts)

    assert sum(found.parts) + found.overhead == taken[-1]
    assert all(amount >= 0 for amount in found.parts)
    assert found.overhead >= 0

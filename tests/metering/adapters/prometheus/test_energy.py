"""Energy: lines through counters, cut anywhere, adding up."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.adapters.prometheus.energy import energy_line


def counter(*values: tuple[int, int]) -> dict[int, Decimal]:
    return {seconds * 1000: Decimal(millijoules) for seconds, millijoules in values}


def test_a_stretch_takes_the_difference_of_the_counter() -> None:
    line = energy_line(counter((0, 500), (60, 18_500), (120, 36_500)))

    assert line.between(0, 120_000) == 36_000
    assert line.between(60_000, 120_000) == 18_000


def test_a_cut_inside_a_step_takes_its_part() -> None:
    line = energy_line(counter((0, 0), (60, 60_001)))

    assert line.between(0, 30_000) == 30_000
    assert line.between(30_000, 60_000) == 30_001


def test_a_counter_that_fell_began_anew() -> None:
    line = energy_line(counter((0, 900_000), (60, 920_000), (120, 5_000), (180, 6_000)))

    assert line.between(0, 180_000) == 20_000 + 5_000 + 1_000


def test_nothing_is_taken_outside_the_samples() -> None:
    line = energy_line(counter((60, 0), (120, 6_000)))

    assert line.between(0, 180_000) == 6_000


@pytest.mark.parametrize("values", [(), ((60, 5),)], ids=["no sample", "one sample"])
def test_no_line_says_nothing(values: tuple[tuple[int, int], ...]) -> None:
    assert energy_line(counter(*values)).between(0, 120_000) is None


@pytest.mark.parametrize(("begin", "end"), [(0, 60_000), (120_000, 180_000)])
def test_a_stretch_beside_the_line_is_unknown_not_zero(begin: int, end: int) -> None:
    assert energy_line(counter((60, 0), (120, 6_000))).between(begin, end) is None


def test_a_step_steeper_than_any_GPU_gives_the_line_up() -> None:  # noqa: N802 - Names.
    glitch = counter((0, 10**12), (60, 0), (120, 10**12))

    assert energy_line(glitch).between(0, 120_000) is None


@given(
    st.lists(st.tuples(st.integers(1, 120), st.integers(0, 5_000_000)), min_size=2, max_size=20),
    st.integers(0, 2400),
)
def test_parts_add_up_to_the_whole(steps: list[tuple[int, int]], cut: int) -> None:
    at = taken = 0
    values = [(0, 0)]
    for seconds, millijoules in steps:
        at, taken = at + seconds, taken + min(millijoules, seconds * 5_000_000)
        values.append((at, taken))
    line = energy_line(counter(*values))
    cut = min(cut, at)

    parts = (line.between(0, cut * 1000) or 0) + (line.between(cut * 1000, at * 1000) or 0)

    assert parts == taken

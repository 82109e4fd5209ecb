"""Energy: lines through counters, cut anywhere, adding up."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.adapters.prometheus.devices.columns import Column
from metering.adapters.prometheus.devices.energy import energy_line, power_line
from metering.adapters.prometheus.nodes import Hours

HOUR = Hours(start=0, end=3_600_000, scrape=60_000)


def counter(*values: tuple[int, int]) -> Column:
    """Return a column of values at seconds."""
    return Column([at * 1000 for at, _ in values], array("q", [value for _, value in values]))


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


def test_power_is_added_up_by_trapezoids() -> None:
    line = power_line(counter((0, 100_000), (60, 300_000), (120, 300_000)), HOUR)

    assert line.between(0, 60_000) == 60 * 200_000
    assert line.between(0, 120_000) == 60 * 200_000 + 60 * 300_000


def test_power_across_a_hole_is_not_known() -> None:
    holed = counter((0, 100_000), (60, 100_000), (211, 100_000))

    assert power_line(holed, HOUR).between(0, 60_000) is None


def test_power_two_and_a_half_scrapes_apart_is_added_up() -> None:
    assert power_line(counter((0, 1_000), (150, 1_000)), HOUR).between(0, 150_000) == 150_000


def test_no_power_says_nothing() -> None:
    assert power_line(counter(), HOUR).between(0, 60_000) is None


@given(
    st.lists(st.tuples(st.integers(1, 150), st.integers(0, 5_000_000)), min_size=1, max_size=20),
    st.integers(0, 3000),
)
def test_parts_of_a_power_line_add_up_to_the_whole(steps: list[tuple[int, int]], cut: int) -> None:
    at = 0
    values = [(0, 1_000)]
    for seconds, milliwatts in steps:
        at += seconds
        values.append((at, milliwatts))
    line = power_line(counter(*values), HOUR)
    cut = min(cut, at)

    parts = (line.between(0, cut * 1000) or 0) + (line.between(cut * 1000, at * 1000) or 0)

    assert parts == line.between(0, at * 1000)

"""Unit-seconds are whole integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.units import UNITS_MAX, is_believable, unit_seconds

counts = st.integers(0, UNITS_MAX)


@given(counts, st.integers(0, 3600), st.integers(0, 3600))
def test_seconds_add_up_over_any_cut(units: int, first: int, second: int) -> None:
    whole = unit_seconds(units=units, seconds=first + second)

    assert whole == unit_seconds(units=units, seconds=first) + unit_seconds(
        units=units, seconds=second
    )


@pytest.mark.parametrize(("units", "seconds"), [(-1, 1), (1, -1)])
def test_less_than_nothing_is_a_mistake(units: int, seconds: int) -> None:
    with pytest.raises(ValueError, match="not negative"):
        unit_seconds(units=units, seconds=seconds)


@pytest.mark.parametrize(
    ("units", "expected"), [(-1, False), (0, False), (1, True), (10_000, True), (10_001, False)]
)
def test_a_request_is_believable_within_bounds(units: int, *, expected: bool) -> None:
    assert is_believable(units) is expected


@pytest.mark.parametrize(
    ("units", "expected"),
    [(-1, False), (0, False), (40_960, True), (10**12, True), (10**12 + 1, False)],
)
def test_of_an_unknown_device_many_more_are_believed(units: int, *, expected: bool) -> None:
    assert is_believable(units, is_sized=False) is expected

"""What is held against what may be held."""

from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.headroom import Headroom

UNITS = st.integers(min_value=0, max_value=1_000)


def test_without_a_limit_nothing_is_free_or_over() -> None:
    headroom = Headroom(limit_units=None, used_units=3)

    assert (headroom.free_units, headroom.over_units, headroom.used_percent) == (None, 0, None)


def test_a_limit_of_zero_is_full() -> None:
    assert Headroom(limit_units=0, used_units=0).used_percent == 100


def test_percent_is_rounded_down_so_that_full_means_full() -> None:
    assert Headroom(limit_units=3, used_units=2).used_percent == 66
    assert Headroom(limit_units=1_000, used_units=999).used_percent == 99


@given(limit=UNITS, used=UNITS)
def test_limit_is_used_plus_free_minus_over(limit: int, used: int) -> None:
    headroom = Headroom(limit_units=limit, used_units=used)

    assert headroom.free_units is not None
    assert used + headroom.free_units - headroom.over_units == limit
    assert headroom.free_units == 0 or headroom.over_units == 0
    assert 0 <= (headroom.used_percent or 0) <= 100

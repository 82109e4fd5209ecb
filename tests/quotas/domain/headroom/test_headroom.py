"""What is held and let in against what may be held."""

from hypothesis import given
from hypothesis import strategies as st

from quotas.domain.headroom.headroom import Headroom

UNITS = st.integers(min_value=0, max_value=1_000)


def test_without_a_limit_nothing_is_free_or_over() -> None:
    headroom = Headroom(limit_units=None, used_units=3)

    assert (headroom.free_units, headroom.over_units, headroom.used_percent) == (None, 0, None)
    assert headroom.held_percent == 0


def test_a_limit_of_zero_is_full() -> None:
    assert Headroom(limit_units=0, used_units=0).used_percent == 100
    assert Headroom(limit_units=0, used_units=0).held_percent == 0
    assert Headroom(limit_units=0, used_units=1).held_percent == 100


def test_percent_is_rounded_down_so_that_full_means_full() -> None:
    assert Headroom(limit_units=3, used_units=2).used_percent == 66
    assert Headroom(limit_units=1_000, used_units=999).used_percent == 99


def test_what_was_let_in_and_is_not_bound_yet_is_taken_too() -> None:
    headroom = Headroom(limit_units=8, used_units=4, reserved_units=3)

    assert (headroom.taken_units, headroom.free_units) == (7, 1)
    assert (headroom.held_percent, headroom.used_percent) == (50, 87)


def test_burst_units_have_room_of_their_own() -> None:
    headroom = Headroom(limit_units=8, used_units=8, burst_limit_units=4, burst_used_units=3)

    assert (headroom.free_units, headroom.burst_free_units) == (0, 1)
    assert Headroom(limit_units=8, used_units=0, burst_used_units=3).burst_free_units == 0


@given(limit=UNITS, used=UNITS, reserved=UNITS)
def test_limit_is_taken_plus_free_minus_over(limit: int, used: int, reserved: int) -> None:
    headroom = Headroom(limit_units=limit, used_units=used, reserved_units=reserved)

    assert headroom.free_units is not None
    assert headroom.taken_units + headroom.free_units - headroom.over_units == limit
    assert headroom.free_units == 0 or headroom.over_units == 0
    assert 0 <= headroom.held_percent <= (headroom.used_percent or 0) <= 100

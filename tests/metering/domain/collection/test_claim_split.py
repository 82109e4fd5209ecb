"""A claim is split among anyone who uses it, and the parts add up to the whole."""

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from metering.domain.collection.claim_split import NOBODY, ClaimPart, Use, split_claim
from tests.support.metering.seen import HOUR, moment


def use(pod_uid: str, begin: int, end: int | None = None) -> Use:
    return Use(pod_uid, moment(begin), None if end is None else moment(end))


def split(
    *uses: Use, units: int = 1, begin: int = 0, end: int = 3600
) -> dict[str, tuple[int, int]]:
    """Return unit-seconds and sharers by pod."""
    parts = split_claim(units=units, begin_at=moment(begin), end_at=moment(end), uses=uses)
    return {part.pod_uid: (part.unit_seconds, part.split_among) for part in parts}


def test_one_pod_pays_for_all_of_it() -> None:
    assert split(use("a", -100)) == {"a": (3600, 1)}


def test_nobodys_time_stays_with_the_claim() -> None:
    assert split() == {NOBODY: (3600, 1)}


def test_two_pods_pay_half_each_while_both_use_it() -> None:
    assert split(use("a", 0), use("b", 1800, 2700)) == {
        "a": (1800 + 450 + 900, 2),
        "b": (450, 2),
    }


def test_seconds_that_do_not_divide_go_to_those_who_have_the_least() -> None:
    assert split(use("a", 0), use("b", 0), use("c", 0), end=10) == {
        "a": (4, 3),
        "b": (3, 3),
        "c": (3, 3),
    }
    assert split(use("a", 0), use("b", 0), use("c", 0, 10), end=11) == {
        "a": (4, 3),
        "b": (4, 3),
        "c": (3, 3),
    }


def test_the_claims_own_part_shows_that_it_has_a_hole() -> None:
    parts = split_claim(units=2, begin_at=HOUR, end_at=moment(100), uses=[use("a", 40, 60)])

    assert parts == (
        ClaimPart(NOBODY, HOUR, moment(100), unit_seconds=160, split_among=2),
        ClaimPart("a", moment(40), moment(60), unit_seconds=40, split_among=1),
    )


def test_two_uses_of_one_pod_at_once_count_once() -> None:
    assert split(use("a", 0, 50), use("a", 20, 100), end=100) == {"a": (100, 1)}


def test_an_empty_stretch_has_no_parts() -> None:
    assert split(use("a", 0), begin=10, end=10) == {}


SECONDS = st.integers(min_value=-50, max_value=200)


@st.composite
def uses(draw: st.DrawFn) -> list[Use]:
    listed = []
    for _ in range(draw(st.integers(0, 6))):
        begin = draw(SECONDS)
        end = draw(st.none() | st.integers(min_value=begin, max_value=250))
        listed.append(use(draw(st.sampled_from("abcd")), begin, end))
    return listed


@given(uses=uses(), units=st.integers(1, 8), end=st.integers(0, 150))
def test_the_parts_add_up_and_each_fits_its_stretch(uses: list[Use], units: int, end: int) -> None:
    parts = split_claim(units=units, begin_at=HOUR, end_at=moment(end), uses=uses)

    assert sum(part.unit_seconds for part in parts) == units * end
    for part in parts:
        assert HOUR <= part.begin_at < part.end_at <= moment(end)
        whole = units * int((part.end_at - part.begin_at).total_seconds())
        assert 0 <= part.unit_seconds <= whole
        assert part.split_among > 1 or part.unit_seconds == whole


@given(uses=uses(), units=st.integers(1, 8), cut=st.integers(0, 100))
def test_no_part_is_more_than_a_unit_from_an_even_split(
    uses: list[Use], units: int, cut: int
) -> None:
    begin: datetime = moment(cut)
    parts = split_claim(units=units, begin_at=begin, end_at=moment(cut + 1), uses=uses)
    even = units // max(1, len(parts))

    assert all(part.unit_seconds in {even, even + 1} for part in parts)


@given(uses=uses(), units=st.integers(1, 8))
def test_the_order_in_which_uses_are_reported_changes_nothing(uses: list[Use], units: int) -> None:
    one = split_claim(units=units, begin_at=HOUR, end_at=moment(120), uses=uses)
    other = split_claim(units=units, begin_at=HOUR, end_at=moment(120), uses=uses[::-1])

    assert one == other

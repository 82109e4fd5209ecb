"""Parts of a window: every uid is in exactly one, and random ones are spread evenly."""

import re
from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.collection.parts import HEX, PARTS_MAX, WHOLE, Part, parts_of
from metering.selectors.allocations.parts import in_part, part_values

COUNTS = [1, 2, 3, 4, 7, 8, 16, 17, 64, 100, 256, 10_000]


@pytest.mark.parametrize(
    ("count", "parts"),
    [(0, 1), (1, 1), (2, 3), (3, 5), (4, 5), (5, 9), (16, 17), (17, 33), (256, 257), (999, 257)],
)
def test_parts_are_a_power_of_two_and_the_rest(count: int, parts: int) -> None:
    found = parts_of(count)

    assert len(found) == parts
    assert len({part.text for part in found}) == parts
    assert sum(part.is_rest for part in found) == (parts > 1)
    assert len(found) <= PARTS_MAX + 1


@given(uid=st.uuids(version=4), count=st.sampled_from(COUNTS))
def test_a_uid_of_kubernetes_is_in_one_part_and_not_the_rest(uid: UUID, count: int) -> None:
    holding = [part for part in parts_of(count) if part.holds(str(uid))]

    assert len(holding) == 1
    assert not holding[0].is_rest


@given(uid=st.text(max_size=64), count=st.sampled_from(COUNTS))
def test_any_text_is_in_exactly_one_part(uid: str, count: int) -> None:
    assert sum(part.holds(uid) for part in parts_of(count)) == 1


@pytest.mark.parametrize("uid", ["", "0", "A1b2", "Z-1", "g0", "0g", "no-uid-12", "\n0", "\u00e9f"])
def test_odd_uids_are_in_exactly_one_part(uid: str) -> None:
    for count in COUNTS:
        assert sum(part.holds(uid) for part in parts_of(count)) == 1


@pytest.mark.parametrize("count", [2, 4, 16, 64, 256])
def test_parts_are_equally_wide(count: int) -> None:
    parts = [part for part in parts_of(count) if not part.is_rest]
    beginnings = [first + second for first in HEX for second in HEX]

    held = Counter(part.text for part in parts for one in beginnings if part.holds(one))

    assert set(held.values()) == {256 // count}


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("", HEX),
        ("a", "a"),
        ("[0123]", "0123"),
        ("a[0123]", "a"),
        ("[89]", "89"),
        ("![0123456789abcdef]", ""),
    ],
)
def test_a_part_knows_the_first_digits_of_its_uids(text: str, digits: str) -> None:
    assert Part(text).first_digits == digits


@pytest.mark.parametrize("text", ['"', "a.*", "[0-3]", "a|b", "!!a", "A", "[", "a\n", "[]"])
def test_what_is_no_pattern_of_digits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no part of a window"):
        Part(text)


def test_the_whole_is_one_part_that_holds_everything() -> None:
    assert parts_of(1) == (WHOLE,)
    assert WHOLE.is_whole
    assert not WHOLE.is_rest
    assert WHOLE.holds("")
    assert WHOLE.holds("anything")


@given(uid=st.text(max_size=20), count=st.sampled_from(COUNTS))
def test_the_database_divides_as_the_product_does(uid: str, count: int) -> None:
    for part in parts_of(count):
        values = part_values(part)
        pattern = str(values["part"])

        held = pattern == "" or (re.search(pattern, uid) is not None) != values["is_rest"]

        assert held == part.holds(uid)
        assert "%(part)s" in in_part("pod_uid")

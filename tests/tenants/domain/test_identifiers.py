"""Tests of public identifiers. Source of the example: RFC 9562, appendix A.6."""

from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.domain.identifiers import new_id, uuid7


def test_the_example_of_the_standard_comes_out() -> None:
    made = uuid7(unix_ms=0x017F22E279B0, random_a=0xCC3, random_b=0x18C4DC0C0C07398F)

    assert made == UUID("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**12 - 1), st.integers(0, 2**62 - 1))
def test_version_and_variant_are_those_of_the_standard(
    unix_ms: int, random_a: int, random_b: int
) -> None:
    made = uuid7(unix_ms=unix_ms, random_a=random_a, random_b=random_b)

    assert (made.version, made.variant) == (7, RFC_4122)
    assert made.int >> 80 == unix_ms


@pytest.mark.parametrize(
    ("unix_ms", "random_a", "random_b"),
    [(-1, 0, 0), (2**48, 0, 0), (0, 2**12, 0), (0, -1, 0), (0, 0, 2**62), (0, 0, -1)],
)
def test_parts_that_do_not_fit_are_a_mistake(unix_ms: int, random_a: int, random_b: int) -> None:
    with pytest.raises(ValueError, match="fit in"):
        uuid7(unix_ms=unix_ms, random_a=random_a, random_b=random_b)


def test_fresh_identifiers_differ() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000

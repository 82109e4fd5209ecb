"""Quantities are exact, in every spelling Kubernetes has."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.kubernetes_api.quota import (
    format_quantity,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", Fraction(8)),
        (8, Fraction(8)),
        ("0", Fraction(0)),
        ("500m", Fraction(1, 2)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("2k", Fraction(2000)),
        ("1Ki", Fraction(1024)),
        ("1Gi", Fraction(2**30)),
        ("1e3", Fraction(1000)),
        ("5E-1", Fraction(1, 2)),
        ("3E", Fraction(3 * 10**18)),
        ("100n", Fraction(1, 10**7)),
        ("-1", Fraction(-1)),
    ],
)
def test_every_spelling_has_its_value(text: object, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "many", "1 Gi", "1GiB", "0x10", "1e", "--1", True, "9" * 65])
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        parse_quantity(text)


@given(st.integers(-(10**12), 10**12))
def test_whole_numbers_come_back_as_they_went(value: int) -> None:
    assert parse_quantity(format_quantity(Fraction(value))) == value


@given(st.integers(0, 10**9))
def test_thousandths_come_back_as_they_went(value: int) -> None:
    assert parse_quantity(format_quantity(Fraction(value, 1000))) == Fraction(value, 1000)


def test_less_than_a_thousandth_is_rounded_up() -> None:
    assert format_quantity(Fraction(1, 10_000)) == "1m"

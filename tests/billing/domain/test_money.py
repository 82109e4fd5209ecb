"""Money is exact: rounded once, half up, and split without a rest."""

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.errors import CurrencyMismatchError, CurrencyUnknownError
from billing.domain.money import (
    Money,
    cost_of,
    decimal_of,
    minor_digits,
    price_of,
    round_half_up,
    round_money,
    split,
)
from tenants.domain.currencies import MINOR_DIGITS

CURRENCIES = st.sampled_from(["EUR", "JPY", "KWD"])
PRICES = st.decimals(min_value=0, max_value=10**9, places=10)
UNITS = st.integers(min_value=-(10**15), max_value=10**15)


@pytest.mark.parametrize(
    ("currency", "digits"), [("EUR", 2), ("USD", 2), ("JPY", 0), ("KWD", 3), ("XCG", 2)]
)
def test_each_currency_has_the_minor_digits_of_iso_4217(currency: str, digits: int) -> None:
    assert minor_digits(currency) == digits


def test_no_currency_has_more_digits_than_the_ledger_keeps() -> None:
    assert len(MINOR_DIGITS) == 155
    assert set(MINOR_DIGITS.values()) == {0, 2, 3}


@pytest.mark.parametrize("currency", ["XYZ", "eur", "", "DEM"])
def test_a_currency_outside_iso_4217_is_refused(currency: str) -> None:
    with pytest.raises(CurrencyUnknownError) as refused:
        minor_digits(currency)

    assert refused.value.code == "billing_currency_unknown"
    assert refused.value.facts == {"currency": currency}


def test_an_amount_takes_the_digits_of_its_currency() -> None:
    assert str(Money(Decimal("12.3"), "EUR").amount) == "12.30"
    assert str(Money(Decimal("12E1"), "JPY").amount) == "120"
    assert str(Money.zero("KWD").amount) == "0.000"


@pytest.mark.parametrize("amount", ["0.005", "NaN", "Infinity"])
def test_an_amount_that_would_lose_something_is_a_mistake(amount: str) -> None:
    with pytest.raises(ValueError, match=r"finer|finite"):
        Money(Decimal(amount), "EUR")


def test_currencies_are_never_mixed() -> None:
    with pytest.raises(CurrencyMismatchError) as refused:
        Money.zero("EUR") + Money.zero("USD")

    assert refused.value.code == "billing_currency_mismatch"


@pytest.mark.parametrize(
    ("numerator", "denominator", "rounded"),
    [(1, 2, 1), (-1, 2, -1), (3, 2, 2), (5, 4, 1), (-5, 4, -1), (0, 7, 0), (4, 2, 2)],
)
def test_halves_are_rounded_away_from_zero(numerator: int, denominator: int, rounded: int) -> None:
    assert round_half_up(numerator, denominator) == rounded


@pytest.mark.parametrize(
    ("unit_seconds", "price", "currency", "amount"),
    [
        (3600, "2.00", "EUR", "2.00"),
        (9, "2.00", "EUR", "0.01"),
        (8, "2.00", "EUR", "0.00"),
        (18, "1.00", "EUR", "0.01"),
        (1800, "1.00", "JPY", "1"),
        (1, "1.8", "KWD", "0.001"),
        (-9, "2.00", "EUR", "-0.01"),
        (10**18, "9999999999.9999999999", "EUR", "2777777777777777777750000.00"),
    ],
)
def test_a_line_is_multiplied_once_and_rounded_once(
    unit_seconds: int, price: str, currency: str, amount: str
) -> None:
    assert price_of(unit_seconds, unit_price=Decimal(price), currency=currency) == Money(
        Decimal(amount), currency
    )


@given(units=UNITS, price=PRICES, currency=CURRENCIES)
def test_pricing_agrees_with_decimal_arithmetic_of_enough_digits(
    units: int, price: Decimal, currency: str
) -> None:
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(units) * price / 3600
        expected = exact.quantize(Decimal(1).scaleb(-minor_digits(currency)), ROUND_HALF_UP)

    assert price_of(units, unit_price=price, currency=currency).amount == expected


@given(units=UNITS, price=PRICES, currency=CURRENCIES)
def test_a_sum_of_products_is_priced_as_one_product(
    units: int, price: Decimal, currency: str
) -> None:
    with localcontext() as context:
        context.prec = 60
        product = units * price

    assert cost_of(product, currency=currency) == price_of(
        units, unit_price=price, currency=currency
    )


@given(amount=st.decimals(min_value=-(10**12), max_value=10**12, places=6), currency=CURRENCIES)
def test_rounding_moves_by_at_most_half_a_minor_unit(amount: Decimal, currency: str) -> None:
    rounded = round_money(amount, currency).amount

    assert abs(rounded - amount) * 2 <= Decimal(1).scaleb(-minor_digits(currency))


@given(units=UNITS, digits=st.integers(min_value=0, max_value=10))
def test_whole_units_become_decimals_without_loss(units: int, digits: int) -> None:
    made = decimal_of(units, digits=digits)

    assert made.as_tuple().exponent == -digits
    assert made.scaleb(digits) == units


@given(
    total=st.integers(min_value=-(10**9), max_value=10**9),
    weights=st.lists(st.integers(min_value=0, max_value=10**6), min_size=1, max_size=9).filter(any),
)
def test_shares_add_up_and_each_is_within_a_unit_of_fair(total: int, weights: list[int]) -> None:
    shares = split(Money.of_minor_units(total, "EUR"), weights)

    assert sum(share.minor_units for share in shares) == total
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share.minor_units * sum(weights) - total * weight) < sum(weights)


def test_an_odd_cent_goes_to_the_largest_remainder_and_then_to_the_earlier() -> None:
    assert [s.minor_units for s in split(Money.of_minor_units(100, "EUR"), [1, 1, 1])] == [
        34,
        33,
        33,
    ]
    assert [s.minor_units for s in split(Money.of_minor_units(-10, "EUR"), [1, 2])] == [-3, -7]


@pytest.mark.parametrize("weights", [[], [0, 0], [2, -1]])
def test_weights_that_cannot_share_are_a_mistake(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="Weights"):
        split(Money.zero("EUR"), weights)

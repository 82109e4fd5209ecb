"""Money: exact amounts in one ISO 4217 currency, rounded half up and split without a rest.

Nothing here converts currencies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Self

from billing.domain.errors import CurrencyMismatchError, CurrencyUnknownError
from tenants.domain.currencies import MINOR_DIGITS

SECONDS_PER_HOUR: Final = 3600


def minor_digits(currency: str) -> int:
    """Return how many digits after the point a currency has.

    Raises:
        CurrencyUnknownError: It is not an active currency.
    """
    try:
        return MINOR_DIGITS[currency]
    except KeyError:
        raise CurrencyUnknownError(
            "The currency is not known.", field="currency", facts={"currency": currency}
        ) from None


@dataclass(frozen=True)
class Money:
    """An amount in whole minor units of its currency; negative amounts are credits."""

    amount: Decimal
    currency: str

    def __post_init__(self) -> None:
        """Bring the amount to the currency's digits, which must not lose any.

        Raises:
            CurrencyUnknownError: The currency is not an active one.
            ValueError: The amount is not finite or finer than the minor unit.
        """
        exact = decimal_of(self.minor_units, digits=minor_digits(self.currency))
        object.__setattr__(self, "amount", exact)

    @classmethod
    def of_minor_units(cls, units: int, currency: str) -> Self:
        """Return an amount from its minor units: cents, yen or mils."""
        return cls(decimal_of(units, digits=minor_digits(currency)), currency)

    @classmethod
    def zero(cls, currency: str) -> Self:
        """Return nothing of a currency."""
        return cls.of_minor_units(0, currency)

    @property
    def minor_units(self) -> int:
        """The amount in cents, yen or mils.

        Raises:
            ValueError: The amount is not finite or finer than the minor unit.
        """
        digits = minor_digits(self.currency)
        if not self.amount.is_finite():
            raise ValueError("An amount is finite.")
        numerator, denominator = self.amount.as_integer_ratio()
        scale: int = 10**digits
        units, rest = divmod(numerator * scale, denominator)
        if rest:
            raise ValueError(f"{self.amount} is finer than the minor unit of {self.currency}.")
        return units

    def __neg__(self) -> "Money":
        """Return what gives the amount back."""
        return Money.of_minor_units(-self.minor_units, self.currency)

    def __add__(self, other: "Money") -> "Money":
        """Return the sum.

        Raises:
            CurrencyMismatchError: The currencies differ.
        """
        if other.currency != self.currency:
            raise CurrencyMismatchError(
                "Amounts in different currencies are not added.",
                facts={"one": self.currency, "other": other.currency},
            )
        return Money.of_minor_units(self.minor_units + other.minor_units, self.currency)


def decimal_of(units: int, *, digits: int) -> Decimal:
    """Return whole units of 10**-digits as a decimal with exactly so many digits, exactly."""
    return Decimal((int(units < 0), tuple(int(d) for d in str(abs(units))), -digits))


def round_half_up(numerator: int, denominator: int) -> int:
    """Return a fraction rounded to the nearest whole number, halves away from zero.

    Args:
        numerator: Any whole number.
        denominator: A positive one.
    """
    magnitude = (2 * abs(numerator) + denominator) // (2 * denominator)
    return -magnitude if numerator < 0 else magnitude


def round_money(amount: Decimal, currency: str) -> Money:
    """Return an exact amount rounded once, half up, to the currency's minor unit."""
    numerator, denominator = amount.as_integer_ratio()
    units = round_half_up(numerator * 10 ** minor_digits(currency), denominator)
    return Money.of_minor_units(units, currency)


def price_of(unit_seconds: int, *, unit_price: Decimal, currency: str) -> Money:
    """Return what unit-seconds cost: multiplied once, rounded once, half up.

    Whole numbers carry the fraction, so that no size of quantity or price loses a digit.

    Args:
        unit_seconds: Units x seconds.
        unit_price: Per unit-hour.
        currency: Of the price.
    """
    numerator, denominator = unit_price.as_integer_ratio()
    units = round_half_up(
        unit_seconds * numerator * 10 ** minor_digits(currency), SECONDS_PER_HOUR * denominator
    )
    return Money.of_minor_units(units, currency)


def cost_of(unit_second_price: Decimal, *, currency: str) -> Money:
    """Return what a sum of unit-seconds x unit prices costs, rounded once, half up.

    Args:
        unit_second_price: Sum of unit-seconds times their price per unit-hour, exact.
        currency: Of the prices.
    """
    return price_of(1, unit_price=unit_second_price, currency=currency)


def split(total: Money, weights: Sequence[int]) -> tuple[Money, ...]:
    """Return shares of an amount that add up to it, by the largest remainder.

    Args:
        total: What is split.
        weights: Whole numbers from 0, at least one above; equal remainders go to the earlier.

    Raises:
        ValueError: A weight is negative or all are 0.
    """
    whole = sum(weights)
    if whole <= 0 or min(weights) < 0:
        raise ValueError("Weights are from 0 and not all 0.")
    units = abs(total.minor_units)
    sign = -1 if total.minor_units < 0 else 1
    floors = [units * weight // whole for weight in weights]
    rest = units - sum(floors)
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(units * weights[i] % whole), i))
    for index in by_remainder[:rest]:
        floors[index] += 1
    return tuple(Money.of_minor_units(sign * part, total.currency) for part in floors)

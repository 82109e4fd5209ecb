"""Money and prices over REST: text that loses nothing, never a JSON number."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from billing.domain.documents.document import amount_text, price_text
from billing.domain.money import Money
from billing.domain.pricing.price_book import PRICE_DECIMALS
from tenants.domain.currencies import MINOR_DIGITS


class MoneySerializer(serializers.Serializer[Any]):
    """An amount in a currency, such as {"amount": "12.30", "currency": "EUR"}."""

    amount = serializers.CharField(read_only=True)
    currency = serializers.CharField(read_only=True)


@extend_schema_field(MoneySerializer)
class MoneyField(serializers.Field[Any, Any, Any, Any]):
    """A rounded amount of a row that has `currency`, or reaches one by `currency_source`."""

    def __init__(self, *, currency_source: str = "currency", **options: Any) -> None:  # noqa: ANN401 - DRF's options.
        """Keep the name of the field with the currency."""
        self.currency_source = currency_source.split(".")
        options |= {"read_only": True, "source": "*"}
        super().__init__(**options)

    def to_representation(self, value: Any) -> dict[str, str]:  # noqa: ANN401 - Any row.
        """Return amount and currency as text."""
        money = Money(getattr(value, str(self.field_name)), reach(value, self.currency_source))
        return {"amount": amount_text(money), "currency": money.currency}


@extend_schema_field(MoneySerializer)
class MoneyValueField(serializers.Field[Any, Any, Any, Any]):
    """An amount that is a `Money` itself."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - DRF's options.
        """Be shown only."""
        super().__init__(**options, read_only=True)

    def to_representation(self, value: Money) -> dict[str, str]:
        """Return amount and currency as text."""
        return {"amount": amount_text(value), "currency": value.currency}


@extend_schema_field(MoneySerializer)
class MoneyTextField(serializers.Field[Any, Any, Any, Any]):
    """An amount that is text already, in a mapping with its `currency`."""

    def __init__(self) -> None:
        """Be shown only."""
        super().__init__(read_only=True, source="*")

    def to_representation(self, value: Mapping[str, Any]) -> dict[str, str]:
        """Return amount and currency as text."""
        return {"amount": str(value[str(self.field_name)]), "currency": str(value["currency"])}


@extend_schema_field(MoneySerializer)
class UnitPriceField(MoneyField):
    """A price per unit-hour, with as many digits as it needs."""

    def to_representation(self, value: Any) -> dict[str, str]:  # noqa: ANN401 - Any row.
        """Return price and currency as text."""
        currency = reach(value, self.currency_source)
        price = getattr(value, str(self.field_name))
        digits = MINOR_DIGITS.get(currency, 0)
        return {"amount": price_text(price, digits=digits), "currency": currency}


def reach(value: Any, path: list[str]) -> Any:  # noqa: ANN401 - Attributes of any row.
    """Return the attribute at the end of a path of names."""
    for name in path:
        value = getattr(value, name)
    return value


def unit_price_input() -> serializers.DecimalField:
    """Return the input field of a price; the service judges its range."""
    return serializers.DecimalField(
        max_digits=2 * PRICE_DECIMALS,
        decimal_places=PRICE_DECIMALS,
        min_value=Decimal(0),
        help_text="Per unit-hour in the book's currency, as text.",
    )

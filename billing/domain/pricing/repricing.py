"""Repricing: what the charges of a month cost at the prices they have, and at the right ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from billing.domain.money import Money, price_of


@dataclass(frozen=True)
class PriceChange:
    """Unit-seconds of one project, size and group that one price was charged for wrongly.

    Attributes:
        project_id: The project's key as text.
        project: Its slug.
        unit_price: Per unit-hour, as charged.
        right_price: Per unit-hour, as published now.
        unit_seconds: What is charged at it, net of earlier corrections and repricings.
    """

    project_id: str
    project: str
    size: str
    price_group: str
    unit_price: Decimal
    right_price: Decimal
    unit_seconds: int

    def before(self, currency: str) -> Money:
        """Return the cost as charged, rounded once."""
        return price_of(self.unit_seconds, unit_price=self.unit_price, currency=currency)

    def after(self, currency: str) -> Money:
        """Return the cost at the right price, rounded once."""
        return price_of(self.unit_seconds, unit_price=self.right_price, currency=currency)

    def to_json(self) -> dict[str, str | int]:
        """Return it as it is stored with a repricing; prices without zeros at their end."""
        return {
            "project_id": self.project_id,
            "project": self.project,
            "size": self.size,
            "price_group": self.price_group,
            "unit_price": f"{self.unit_price.normalize():f}",
            "right_price": f"{self.right_price.normalize():f}",
            "unit_seconds": self.unit_seconds,
        }

    @classmethod
    def of_json(cls, stored: Mapping[str, str | int]) -> Self:
        """Return it from what was stored."""
        return cls(
            project_id=str(stored["project_id"]),
            project=str(stored["project"]),
            size=str(stored["size"]),
            price_group=str(stored["price_group"]),
            unit_price=Decimal(stored["unit_price"]),
            right_price=Decimal(stored["right_price"]),
            unit_seconds=int(stored["unit_seconds"]),
        )


def total_before(changes: Iterable[PriceChange], *, currency: str) -> Money:
    """Return what the changes cost as charged; each is rounded once, as a line is."""
    return sum((change.before(currency) for change in changes), start=Money.zero(currency))


def total_after(changes: Iterable[PriceChange], *, currency: str) -> Money:
    """Return what they cost at the right prices."""
    return sum((change.after(currency) for change in changes), start=Money.zero(currency))

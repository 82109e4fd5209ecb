"""Protocol of what held use costs: metering gets prices from it and computes none.

Metering imports nothing of billing; settings choose an implementation (`HELD_COSTS`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True)
class HeldUse:
    """Use of one size that exceptions keep off the bill.

    Attributes:
        cluster_id: Where it was used.
        organization_id: The organization that would be billed; None while it belongs to no project.
        size: small, medium, large; "" while no rule gives one.
        price_group: Such as "H100/whole"; "" while no rule gives one.
        last_start: The last of its hours: its price is that of this hour.
        unit_seconds: Units x seconds.
        pod_seconds: The time alone, whatever number of units was requested.
    """

    cluster_id: UUID
    organization_id: UUID | None
    size: str
    price_group: str
    last_start: datetime
    unit_seconds: int
    pod_seconds: int


@dataclass(frozen=True)
class HeldCost:
    """What some held use would cost; `amount` is None where no price is known."""

    currency: str
    amount: Decimal | None


class HeldCosts(Protocol):
    """Source of prices. Implementations: billing's price books; one without prices."""

    def costs_of(self, uses: Sequence[HeldUse]) -> Sequence[HeldCost]:
        """Return what each use would cost, in their order, in a constant number of statements.

        What belongs to no project yet has the price of the default price book.
        """
        ...

    def bills_of(
        self, organization_id: UUID, *, first_start: datetime, last_start: datetime
    ) -> Sequence[date]:
        """Return the months on whose bills late use of some hours is, each by its first day.

        Args:
            organization_id: The billed organization.
            first_start: The first hour.
            last_start: The last hour.
        """
        ...


@dataclass(frozen=True)
class HeldTotal:
    """A sum of costs.

    Attributes:
        amounts: By currency; empty where no price is known.
        is_whole: False while some use has no known price, and is in no amount.
    """

    amounts: Mapping[str, Decimal]
    is_whole: bool


def total_of(costs: Iterable[HeldCost]) -> HeldTotal:
    """Return the sum of costs; amounts in two currencies are never added up."""
    sums: dict[str, Decimal] = {}
    is_whole = True
    for cost in costs:
        if cost.amount is None:
            is_whole = False
        else:
            sums[cost.currency] = sums.get(cost.currency, Decimal(0)) + cost.amount
    return HeldTotal(dict(sorted(sums.items())), is_whole)


def cost_text(total: HeldTotal) -> str:
    """Return a sum as people read it, such as "about 1,234.50 EUR"."""
    if not total.amounts:
        return "nothing" if total.is_whole else "not known: no price applies"
    amounts = " and ".join(f"{amount:,} {currency}" for currency, amount in total.amounts.items())
    return f"about {amounts}" + ("" if total.is_whole else ", without what has no price")

"""Protocol of cost estimators: quotas get prices from them and compute none.

Quotas import nothing of billing; settings choose an implementation (`COST_ESTIMATOR`).
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from metering.domain.catalogue.units import GPUSize


@dataclass(frozen=True)
class CostEstimate:
    """What some units would cost in a month.

    Attributes:
        currency: ISO 4217; "" when no price is known.
        at_full_use: Every unit held for all 730 hours of a month, at today's prices; None when
            no price is known for what may be held.
        at_last_use: With as many unit-hours in a month as the project really used in the last 30
            days, up to full use; 0 when it used none, which the note says; None when no price is
            known.
        price_group: Group of the price, such as "H100/whole"; the most expensive one that may
            serve.
        note: A remark for the reader, in a sentence; "" for none.
    """

    currency: str
    at_full_use: Decimal | None
    at_last_use: Decimal | None
    price_group: str = ""
    note: str = ""


class CostEstimator(Protocol):
    """Source of prices. Implementations: billing's price books; one without prices."""

    def estimate(  # noqa: PLR0913 - What a price depends on; all are keyword only.
        self,
        *,
        organization_id: UUID,
        project_id: UUID,
        size: GPUSize,
        model_group: str,
        units: int,
        is_burst: bool,
        at: datetime,
    ) -> CostEstimate:
        """Return what `units` of a size would cost a project in a month.

        Args:
            organization_id: The organization that would pay.
            project_id: The project whose use counts.
            size: Which size.
            model_group: Such as "H100"; "" for whatever the organization has prices for.
            units: How many, 0 or more.
            is_burst: Whether they are preemptible.
            at: Today, UTC.
        """
        ...


def sum_of(one: CostEstimate, other: CostEstimate) -> CostEstimate:
    """Return what two lots of units cost together; None where one of them is not known.

    Amounts in two currencies are never added up.
    """
    is_same = one.currency == other.currency
    return CostEstimate(
        currency=one.currency if is_same else "",
        at_full_use=_sum(one.at_full_use, other.at_full_use) if is_same else None,
        at_last_use=_sum(one.at_last_use, other.at_last_use) if is_same else None,
        price_group=" and ".join(dict.fromkeys(filter(None, (one.price_group, other.price_group)))),
        note=" ".join(dict.fromkeys(filter(None, (one.note, other.note)))),
    )


def difference_of(one: CostEstimate, other: CostEstimate) -> CostEstimate:
    """Return how much more one lot of units costs than another; None where one is not known.

    Amounts in two currencies are never taken from each other.
    """
    is_same = one.currency == other.currency
    return CostEstimate(
        currency=one.currency if is_same else "",
        at_full_use=_difference(one.at_full_use, other.at_full_use) if is_same else None,
        at_last_use=_difference(one.at_last_use, other.at_last_use) if is_same else None,
    )


def _difference(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return None if one is None or other is None else one - other


def _sum(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    return None if one is None or other is None else one + other

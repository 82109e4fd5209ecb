"""What quota would cost: estimated from the prices in force and the use of the last 30 days.

An estimate, not an offer: it takes the dearest price that may serve, and a month of 730 hours.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

from django.db.models import Q, Sum

from billing.domain.money import price_of
from billing.domain.pricing.price_book import ANY_BURST_GROUP, ANY_GROUP
from billing.models import BookPrice, Charge
from billing.selectors.pricing.organization_books import book_in_force
from metering.domain.catalogue.units import BURST_ENDING, GPUSize
from quotas.protocols.costs import CostEstimate

HOURS_PER_MONTH: Final = 730
"""A twelfth of a year of 365 days, in hours."""
SECONDS_PER_HOUR: Final = 3_600
LAST_USE: Final = timedelta(days=30)
_HOURS_LOOKED_AT: Final = LAST_USE // timedelta(hours=1)
_BURST: Final = Q(price_group__endswith=BURST_ENDING)
"""Preemptible pods are priced apart."""


@dataclass(frozen=True)
class _Priced:
    unit_price: Decimal
    price_group: str


class PriceBookEstimator:
    """Reads the price book an organization is billed by."""

    def estimate(  # noqa: PLR0913 - As the protocol.
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
        """Return what units would cost in a month; three statements at most.

        At last use the project holds as many unit-hours in a month as it did in the last 30 days,
        up to full use.
        """
        billed = book_in_force(organization_id, at)
        if billed is None:
            return CostEstimate("", None, None, note="The organization has no price book today.")
        currency = billed.price_book.currency
        priced = _dearest(
            billed.price_book_id, size, model_group=model_group, is_burst=is_burst, at=at
        )
        if priced is None:
            note = _unpriced(size, model_group, is_burst=is_burst)
            return CostEstimate(currency, None, None, note=note)
        full_seconds = units * HOURS_PER_MONTH * SECONDS_PER_HOUR
        used_seconds = _used_seconds(
            project_id, size, model_group=model_group, is_burst=is_burst, at=at
        )
        last_seconds = min(full_seconds, used_seconds * HOURS_PER_MONTH // _HOURS_LOOKED_AT)
        return CostEstimate(
            currency=currency,
            at_full_use=_amount(full_seconds, priced, currency=currency),
            at_last_use=_amount(last_seconds, priced, currency=currency),
            price_group=priced.price_group,
            note="" if used_seconds else _unused(size, is_burst=is_burst),
        )


def _dearest(
    price_book_id: UUID, size: GPUSize, *, model_group: str, is_burst: bool, at: datetime
) -> _Priced | None:
    """Return the dearest price in force of what may serve; None when none is known.

    The price for any group counts too: it serves every share that has no price of its own. So does
    that of any cluster, and of any time-of-use band, which the quota may be used on and in.
    """
    prices = BookPrice.objects.filter(
        _BURST if is_burst else ~_BURST,
        price_book_id=price_book_id,
        size=size.value,
        valid__contains=at,
        superseded_at__isnull=True,
    )
    if model_group:
        any_group = ANY_BURST_GROUP if is_burst else ANY_GROUP
        prices = prices.filter(
            Q(price_group__startswith=f"{model_group}/") | Q(price_group=any_group)
        )
    by_key = {
        (price.price_group, price.cluster_id, price.band): price.unit_price
        for price in prices.order_by("is_own")
    }
    ranked = sorted((-unit_price, group) for (group, *_), unit_price in by_key.items())
    return _Priced(-ranked[0][0], ranked[0][1]) if ranked else None


def _used_seconds(
    project_id: UUID, size: GPUSize, *, model_group: str, is_burst: bool, at: datetime
) -> int:
    """Return the unit-seconds a project was charged for in the last 30 days, never below zero."""
    charges = Charge.objects.filter(
        project_id=project_id,
        size=size.value,
        window_start__gte=at - LAST_USE,
        window_start__lt=at,
    )
    charges = charges.filter(_BURST if is_burst else ~_BURST)
    if model_group:
        charges = charges.filter(price_group__startswith=f"{model_group}/")
    return max(0, int(charges.aggregate(held=Sum("unit_seconds"))["held"] or 0))


def _amount(unit_seconds: int, priced: _Priced, *, currency: str) -> Decimal:
    return price_of(unit_seconds, unit_price=priced.unit_price, currency=currency).amount


def _unpriced(size: GPUSize, model_group: str, *, is_burst: bool) -> str:
    of = f" of {model_group}" if model_group else ""
    kind = "burst price" if is_burst else "price"
    return f"The price book has no {kind} for {size.value}{of} today."


def _unused(size: GPUSize, *, is_burst: bool) -> str:
    kind = "burst" if is_burst else "nominal"
    return f"The project used no {kind} units of {size.value} in the last 30 days."

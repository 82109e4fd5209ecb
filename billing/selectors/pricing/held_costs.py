"""What use that exceptions hold back would cost, and on which bills it would be.

An estimate: each use has the price of the last of its hours.
"""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db import connection

from billing.domain.money import price_of
from billing.domain.period import Month, month_of
from billing.models import BillingPeriod, PeriodState
from billing.selectors.pricing.price_lookup import band_at, best_price
from metering.protocols.held_costs import HeldCost, HeldUse
from tenants.models import Organization

_BEST_PRICE: Final = best_price(
    book="k.price_book_id",
    size="u.size",
    price_group="u.price_group",
    cluster="u.cluster_id",
    hour="u.hour",
    band="d.band",
)
# Of several default books the first by its currency: whose use it is, is not known yet.
_PRICED: Final = f"""
SELECT b.currency, found.unit_price
  FROM unnest(%(organizations)s::uuid[], %(clusters)s::uuid[], %(sizes)s::text[],
              %(groups)s::text[], %(hours)s::timestamptz[])
       WITH ORDINALITY AS u(organization_id, cluster_id, size, price_group, hour, place)
  LEFT JOIN LATERAL (
    SELECT k.price_book_id FROM billing_organization_book k
     WHERE k.organization_id = u.organization_id AND k.valid @> u.hour
     UNION ALL
    (SELECT a.price_book_id
       FROM billing_pricebookassignment a JOIN billing_pricebook book ON book.id = a.price_book_id
      WHERE u.organization_id IS NULL AND a.organization_id IS NULL
        AND a.customer_class_id IS NULL AND a.superseded_at IS NULL AND a.valid @> u.hour
      ORDER BY book.currency LIMIT 1)) k ON true
  LEFT JOIN billing_pricebook b ON b.id = k.price_book_id
  LEFT JOIN LATERAL (SELECT {band_at(book="k.price_book_id", hour="u.hour")} AS band) d ON true
  LEFT JOIN LATERAL ({_BEST_PRICE}) found ON true
 ORDER BY u.place
"""  # noqa: S608 - Put together from constants only.


class PriceBookHeldCosts:
    """Reads the price books by which organizations are billed."""

    def costs_of(self, uses: Sequence[HeldUse]) -> Sequence[HeldCost]:
        """Return what each use would cost, in their order; one statement."""
        if not uses:
            return []
        values: dict[str, Any] = {
            "organizations": [use.organization_id for use in uses],
            "clusters": [use.cluster_id for use in uses],
            "sizes": [use.size for use in uses],
            "groups": [use.price_group for use in uses],
            "hours": [use.last_start for use in uses],
        }
        with connection.cursor() as cursor:
            cursor.execute(_PRICED, values)
            prices = cursor.fetchall()
        return [
            _cost(use, currency or "", unit_price)
            for use, (currency, unit_price) in zip(uses, prices, strict=True)
        ]

    def bills_of(
        self, organization_id: UUID, *, first_start: datetime, last_start: datetime
    ) -> Sequence[date]:
        """Return the months on whose bills late use is: its own, or the next that is open."""
        zone = ZoneInfo(Organization.objects.get(pk=organization_id).time_zone)
        closed = set(
            BillingPeriod.objects.filter(organization=organization_id)
            .exclude(state=PeriodState.OPEN)
            .values_list("label", flat=True)
        )
        month, last = month_of(first_start, zone), month_of(last_start, zone)
        found: dict[str, Month] = {}
        while month <= last:
            billed = month
            while billed.label in closed:
                billed = billed.shift(1)
            found[billed.label] = billed
            month = month.shift(1)
        return [date(billed.year, billed.month, 1) for billed in found.values()]


def _cost(use: HeldUse, currency: str, unit_price: Decimal | None) -> HeldCost:
    if unit_price is None:
        return HeldCost(currency, None)
    cost = price_of(use.unit_seconds, unit_price=unit_price, currency=currency)
    return HeldCost(currency, cost.amount)

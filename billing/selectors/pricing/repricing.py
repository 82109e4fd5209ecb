"""Charges of a month at other prices than those published for their hours now."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from billing.domain.pricing.repricing import PriceChange
from billing.models import BillingPeriod
from billing.selectors.pricing.price_lookup import band_at, best_price

_BEST_PRICE: Final = best_price(
    book="a.price_book_id",
    size="q.size",
    price_group="q.price_group",
    cluster="q.cluster_id",
    hour="q.window_start",
    band="d.band",
)
_BAND: Final = band_at(book="a.price_book_id", hour="h.window_start")
MISPRICED: Final = f"""
net AS MATERIALIZED (
  SELECT c.window_id, c.window_start, c.cluster_id, c.project_id, c.owner, c.size, c.price_group,
         c.correction_id, c.price_id, c.unit_price, c.base_unit_price, c.currency,
         sum(c.unit_seconds)::bigint AS unit_seconds
    FROM billing_charge c
   WHERE c.organization_id = %(organization)s
     AND c.window_start >= %(begin)s AND c.window_start < %(end)s
   GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
  HAVING sum(c.unit_seconds) <> 0
),
asked AS MATERIALIZED (SELECT DISTINCT window_start, cluster_id, size, price_group FROM net),
banded AS MATERIALIZED (
  SELECT h.window_start, {_BAND} AS band
    FROM (SELECT DISTINCT window_start FROM asked) h
    JOIN billing_organization_book a
      ON a.organization_id = %(organization)s AND a.valid @> h.window_start
),
priced AS MATERIALIZED (
  SELECT q.window_start, q.cluster_id, q.size, q.price_group, published.price_id,
         published.unit_price, published.base_unit_price, b.currency
    FROM asked q
    LEFT JOIN billing_organization_book a
      ON a.organization_id = %(organization)s AND a.valid @> q.window_start
    LEFT JOIN banded d USING (window_start)
    LEFT JOIN LATERAL ({_BEST_PRICE}) published ON true
    LEFT JOIN billing_pricebook b ON b.id = a.price_book_id AND published.price_id IS NOT NULL
),
mispriced AS MATERIALIZED (
  SELECT n.*, p.price_id AS right_price_id, p.unit_price AS right_price,
         p.base_unit_price AS right_base_price, p.currency AS right_currency
    FROM net n JOIN priced p USING (window_start, cluster_id, size, price_group)
   WHERE (n.unit_price, n.currency) IS DISTINCT FROM (p.unit_price, p.currency)
)"""  # noqa: S608 - Put together from constants only.
"""What is charged net of reversals at another price than the published one, as `mispriced`; its
right price is NULL where none is published."""


@dataclass(frozen=True)
class UnpricedUse:
    """Charged use without a published price at its hour."""

    size: str
    price_group: str
    window_start: datetime


def price_changes(period: BillingPeriod) -> tuple[tuple[PriceChange, ...], UnpricedUse | None]:
    """Return what a month is charged at wrongly, and the first use without a price now; one query.

    The hours are those of the month, wherever their charges were posted.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CHANGES, hours_of(period))
        rows = cursor.fetchall()
    unpriced = [row for row in rows if row[5] is None]
    if unpriced:
        first = min(unpriced, key=lambda row: row[7])
        return (), UnpricedUse(first[2], first[3], first[7])
    return tuple(
        PriceChange(
            project_id=str(project_id),
            project=slug,
            size=size,
            price_group=price_group,
            unit_price=unit_price,
            right_price=right_price,
            unit_seconds=int(unit_seconds),
        )
        for project_id, slug, size, price_group, unit_price, right_price, unit_seconds, _ in rows
    ), None


def hours_of(period: BillingPeriod) -> Mapping[str, Any]:
    """Return the parameters of `MISPRICED`."""
    return {
        "organization": period.organization_id,
        "begin": period.hours.lower,
        "end": period.hours.upper,
    }


_CHANGES = f"""
WITH {MISPRICED}
SELECT m.project_id, p.slug, m.size, m.price_group, m.unit_price, m.right_price,
       sum(m.unit_seconds), min(m.window_start)
  FROM mispriced m JOIN tenants_project p ON p.id = m.project_id
 GROUP BY 1, 2, 3, 4, 5, 6
 ORDER BY p.slug, m.project_id, m.size, m.price_group, m.unit_price, m.right_price
"""  # noqa: S608 - Put together from constants only.

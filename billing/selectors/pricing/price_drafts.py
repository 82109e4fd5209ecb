"""What a draft of prices is compared with: the prices in force, and last month's use."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Q

from billing.domain.errors import PriceKeyInvalidError
from billing.domain.period import Month, month_hours, month_of
from billing.domain.pricing.price_draft import PriceKey, UseOfMonth
from billing.models import BookPrice, OrganizationBook, PriceBook
from tenants.models import Cluster


def clusters_named(ids: Iterable[str | None]) -> dict[str | None, Cluster]:
    """Return the clusters that prices name, by id as text; one query, or none.

    Raises:
        PriceKeyInvalidError: One is not known.
    """
    named = {one for one in ids if one is not None}
    if not named:
        return {}
    known: dict[str | None, Cluster] = {
        str(one.pk): one for one in Cluster.objects.filter(pk__in=named)
    }
    if unknown := named - known.keys():
        raise PriceKeyInvalidError(
            "The cluster is not known.", field="cluster", facts={"cluster": min(unknown)}
        )
    return known


def clusters_by_slug(slugs: Iterable[str]) -> dict[str, UUID]:
    """Return the keys of the clusters that have these slugs; one query, or none."""
    named = set(slugs)
    rows = Cluster.objects.filter(slug__in=named) if named else Cluster.objects.none()
    return dict(rows.values_list("slug", "pk"))


def month_before(at: datetime) -> Month:
    """Return the last whole month in UTC."""
    return month_of(at, UTC).shift(-1)


def books_priced_by(book: PriceBook) -> tuple[PriceBook, ...]:
    """Return a book and the discounts on it."""
    return tuple(PriceBook.objects.filter(Q(pk=book.pk) | Q(base_book=book)).order_by("slug"))


def prices_in_force(
    books: Collection[PriceBook], *, hour: datetime
) -> Mapping[UUID, dict[PriceKey, BookPrice]]:
    """Return what books price in an hour, by book, then by key; one query."""
    rows = BookPrice.objects.filter(
        price_book__in=[book.pk for book in books], valid__contains=hour, superseded_at__isnull=True
    )
    prices: dict[UUID, dict[PriceKey, BookPrice]] = {book.pk: {} for book in books}
    for row in rows.order_by("is_own", "pk"):
        cluster = None if row.cluster_id is None else str(row.cluster_id)
        prices[row.price_book_id][row.size, row.price_group, cluster, row.band] = row
    return prices


def use_of_month(
    books: Collection[PriceBook], *, month: Month, hour: datetime
) -> Mapping[UUID, list[UseOfMonth]]:
    """Return a month's charged use by the book its organization has in an hour; two queries.

    Bands are those that the book's calendars have for the hours of use.
    """
    span = month_hours(month, UTC)
    book_of = dict(
        OrganizationBook.objects.filter(
            price_book__in=[book.pk for book in books], valid__contains=hour
        ).values_list("organization", "price_book")
    )
    values: dict[str, Any] = {
        "payers": list(book_of),
        "books": list(book_of.values()),
        "begin": span.begin_at,
        "end": span.end_at,
    }
    use = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_USE, values)
        for payer, slug, size, group, cluster, band, total in cursor.fetchall():
            one = UseOfMonth(slug, size, group, int(total), str(cluster), band)
            use[book_of[payer]].append(one)
    return use


def table_of(prices: Mapping[PriceKey, BookPrice]) -> dict[PriceKey, Decimal]:
    """Return the unit prices of a book by key."""
    return {key: price.unit_price for key, price in prices.items()}


_USE: Final = """
WITH used AS MATERIALIZED (
  SELECT c.organization_id, a.price_book_id, c.window_start, c.size, c.price_group, c.cluster_id,
         sum(c.unit_seconds) AS unit_seconds
    FROM unnest(%(payers)s::uuid[], %(books)s::uuid[]) a(organization_id, price_book_id)
    JOIN billing_charge c ON c.organization_id = a.organization_id
   WHERE c.organization_id = ANY (%(payers)s::uuid[])
     AND c.window_start >= %(begin)s AND c.window_start < %(end)s
   GROUP BY 1, 2, 3, 4, 5, 6
),
banded AS MATERIALIZED (
  SELECT price_book_id, window_start, billing_band(price_book_id, window_start) AS band
    FROM (SELECT DISTINCT price_book_id, window_start FROM used) hours
)
SELECT u.organization_id, o.slug, u.size, u.price_group, u.cluster_id, d.band,
       sum(u.unit_seconds)
  FROM used u
  JOIN banded d USING (price_book_id, window_start)
  JOIN tenants_organization o ON o.id = u.organization_id
 GROUP BY 1, 2, 3, 4, 5, 6
 ORDER BY o.slug, u.size, u.price_group, u.cluster_id, d.band
"""

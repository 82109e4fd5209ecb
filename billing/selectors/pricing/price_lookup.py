"""Which price applies: the one lookup of accrual, repricing and questions.

`billing.domain.pricing.price_book.find_price` says the same in plain Python.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection

from billing.domain.pricing.price_book import ANY_TIME, groups_for, keys_for
from billing.models import BookPrice, OrganizationBook, Price
from billing.selectors.pricing.organization_books import book_in_force
from billing.selectors.pricing.price_calendars import bands_at
from billing.selectors.pricing.price_candidates import (
    BookCandidate,
    PriceCandidate,
    candidate_books,
    candidate_prices,
)


def best_price(
    *, book: str, size: str, price_group: str, cluster: str, hour: str, band: str
) -> str:
    """Return SQL of the price in force: the most specific group first, at most one row.

    Of one group the price of the cluster goes before that of any (ADR 0059), then that of the band
    before that of any time (ADR 0064), and of one key the book's own before that of its base.
    `base_unit_price` is what the base book has for the same use, before the discount; NULL where
    there is none. `price_id` is NULL where the band is not known and the price depends on it.

    Args:
        book: SQL of the key of the price book.
        size: SQL of the size.
        price_group: SQL of the device share, as used.
        cluster: SQL of the key of the cluster of the use.
        hour: SQL of the begin of the hour.
        band: SQL of the band of the hour; see `band_at`.
    """
    ending = f"CASE WHEN right({price_group}, 6) = '/burst' THEN '/burst' ELSE '' END"
    of_model = f"split_part({price_group}, '/', 1) || '/*' || {ending}"
    applies = f"""p.price_book_id = {book} AND p.size = {size}
         AND p.price_group IN ({price_group}, {of_model}, '*' || {ending})
         AND (p.cluster_id IS NULL OR p.cluster_id = {cluster})
         AND (p.band = '' OR coalesce(p.band = {band}, true))
         AND p.valid @> {hour} AND p.superseded_at IS NULL"""
    order = f"""left(p.price_group, 1) = '*', p.price_group <> {price_group}, p.cluster_id IS NULL,
         p.band = ''"""
    return f"""
      SELECT CASE WHEN p.band = '' OR {band} IS NOT NULL THEN p.id END AS price_id,
             p.unit_price, coalesce(p.base_unit_price, (
               SELECT p.base_unit_price FROM billing_book_price p
                WHERE {applies} AND NOT p.is_own ORDER BY {order} LIMIT 1)) AS base_unit_price
        FROM billing_book_price p
       WHERE {applies}
       ORDER BY {order}, p.is_own DESC LIMIT 1"""  # noqa: S608 - Constants.


def band_at(*, book: str, hour: str) -> str:
    """Return SQL of the band of an hour in a book: '' for none, NULL where it is not known.

    Args:
        book: SQL of the key of the price book.
        hour: SQL of the begin of the hour.
    """
    return f"billing_band({book}, {hour})"


def prices_without(price: Price, hour: datetime) -> list[Decimal]:
    """Return what use of a new price's key costs in an hour without it; at most one price.

    It is that of the base of its book, or of a less specific key.
    """
    rows = BookPrice.objects.filter(
        price_book=price.price_book_id,
        size=price.size,
        valid__contains=hour,
        superseded_at__isnull=True,
    ).order_by("is_own")
    applies = {
        (row.price_group, row.cluster_id and str(row.cluster_id), row.band): row.unit_price
        for row in rows
    }
    cluster = None if price.cluster_id is None else str(price.cluster_id)
    bands = [price.band] if price.band != ANY_TIME else []
    keys = keys_for(price.price_group, cluster=cluster, bands=bands)
    return [applies[key] for key in keys if key in applies][:1]


@dataclass(frozen=True)
class AppliedPrice:
    """The price of a device share in an hour, and what was considered for it.

    Attributes:
        billed: By which book the organization is billed then; None when by none.
        price: The price, of the book or of its base; None when neither has one that applies.
        unit_price: What is charged: the price less a discount.
        list_unit_price: What the base book has for it; `unit_price` without one.
        groups: The groups of prices that apply, the most specific first.
        books: The assignments that concern the organization in the hour.
        candidates: The prices of the billed book and its base whose keys may apply.
        band: The time-of-use band of the hour; "" for none, None where it is not known.
    """

    billed: OrganizationBook | None
    price: Price | None
    groups: tuple[str, ...]
    unit_price: Decimal | None = None
    list_unit_price: Decimal | None = None
    books: Sequence[BookCandidate] = ()
    candidates: Sequence[PriceCandidate] = ()
    band: str | None = ANY_TIME


def which_price(
    *,
    organization_id: UUID,
    size: str,
    price_group: str,
    hour: datetime,
    cluster_id: UUID | None = None,
) -> AppliedPrice:
    """Return which price an organization's use of a device share has in an hour.

    Without a cluster it is the price of clusters that have none of their own.
    """
    groups = groups_for(price_group)
    billed = book_in_force(organization_id, hour)
    books = candidate_books(organization_id, hour=hour, billed=billed)
    if billed is None:
        return AppliedPrice(None, None, groups, books=books)
    band = bands_at(billed.price_book_id, hour)
    candidates = candidate_prices(
        billed.price_book_id, size=size, groups=groups, cluster_id=cluster_id, band=band, hour=hour
    )
    values: dict[str, Any] = {
        "book": billed.price_book_id,
        "size": size,
        "price_group": price_group,
        "cluster": cluster_id,
        "hour": hour,
        "band": band,
    }
    with connection.cursor() as cursor:
        cursor.execute(_WHICH, values)
        row = cursor.fetchone()
    if row is None or row[0] is None:
        return AppliedPrice(billed, None, groups, books=books, candidates=candidates, band=band)
    price_id, unit_price, base_unit_price = row
    price = Price.objects.select_related("price_book").get(pk=price_id)
    listed = unit_price if base_unit_price is None else base_unit_price
    return AppliedPrice(billed, price, groups, unit_price, listed, books, candidates, band)


_WHICH = best_price(
    book="%(book)s",
    size="%(size)s",
    price_group="%(price_group)s::text",
    cluster="%(cluster)s::uuid",
    hour="%(hour)s::timestamptz",
    band="%(band)s::text",
)

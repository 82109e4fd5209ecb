"""What a draft of prices is compared with: the prices in force, and last month's use."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import Q, Sum

from billing.domain.period import Month, month_hours, month_of
from billing.domain.pricing.price_draft import UseOfMonth
from billing.models import BookPrice, Charge, PriceBook, PriceBookAssignment


def month_before(at: datetime) -> Month:
    """Return the last whole month in UTC."""
    return month_of(at, UTC).shift(-1)


def books_priced_by(book: PriceBook) -> tuple[PriceBook, ...]:
    """Return a book and the discounts on it."""
    return tuple(PriceBook.objects.filter(Q(pk=book.pk) | Q(base_book=book)).order_by("slug"))


def prices_in_force(
    books: Collection[PriceBook], *, hour: datetime
) -> Mapping[UUID, dict[tuple[str, str], BookPrice]]:
    """Return what books price in an hour, by book, then by size and group; one query."""
    rows = BookPrice.objects.filter(
        price_book__in=[book.pk for book in books], valid__contains=hour, superseded_at__isnull=True
    )
    prices: dict[UUID, dict[tuple[str, str], BookPrice]] = {book.pk: {} for book in books}
    for row in rows.order_by("is_own", "pk"):
        prices[row.price_book_id][row.size, row.price_group] = row
    return prices


def use_of_month(
    books: Collection[PriceBook], *, month: Month, hour: datetime
) -> Mapping[UUID, list[UseOfMonth]]:
    """Return a month's charged use by the book its organization has in an hour; two queries."""
    span = month_hours(month, UTC)
    book_of = dict(
        PriceBookAssignment.objects.filter(
            price_book__in=[book.pk for book in books],
            valid__contains=hour,
            superseded_at__isnull=True,
        ).values_list("organization", "price_book")
    )
    rows = (
        Charge.objects.filter(
            organization__in=list(book_of),
            window_start__gte=span.begin_at,
            window_start__lt=span.end_at,
        )
        .order_by("organization__slug", "size", "price_group")
        .values_list("organization", "organization__slug", "size", "price_group")
        .annotate(total=Sum("unit_seconds"))
    )
    use = defaultdict(list)
    for payer, slug, size, group, total in rows:
        use[book_of[payer]].append(UseOfMonth(slug, size, group, int(total)))
    return use


def table_of(prices: Mapping[tuple[str, str], BookPrice]) -> dict[tuple[str, str], Decimal]:
    """Return the unit prices of a book by size and group."""
    return {key: price.unit_price for key, price in prices.items()}

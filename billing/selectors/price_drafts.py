"""What a draft of prices is compared with: the prices in force, and last month's use."""

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from billing.domain.period import Month, month_hours, month_of
from billing.domain.price_draft import UseOfMonth
from billing.models import Charge, Price, PriceBookAssignment


def month_before(at: datetime) -> Month:
    """Return the last whole month in UTC."""
    return month_of(at, UTC).shift(-1)


def prices_in_force(price_book_id: UUID, *, hour: datetime) -> dict[tuple[str, str], Decimal]:
    """Return the prices of a book that are in force in an hour, by size and group."""
    rows = Price.objects.filter(
        price_book=price_book_id, valid__contains=hour, superseded_at__isnull=True
    )
    return {(row.size, row.price_group): row.unit_price for row in rows.order_by("pk")}


def use_of_month(price_book_id: UUID, *, month: Month, hour: datetime) -> tuple[UseOfMonth, ...]:
    """Return a month's charged use of the organizations billed by a book in an hour; one query."""
    span = month_hours(month, UTC)
    payers = PriceBookAssignment.objects.filter(
        price_book=price_book_id, valid__contains=hour, superseded_at__isnull=True
    )
    rows = (
        Charge.objects.filter(
            organization__in=payers.order_by().values("organization"),
            window_start__gte=span.begin_at,
            window_start__lt=span.end_at,
        )
        .order_by("organization__slug", "size", "price_group")
        .values_list("organization__slug", "size", "price_group")
        .annotate(total=Sum("unit_seconds"))
    )
    return tuple(UseOfMonth(slug, size, group, int(total)) for slug, size, group, total in rows)

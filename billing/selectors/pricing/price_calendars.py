"""Calendars of price books as rules, the bands they have, and those that end soon."""

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from billing.domain.pricing.price_book import ANY_TIME
from billing.domain.pricing.price_calendar import BandRule, CalendarRule, CalendarSpan
from billing.models import Price, PriceBook, PriceCalendar

ENDS_SOON: Final = timedelta(days=60)


def published_calendars(book: PriceBook) -> QuerySet[PriceCalendar]:
    """Return the calendars of a book, or of its base, that are not withdrawn; oldest first."""
    owner = book.base_book_id or book.pk
    rows = PriceCalendar.objects.filter(price_book=owner, superseded_at__isnull=True)
    return rows.order_by("begin_at")


def bands_of(book: PriceBook, *, hour: datetime) -> list[str]:
    """Return the bands that calendars of a book, or of its base, have in an hour or later."""
    rows = list(published_calendars(book).values_list("begin_at", "bands"))
    followed = max(
        (number for number, (begin_at, _) in enumerate(rows) if begin_at <= hour), default=0
    )
    return sorted({rule["band"] for _, bands in rows[followed:] for rule in bands})


def bands_priced(book: PriceBook, *, hour: datetime) -> set[str]:
    """Return the bands that prices of a book and its discount books are for in an hour or later."""
    priced = Price.objects.filter(
        Q(price_book=book) | Q(price_book__base_book=book),
        Q(valid__endswith__isnull=True) | Q(valid__endswith__gt=hour),
        superseded_at__isnull=True,
    ).exclude(band=ANY_TIME)
    return set(priced.values_list("band", flat=True))


def bands_at(price_book_id: UUID, hour: datetime) -> str | None:
    """Return the band of an hour in a book; None where its last calendar has ended."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT billing_band(%s, %s)", [price_book_id, hour])
        found: str | None = cursor.fetchone()[0]
    return found


def calendars_ending(*, at: datetime) -> QuerySet[PriceCalendar]:
    """Return the calendars that end within ENDS_SOON, or have ended, without a next one."""
    later = PriceCalendar.objects.filter(
        price_book=OuterRef("price_book"),
        superseded_at__isnull=True,
        begin_at__gt=OuterRef("begin_at"),
    )
    rows = PriceCalendar.objects.filter(superseded_at__isnull=True, end_at__lt=at + ENDS_SOON)
    return rows.exclude(Exists(later)).select_related("price_book").order_by("end_at")


def span_of(row: PriceCalendar) -> CalendarSpan:
    """Return a calendar as a value."""
    return CalendarSpan(row.price_book.slug, row.begin_at, row.end_at, rule_of(row))


def rule_of(row: PriceCalendar) -> CalendarRule:
    """Return the rule of a calendar."""
    return CalendarRule(
        time_zone=row.time_zone,
        bands=tuple(rule_from(one) for one in row.bands),
        holidays={date.fromisoformat(day): name for day, name in row.holidays.items()},
        country=row.country,
        subdivision=row.subdivision,
        last_year=row.last_year,
    )


def rule_from(stored: Mapping[str, Any]) -> BandRule:
    """Return a rule as a value."""
    return BandRule(stored["band"], tuple(stored["days"]), stored["from"], stored["to"])

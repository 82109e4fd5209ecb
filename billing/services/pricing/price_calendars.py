"""Calendars of price books: published from an hour on, and withdrawn before it."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from billing.domain.errors import (
    PriceInForceError,
    PriceInUseError,
    PriceSupersededError,
    required_reason,
)
from billing.domain.period import HOUR, require_hour
from billing.domain.pricing.price_calendar import (
    CalendarInvalidError,
    CalendarOrderError,
    CalendarRule,
    require_calendar,
)
from billing.models import PriceBook, PriceCalendar
from billing.selectors.locks import lock_price_book
from billing.selectors.pricing.organization_books import last_charged_in
from billing.selectors.pricing.price_calendars import bands_priced, published_calendars
from billing.services.pricing.prices import charges_by_book
from tenants.domain.actors import Actor
from tenants.services.audit import record


def publish_calendar(
    *, price_book: PriceBook, rule: CalendarRule, valid_from: datetime, actor: Actor, at: datetime
) -> PriceCalendar:
    """Return a new calendar of a price book, in force from an hour until the next one begins.

    Args:
        price_book: A book without a base, whose calendar its discount books have too.
        rule: Zone, bands, holidays and last year.
        valid_from: A whole UTC hour after the newest calendar's, from which on nothing is charged
            until that one ends.
        actor: The account that publishes it.
        at: When.

    Raises:
        CalendarInvalidError: The rule is wrong, ends before it begins, or lacks a band that a
            price is for; or the book has a base.
        NotOnTheHourError: `valid_from` is not a whole UTC hour.
        CalendarOrderError: The book has a calendar from that hour or a later one.
        PriceInUseError: Hours from then on are charged already, in bands that are known.
    """
    require_calendar(rule)
    begin_at = require_hour(valid_from, field="valid_from")
    if rule.end_at is not None and rule.end_at <= begin_at:
        raise CalendarInvalidError("The last year is before the begin.", field="last_year")
    with transaction.atomic():
        book = lock_price_book(price_book.pk)
        if book.base_book_id is not None:
            raise CalendarInvalidError(
                "A discount on a price book has the calendar of its base.", field="price_book"
            )
        _require_free(book, begin_at)
        _require_bands(book, (one.band for one in rule.bands), begin_at)
        calendar = PriceCalendar.objects.create(
            price_book=book,
            time_zone=rule.time_zone,
            bands=[
                {"band": one.band, "days": list(one.days), "from": one.begin, "to": one.end}
                for one in rule.bands
            ],
            holidays={day.isoformat(): rule.holidays[day] for day in sorted(rule.holidays)},
            country=rule.country,
            subdivision=rule.subdivision,
            last_year=rule.last_year,
            begin_at=begin_at,
            end_at=rule.end_at,
            published_at=at,
        )
        _audit(calendar, action="publish", facts={}, actor=actor, at=at)
    return calendar


def withdraw_calendar(
    *, calendar_id: UUID, reason: str, actor: Actor, at: datetime
) -> PriceCalendar:
    """Return a calendar that is not in force yet, withdrawn; the one before it goes on.

    Raises:
        ReasonMissingError: There is no reason.
        PriceSupersededError: It was withdrawn already.
        PriceInForceError: Its first hour has begun.
        CalendarInvalidError: A price is for a band that no calendar would have.
        PriceCalendar.DoesNotExist: There is none.
    """
    why = required_reason(reason)
    with transaction.atomic():
        calendars = PriceCalendar.objects.filter(pk=calendar_id)
        lock_price_book(calendars.values_list("price_book", flat=True).get())
        calendar = calendars.select_related("price_book").get()
        facts = {"begins_at": calendar.begin_at.isoformat()}
        if calendar.superseded_at is not None:
            raise PriceSupersededError("It was withdrawn already.", facts=facts)
        if calendar.begin_at <= at:
            raise PriceInForceError("Its first hour has begun.", field="valid_from", facts=facts)
        before = (
            published_calendars(calendar.price_book).filter(begin_at__lt=calendar.begin_at).last()
        )
        goes_on = [] if before is None else [rule["band"] for rule in before.bands]
        _require_bands(calendar.price_book, goes_on, calendar.begin_at)
        calendar.superseded_at = at
        calendar.save(update_fields=["superseded_at"])
        _audit(calendar, action="withdraw", facts={"reason": why}, actor=actor, at=at)
    return calendar


def _require_free(book: PriceBook, begin_at: datetime) -> None:
    newest = published_calendars(book).last()
    if newest is not None and newest.begin_at >= begin_at:
        raise CalendarOrderError(
            "The book has a calendar from that hour or a later one.",
            field="valid_from",
            facts={"begins_at": newest.begin_at.isoformat()},
        )
    end_at = None if newest is None else newest.end_at
    if end_at is not None and end_at + HOUR <= begin_at:
        raise CalendarOrderError(
            "The newest calendar of the book ends before that hour.",
            field="valid_from",
            facts={"ends_at": end_at.isoformat()},
        )
    # What is charged after the newest one has ended has a price that depends on no band.
    if end_at is not None and end_at <= begin_at:
        return
    last = last_charged_in(charges_by_book(book), DateTimeTZRange(begin_at, end_at))
    if last is not None:
        raise PriceInUseError(
            "Hours the calendar would cover are charged already.",
            field="valid_from",
            facts={"last_charged_hour": last.isoformat()},
        )


def _require_bands(book: PriceBook, bands: Iterable[str], begin_at: datetime) -> None:
    """Refuse to leave prices from an hour on without their band: they would never apply."""
    lacking = bands_priced(book, hour=begin_at) - {*bands}
    if lacking:
        raise CalendarInvalidError(
            "Prices are for a band that the calendar does not have.",
            field="bands",
            facts={"lacking": ", ".join(sorted(lacking))},
        )


def _audit(
    calendar: PriceCalendar, *, action: str, facts: dict[str, str], actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:price_calendar:{action}",
        object_kind="price_calendar",
        object_id=calendar.pk,
        facts={
            "price_book": calendar.price_book.slug,
            "time_zone": calendar.time_zone,
            "bands": calendar.bands,
            "holidays": calendar.holidays,
            "country": calendar.country,
            "subdivision": calendar.subdivision,
            "last_year": calendar.last_year,
            "valid_from": calendar.begin_at.isoformat(),
            **facts,
        },
    )

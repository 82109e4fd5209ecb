"""Calendars of price books: which time-of-use band an hour is in, by local time and holidays."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import combinations
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from billing.domain.errors import PriceKeyInvalidError
from billing.domain.pricing.price_book import ANY_TIME, BAND_LENGTH_MAX
from tenants.domain.errors import ConflictError, InvalidInputError

HOLIDAY: Final = "holiday"
"""A kind of day of its own: on a holiday the rules of its weekday do not apply."""
DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun", HOLIDAY)
RULES_MAX: Final = 100
HOLIDAYS_MAX: Final = 1_000
_BAND: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00")


class CalendarInvalidError(InvalidInputError):
    """A calendar of a price book cannot be kept."""

    code = "price_calendar_invalid"
    remedy = (
        'Give rules such as {"band": "peak", "days": ["mon", "holiday"], "from": "08:00", '
        '"to": "20:00"} that do not overlap, a time zone of the IANA database, and a last year '
        "for holidays."
    )


class CalendarOrderError(ConflictError):
    """A calendar does not follow the newest one of its book."""

    code = "price_calendar_order"
    remedy = (
        "Let it begin after the newest calendar of the book begins, and not after that ends; or "
        "withdraw that first."
    )


@dataclass(frozen=True)
class BandRule:
    """A band on some days from one local time, included, to another, excluded.

    Attributes:
        band: Its name, such as "peak".
        days: Of `DAYS`.
        begin: Such as "08:00".
        end: Such as "20:00"; "24:00" for the end of the day.
    """

    band: str
    days: tuple[str, ...]
    begin: str
    end: str


@dataclass(frozen=True)
class CalendarRule:
    """The calendar of a book.

    Attributes:
        time_zone: Of the IANA database.
        bands: Rules; a time that none covers is in no band.
        holidays: Names by date.
        country: Whose holidays they are, in ISO 3166; "" for none.
        subdivision: The part of the country; "" for none.
        last_year: The last year whose holidays are in it; the calendar ends with it. None without
            an end.
    """

    time_zone: str
    bands: tuple[BandRule, ...]
    holidays: Mapping[date, str] = field(default_factory=dict)
    country: str = ""
    subdivision: str = ""
    last_year: int | None = None

    @property
    def end_at(self) -> datetime | None:
        """The local midnight after its last year, in UTC."""
        if self.last_year is None:
            return None
        midnight = datetime(self.last_year + 1, 1, 1, tzinfo=ZoneInfo(self.time_zone))
        return midnight.astimezone(UTC)


@dataclass(frozen=True)
class CalendarSpan:
    """A published calendar of a book, in force from an hour until the next one begins.

    Attributes:
        end_at: From when on no band is known without a next one; None for never.
    """

    book: str
    begin_at: datetime
    end_at: datetime | None
    rule: CalendarRule


def band_of(
    calendars: Iterable[CalendarSpan], *, book: str, base_book: str | None = None, at: datetime
) -> str | None:
    """Return the band of the hour that begins at a moment; a book with a base has that one's.

    `billing_band` in the database is the same. Before the first calendar, and at a time no rule
    covers, it is `ANY_TIME`; after the end of the last one it is not known: None.
    """
    begun = [span for span in calendars if span.book == (base_book or book) and span.begin_at <= at]
    if not begun:
        return ANY_TIME
    newest = max(begun, key=lambda span: span.begin_at)
    if newest.end_at is not None and newest.end_at <= at:
        return None
    rule = newest.rule
    local = at.astimezone(ZoneInfo(rule.time_zone))
    day = HOLIDAY if local.date() in rule.holidays else DAYS[local.weekday()]
    bands = (
        one.band
        for one in rule.bands
        if day in one.days and one.begin <= f"{local:%H:%M}" < one.end
    )
    return next(bands, ANY_TIME)


def require_calendar(rule: CalendarRule) -> None:
    """Refuse a calendar that is incomplete or names two bands for one time.

    Raises:
        CalendarInvalidError: Zone, rules, holidays or last year are wrong.
    """
    _require_zone(rule.time_zone)
    if not 0 < len(rule.bands) <= RULES_MAX:
        raise CalendarInvalidError(f"A calendar has 1 to {RULES_MAX} rules.", field="bands")
    for one in rule.bands:
        _require_rule(one)
    for one, other in combinations(rule.bands, 2):
        both = [day for day in one.days if day in other.days]
        if both and max(one.begin, other.begin) < min(one.end, other.end):
            raise CalendarInvalidError(
                "Two rules cover the same time.",
                field="bands",
                facts={"day": both[0], "bands": f"{one.band}, {other.band}"},
            )
    _require_holidays(rule)


def require_band(band: str, *, known: Sequence[str]) -> None:
    """Refuse a band that no calendar of the book has.

    Raises:
        PriceKeyInvalidError: It is another.
    """
    if band != ANY_TIME and band not in known:
        raise PriceKeyInvalidError(
            "No calendar of the price book has this band.",
            field="band",
            remedy="Name a band of a calendar of the book, or publish a calendar with it first.",
            facts={"band": band, "known": ", ".join(sorted(set(known)))},
        )


def _require_zone(time_zone: str) -> None:
    """Refuse zones that are not of a place, nor UTC.

    The database reads others, such as CET, as an abbreviation without summer time, or knows none.
    """
    is_place = "/" in time_zone and not time_zone.startswith(("posix/", "right/"))
    if time_zone != "UTC" and not (is_place and time_zone in available_timezones()):
        raise CalendarInvalidError(
            "The time zone is not that of a place.",
            field="time_zone",
            facts={"time_zone": time_zone},
        )


def _require_rule(rule: BandRule) -> None:
    facts = {"band": rule.band}
    if not _BAND.fullmatch(rule.band) or len(rule.band) > BAND_LENGTH_MAX:
        raise CalendarInvalidError("The name of a band is no slug.", field="bands", facts=facts)
    if not rule.days or not set(rule.days) <= set(DAYS) or len(set(rule.days)) < len(rule.days):
        raise CalendarInvalidError(
            "The days of a rule are missing, twice or not known.", field="bands", facts=facts
        )
    is_time = _TIME.fullmatch(rule.begin) and _TIME.fullmatch(rule.end)
    if not is_time or rule.begin >= rule.end:
        raise CalendarInvalidError(
            "The times of a rule are not in order, or no times.", field="bands", facts=facts
        )


def _require_holidays(rule: CalendarRule) -> None:
    if rule.country and rule.last_year is None:
        raise CalendarInvalidError("Holidays of a country need a last year.", field="last_year")
    if len(rule.holidays) > HOLIDAYS_MAX:
        raise CalendarInvalidError(
            f"A calendar has at most {HOLIDAYS_MAX} holidays.", field="holidays"
        )
    last = max((day.year for day in rule.holidays), default=0)
    if rule.last_year is not None and last > rule.last_year:
        raise CalendarInvalidError(
            "A holiday is after the last year.", field="holidays", facts={"year": last}
        )

"""Calendars of price books: what is refused, how they follow each other, and withdrawals."""

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from billing.adapters.public_holidays import public_holidays, with_public_holidays
from billing.domain.errors import PriceInForceError, PriceKeyInvalidError, PriceSupersededError
from billing.domain.pricing.price_calendar import CalendarInvalidError, CalendarOrderError
from billing.domain.pricing.price_draft import PriceTable, UseOfMonth, effects_of
from billing.models import PriceCalendar
from billing.selectors.pricing.price_calendars import bands_at
from billing.selectors.terms_verification import check_terms
from billing.services.pricing.price_calendars import publish_calendar, withdraw_calendar
from billing.services.pricing.prices import set_price
from tests.support.billing.ledger import DORA, HOUR, Ledger, make_ledger, make_price
from tests.support.billing.terms import make_calendar_rule
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
LATER = AT.replace(minute=0, second=0, microsecond=0) + 48 * HOUR
NIGHT = "night mon,tue,wed,thu,fri,sat,sun,holiday 00:00 06:00"
BEFORE = datetime(2026, 1, 1, tzinfo=UTC)


@shared_rows
def ledger() -> Ledger:
    return make_ledger(bound_hours=1)


def publish(
    ledger: Ledger,
    *rules: str,
    begin_at: datetime = BEFORE,
    **changes: Any,  # noqa: ANN401 - Any attribute.
) -> PriceCalendar:
    rule = make_calendar_rule(*rules, **changes)
    return publish_calendar(
        price_book=ledger.book, rule=rule, valid_from=begin_at, actor=DORA, at=AT
    )


@pytest.mark.parametrize(
    ("rules", "changes", "field"),
    [
        (("peak mon,tue 08:00 20:00", "late tue 19:59 24:00"), {}, "bands"),
        (("peak mon,mon 08:00 20:00",), {}, "bands"),
        (("peak monday 08:00 20:00",), {}, "bands"),
        (("Peak mon 08:00 20:00",), {}, "bands"),
        (("peak mon 20:00 08:00",), {}, "bands"),
        (("peak mon 8:00 20:00",), {}, "bands"),
        (("peak mon 08:00 24:01",), {}, "bands"),
        ((), {"bands": ()}, "bands"),
        ((), {"time_zone": "Mars/Olympus"}, "time_zone"),
        ((), {"time_zone": "../etc"}, "time_zone"),
        ((), {"time_zone": "CET"}, "time_zone"),
        ((), {"time_zone": "posix/Europe/Berlin"}, "time_zone"),
        ((), {"country": "DE"}, "last_year"),
        ((), {"last_year": 2019}, "last_year"),
        ((), {"last_year": 2030, "holidays": {date(2031, 1, 1): "Late"}}, "holidays"),
    ],
)
def test_a_calendar_that_cannot_be_is_refused(
    ledger: Ledger, rules: tuple[str, ...], changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(CalendarInvalidError) as refused:
        publish(ledger, *rules, begin_at=LATER, **changes)

    assert refused.value.field == field
    assert not PriceCalendar.objects.exists()


def test_calendars_follow_each_other_and_are_withdrawn_before_they_begin(ledger: Ledger) -> None:
    first = publish(ledger)
    second = publish(ledger, NIGHT, begin_at=LATER)

    for begin_at in (LATER, LATER - HOUR):
        with pytest.raises(CalendarOrderError):
            publish(ledger, begin_at=begin_at)
    night = (LATER + 24 * HOUR).replace(hour=1)
    assert bands_at(ledger.book.pk, night) == "night"
    withdraw_calendar(calendar_id=second.pk, reason="Not agreed.", actor=DORA, at=AT)
    assert bands_at(ledger.book.pk, night) == ""
    with pytest.raises(PriceSupersededError):
        withdraw_calendar(calendar_id=second.pk, reason="Again.", actor=DORA, at=AT)
    with pytest.raises(PriceInForceError):
        withdraw_calendar(calendar_id=first.pk, reason="Late.", actor=DORA, at=AT)
    with pytest.raises(DatabaseError, match="never edited"), transaction.atomic():
        PriceCalendar.objects.filter(pk=first.pk).update(time_zone="UTC")
    assert check_terms({}).differences == ()


@pytest.mark.parametrize(
    ("country", "subdivision", "last_year"),
    [("XX", "", 2026), ("DE", "ZZ", 2026), ("DE", "", 2038)],
)
def test_holidays_that_are_not_known_are_refused(
    country: str, subdivision: str, last_year: int
) -> None:
    with pytest.raises(CalendarInvalidError):
        public_holidays(country, subdivision=subdivision, first_year=2026, last_year=last_year)


def test_a_calendar_without_a_band_of_a_price_is_refused(ledger: Ledger) -> None:
    publish(ledger, NIGHT)
    make_price(ledger.book, "1.00", band="night")

    with pytest.raises(CalendarInvalidError) as refused:
        publish(ledger, begin_at=LATER)

    assert refused.value.facts == {"lacking": "night"}
    assert PriceCalendar.objects.count() == 1


def test_holidays_west_of_utc_are_those_of_the_local_year() -> None:
    rule = make_calendar_rule(time_zone="America/New_York", country="US", last_year=2028)

    filled = with_public_holidays(rule, valid_from=datetime(2028, 1, 1, tzinfo=UTC))

    # Until 05:00 UTC it is the last day of 2027 in New York, where New Year's Day is observed.
    assert date(2027, 12, 31) in filled.holidays


@pytest.mark.parametrize(("group", "after"), [("H100/whole", "3.00"), ("A100/whole", "0.00")])
def test_a_draft_prices_no_use_whose_band_is_not_known(group: str, after: str) -> None:
    prices: PriceTable = {
        ("large", "*", None, ""): Decimal(2),
        ("large", "*", None, "night"): Decimal(1),
        ("large", "H100/*", None, ""): Decimal(3),
    }
    use = [UseOfMonth("acme", "large", group, 3600, band=None)]

    (effect,) = effects_of(use, before={}, after=prices, currency="EUR")

    assert f"{effect.after.amount:.2f}" == after
    assert effect.unpriced_unit_seconds == (3600 if after == "0.00" else 0)


def test_no_hours_are_left_between_two_calendars(ledger: Ledger) -> None:
    publish(ledger, last_year=2027)
    # 2027 ends at 23:00 UTC in Berlin.
    end_at = datetime(2027, 12, 31, 23, tzinfo=UTC)

    with pytest.raises(CalendarOrderError) as refused:
        publish(ledger, begin_at=end_at + HOUR)

    assert refused.value.facts == {"ends_at": end_at.isoformat()}
    assert publish(ledger, begin_at=end_at).begin_at == end_at


def test_a_price_and_a_withdrawal_look_at_the_calendars_from_then_on(ledger: Ledger) -> None:
    publish(ledger)
    second = publish(ledger, NIGHT, begin_at=LATER)
    put = partial(
        set_price, price_book=ledger.book, size="small", valid_from=LATER, actor=DORA, at=AT
    )

    with pytest.raises(PriceKeyInvalidError):
        put(unit_price=Decimal(1), band="peak")
    put(unit_price=Decimal(1), band="night")
    with pytest.raises(CalendarInvalidError) as refused:
        withdraw_calendar(calendar_id=second.pk, reason="Not agreed.", actor=DORA, at=AT)

    assert refused.value.facts == {"lacking": "night"}
    second.refresh_from_db()
    assert second.superseded_at is None

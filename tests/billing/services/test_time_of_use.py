"""Time-of-use prices: the band of an hour's first instant, by local time and holidays."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from billing.adapters.public_holidays import public_holidays, with_public_holidays
from billing.domain.errors import (
    PriceInUseError,
    PriceKeyInvalidError,
)
from billing.domain.pricing.price_book import key_id
from billing.domain.pricing.price_calendar import (
    CalendarInvalidError,
    band_of,
)
from billing.domain.pricing.price_draft import DraftedPrice
from billing.models import AccrualException, BillingPeriod, Charge, Price, PriceCalendar
from billing.selectors.pricing.price_calendars import calendars_ending, span_of
from billing.selectors.pricing.price_lookup import which_price
from billing.selectors.terms_verification import check_terms
from billing.selectors.verification import check_charges
from billing.services.pricing.price_calendars import publish_calendar
from billing.services.pricing.price_drafts import draft_prices, publish_draft
from billing.services.pricing.price_history import withdraw_price
from billing.services.pricing.prices import set_price
from billing.services.repricing import approve_repricing, reprice_period
from billing.tasks import tick
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    SMALL_GROUP,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_discount_book,
    make_ledger,
    make_price,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.terms import make_calendar_rule
from tests.support.builders import AT, MONTH_START
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
LATER = AT.replace(minute=0, second=0, microsecond=0) + 48 * HOUR
NIGHT = "night mon,tue,wed,thu,fri,sat,sun,holiday 00:00 06:00"
BEFORE = datetime(2026, 1, 1, tzinfo=UTC)


@shared_rows
def ledger() -> Ledger:
    """Acme, billed 2.00 for any small unit at any time; its namespace is bound for a day."""
    return make_ledger(bound_hours=24)


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


def use_a_day(ledger: Ledger) -> None:
    """Use one unit in each of 24 hours from the begin of October in UTC."""
    for hour in range(24):
        sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + hour * HOUR)
    accrue_everything()


def prices_used() -> dict[str, list[int]]:
    """Return at which prices which hours of the first day are charged."""
    found: dict[str, list[int]] = {}
    for row in Charge.objects.order_by("window_start"):
        hours = found.setdefault(f"{row.unit_price:.2f}", [])
        hours.append(int((row.window_start - MONTH_START) / HOUR))
    return found


def bands(ledger: Ledger, hours: list[datetime]) -> list[str | None]:
    """Return the bands of hours, by the database and by the equivalent in Python."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT billing_band(%s, h) FROM unnest(%s::timestamptz[]) WITH ORDINALITY AS a(h, n)"
            " ORDER BY n",
            [ledger.book.pk, hours],
        )
        found = [band for (band,) in cursor.fetchall()]
    spans = [span_of(row) for row in PriceCalendar.objects.filter(superseded_at=None)]
    assert found == [band_of(spans, book=ledger.book.slug, at=hour) for hour in hours]
    return found


def test_a_month_in_a_zone_off_the_hour_is_billed_by_bands(ledger: Ledger) -> None:
    publish(ledger, time_zone="Asia/Kolkata")
    make_price(ledger.book, "3.00", band="peak")

    use_a_day(ledger)
    seal_rest_of_month(ledger.cluster)
    tick(at=AT, actor=TICK)
    final = finalize(draft(ledger.organization, "2026-10"))

    # Thursday. The hour from 03:00 UTC begins at 08:30 there and is the first of the peak; that
    # from 02:00 begins at 07:30. The last begins at 19:30, which is 14:00 UTC: 12 hours.
    assert prices_used() == {"2.00": [0, 1, 2, *range(15, 24)], "3.00": [*range(3, 15)]}
    # 12 x 2.00 and 12 x 3.00.
    assert [f"{row.amount:.2f}" for row in final.lines.order_by("position")] == ["24.00", "36.00"]
    assert final.total == Decimal("60.00")
    for check in (check_charges, check_terms):
        assert check({}).differences == ()


@pytest.mark.parametrize(
    ("begin_at", "hours", "nights"),
    [
        # Sunday, 25 October: 25 hours; the one from 02:00 comes twice, so the night has 7.
        (datetime(2026, 10, 24, 22, tzinfo=UTC), 25, 7),
        # Sunday, 29 March: 23 hours; that from 02:00 is missing, so the night has 5.
        (datetime(2026, 3, 28, 23, tzinfo=UTC), 23, 5),
        # Any other day.
        (datetime(2026, 6, 9, 22, tzinfo=UTC), 24, 6),
    ],
)
def test_a_day_of_another_length_has_the_hours_of_its_clock(
    ledger: Ledger, begin_at: datetime, hours: int, nights: int
) -> None:
    publish(ledger, NIGHT)

    found = bands(ledger, [begin_at + n * HOUR for n in range(hours)])

    assert Counter(found) == {"night": nights, "": hours - nights}
    assert bands(ledger, [begin_at - HOUR, begin_at + hours * HOUR]) == ["", "night"]


@pytest.mark.parametrize(
    "zone",
    ["Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia", "Africa/Cairo"],
)
def test_the_database_and_python_agree_on_bands_in_any_zone(ledger: Ledger, zone: str) -> None:
    rules = (
        "peak mon,wed,fri 07:46 20:00",
        "late fri,holiday 20:00 24:00",
        "early sun 00:00 01:31",
    )
    holidays = {date(2026, 4, 3): "Friday", date(2026, 10, 4): "Sunday"}
    publish(ledger, *rules, time_zone=zone, holidays=holidays, last_year=2026)

    found = bands(ledger, [BEFORE + n * 5 * HOUR for n in range(-3, 1800)])

    assert set(found) == {"", "peak", "late", "early", None}


def test_public_holidays_are_written_down_and_are_days_of_their_own(ledger: Ledger) -> None:
    rule = make_calendar_rule(
        "peak mon,tue,wed,thu,fri,sat 08:00 20:00",
        country="DE",
        subdivision="BY",
        last_year=2027,
        holidays={date(2026, 12, 24): "Christmas Eve"},
    )
    filled = with_public_holidays(rule, valid_from=BEFORE, left_out=[date(2026, 11, 1)])
    made = publish_calendar(
        price_book=ledger.book, rule=filled, valid_from=BEFORE, actor=DORA, at=AT
    )

    assert made.holidays["2026-10-03"] == "German Unity Day"
    assert made.holidays["2026-12-24"] == "Christmas Eve"
    assert "2026-11-01" not in made.holidays
    assert date(2026, 11, 1) in public_holidays(
        "DE", subdivision="BY", first_year=2026, last_year=2026
    )
    # Saturdays: the 3rd is a holiday, the 10th is none.
    third, tenth = (datetime(2026, 10, day, 10, tzinfo=UTC) for day in (3, 10))
    assert bands(ledger, [third, tenth]) == ["", "peak"]
    # The calendar ends with 2027 in Berlin, where it is 23:00 UTC.
    end_at = datetime(2027, 12, 31, 23, tzinfo=UTC)
    assert made.end_at == end_at
    assert bands(ledger, [end_at - HOUR, end_at]) == ["", None]
    assert list(calendars_ending(at=end_at - timedelta(days=59))) == [made]
    assert list(calendars_ending(at=end_at - timedelta(days=61))) == []


def test_use_after_the_last_calendar_waits_for_the_next_one(ledger: Ledger) -> None:
    PriceCalendar.objects.create(
        price_book=ledger.book,
        time_zone="UTC",
        bands=[{"band": "night", "days": ["thu"], "from": "00:00", "to": "12:00"}],
        begin_at=BEFORE,
        end_at=MONTH_START + 2 * HOUR,
        published_at=AT,
    )
    make_price(ledger.book, "1.00", band="night")
    make_price(ledger.book, "5.00", size="large")
    use_a_day(ledger)
    sealed_window(
        ledger.cluster,
        [Use(ledger.llm, size="large", price_group="H100/whole")],
        start_at=MONTH_START + 24 * HOUR,
    )
    accrue_everything()

    # Nothing of large depends on the band; of small all does.
    assert prices_used() == {"1.00": [0, 1], "5.00": [24]}
    waiting = AccrualException.objects.filter(resolved_at=None)
    assert waiting.count() == 22
    first = waiting.earliest("window_start")
    assert (first.code, first.remedy) == (
        "no_price_calendar",
        "Publish a calendar of the price book from that hour on.",
    )
    found = which_price(
        organization_id=ledger.organization.pk,
        size="small",
        price_group=SMALL_GROUP,
        hour=first.window_start,
    )
    assert (found.price, found.band) == (None, None)
    assert [c.outcome.value for c in found.candidates] == ["band_unknown", "less_specific"]

    # An hour whose band is known is charged; what is charged after the end depends on no band.
    with pytest.raises(PriceInUseError):
        publish(ledger, NIGHT, begin_at=MONTH_START + HOUR)
    publish(ledger, NIGHT, time_zone="UTC", begin_at=MONTH_START + 2 * HOUR)
    tick(at=AT, actor=TICK)
    assert prices_used() == {"1.00": [*range(6)], "2.00": [*range(6, 24)], "5.00": [24]}
    assert not AccrualException.objects.filter(resolved_at=None).exists()
    assert check_charges({}).differences == ()


def test_a_next_calendar_prices_what_waited(ledger: Ledger) -> None:
    PriceCalendar.objects.create(
        price_book=ledger.book,
        time_zone="UTC",
        bands=[{"band": "night", "days": ["thu"], "from": "00:00", "to": "12:00"}],
        begin_at=BEFORE,
        end_at=MONTH_START + 2 * HOUR,
        published_at=AT,
    )
    make_price(ledger.book, "1.00", band="night")
    use_a_day(ledger)

    publish(ledger, "night thu 00:00 06:00", time_zone="UTC", begin_at=MONTH_START + 2 * HOUR)
    tick(at=AT, actor=TICK)

    assert prices_used() == {"1.00": [*range(6)], "2.00": [*range(6, 24)]}
    assert not AccrualException.objects.filter(resolved_at=None).exists()


def test_a_group_and_a_cluster_go_before_a_band(ledger: Ledger) -> None:
    publish(ledger, NIGHT, time_zone="UTC")
    make_price(ledger.book, "1.00", band="night")
    own = make_price(ledger.book, "7.00", cluster=ledger.cluster)
    asked: dict[str, Any] = {"size": "small", "price_group": SMALL_GROUP, "hour": MONTH_START}

    found = which_price(
        organization_id=ledger.organization.pk, cluster_id=ledger.cluster.pk, **asked
    )

    assert (found.price, found.band) == (own, "night")
    assert [c.outcome.value for c in found.candidates] == [
        "applies",
        "less_specific",
        "less_specific",
    ]
    day = which_price(
        organization_id=ledger.organization.pk, **{**asked, "hour": MONTH_START + 12 * HOUR}
    )
    assert [(c.price.band, c.outcome.value) for c in day.candidates] == [
        ("", "other_cluster"),
        ("night", "other_band"),
        ("", "applies"),
    ]


def test_a_discount_book_has_the_calendar_of_its_base(ledger: Ledger) -> None:
    publish(ledger, NIGHT, time_zone="UTC")
    make_price(ledger.book, "1.00", band="night")
    book = make_discount_book("academic", ledger.book, "50")

    with pytest.raises(CalendarInvalidError) as refused:
        publish_calendar(
            price_book=book, rule=make_calendar_rule(), valid_from=LATER, actor=DORA, at=AT
        )

    assert refused.value.field == "price_book"
    with pytest.raises(IntegrityError, match="calendar of its base"), transaction.atomic():
        PriceCalendar.objects.create(
            price_book=book, time_zone="UTC", bands=[], begin_at=LATER, published_at=AT
        )
    with connection.cursor() as cursor:
        cursor.execute("SELECT billing_band(%s, %s)", [book.pk, MONTH_START])
        assert cursor.fetchone() == ("night",)


def test_a_price_of_a_band_is_set_drafted_repaired_and_withdrawn_by_itself(ledger: Ledger) -> None:
    publish(ledger, NIGHT, time_zone="UTC")
    put: dict[str, Any] = {"price_book": ledger.book, "size": "small", "actor": DORA, "at": AT}
    use_a_day(ledger)
    with pytest.raises(PriceInUseError):
        set_price(unit_price=Decimal(1), valid_from=MONTH_START, band="night", **put)

    repair = set_price(
        unit_price=Decimal(1), valid_from=MONTH_START, band="night", reason="Agreed.", **put
    )
    period = BillingPeriod.objects.get(label="2026-10")
    asked = reprice_period(
        period_id=period.pk, reason="Nights.", is_four_eyes=True, actor=DORA, at=AT
    )
    approve_repricing(repricing_id=asked.pk, is_four_eyes=True, actor=ERIC, at=AT)
    made = draft_prices(
        price_book=ledger.book,
        prices=[DraftedPrice("small", "*", Decimal("1.25"), band="night")],
        valid_from=LATER,
        reason="Index.",
        actor=DORA,
        at=AT,
    )
    publish_draft(draft_id=made.pk, is_four_eyes=True, actor=ERIC, at=AT)

    # Six hours of the day are in the night: 18 x 2.00 and 6 x 1.00, or 1.25 at the drafted price.
    net = Counter[str]()
    for row in Charge.objects.all():
        net[f"{row.unit_price:.2f}"] += row.unit_seconds // 3600
    assert net == {"2.00": 18, "1.00": 6}
    assert [(one["before"], one["after"]) for one in made.effects] == [("42.00", "43.50")]
    assert made.prices == [
        {"size": "small", "price_group": "*", "band": "night", "unit_price": "1.25"}
    ]
    assert repair.sku_price_id != key_id(
        price_book_id=ledger.book.pk, size="small", price_group="*"
    )
    newest = Price.objects.filter(band="night").latest("published_at", "valid")
    withdraw_price(price_id=newest.pk, reason="Not agreed.", actor=DORA, at=AT)
    kept = Price.objects.filter(band="night", superseded_at=None)
    assert [f"{row.unit_price:.2f}" for row in kept.order_by("valid")] == ["1.00", "1.00"]
    for check in (check_charges, check_terms):
        assert check({}).differences == ()


def test_a_band_that_no_calendar_has_is_refused(ledger: Ledger) -> None:
    publish(ledger)

    with pytest.raises(PriceKeyInvalidError) as refused:
        set_price(
            price_book=ledger.book,
            size="small",
            unit_price=Decimal(1),
            valid_from=LATER,
            band="night",
            actor=DORA,
            at=AT,
        )

    assert refused.value.facts == {"band": "night", "known": "peak"}

"""Months worked out by hand: each test has its arithmetic beside what the invoice must say."""

from datetime import UTC, datetime

import pytest

from billing.models import BillingPeriod, Charge, Invoice
from billing.services.crediting import void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.pricing.tiers import publish_tiers
from metering.models import MeteringWindow
from tests.support.billing.late import accrue_late, correct
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    assign,
    make_book,
    make_ledger,
    make_price,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.terms import make_rule
from tests.support.builders import (
    AT,
    MONTH_END,
    MONTH_START,
    bind,
    make_cluster,
    make_organization,
    make_project,
)

pytestmark = pytest.mark.django_db
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR


def bound_ledger(currency: str, unit_price: str) -> Ledger:
    """Return an organization that is billed in a currency at one price for any small unit."""
    payer = make_organization("acme", billing_currency=currency)
    llm, vision = make_project(payer, "llm"), make_project(payer, "vision")
    cluster = make_cluster("hopper")
    bind(cluster, "acme-llm", llm, end_at=MONTH_START + 3 * HOUR)
    book = make_book("acme", currency=currency)
    assign(payer, book)
    make_price(book, unit_price)
    return Ledger(organization=payer, llm=llm, vision=vision, cluster=cluster, book=book)


def close(ledger: Ledger, label: str = "2026-10", *, at: datetime = AT) -> Invoice:
    """Return a month's invoice, final."""
    period = BillingPeriod.objects.get(organization=ledger.organization, label=label)
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=at, terms=SITE_TERMS)
    return finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=at, terms=SITE_TERMS)


def close_with(ledger: Ledger, *uses: Use) -> Invoice:
    """Return October's invoice of uses in its first hour."""
    sealed_window(ledger.cluster, uses)
    seal_rest_of_month(ledger.cluster, hours=3)
    accrue_everything()
    return close(ledger)


def printed(invoice: Invoice) -> list[tuple[str, str]]:
    """Return project and amount of each line, and the total, as printed."""
    lines = [(line["project"], line["amount"]) for line in invoice.document["lines"]]
    return [*lines, ("total", invoice.document["total"]["amount"])]


def test_yen_have_no_digits_after_the_point() -> None:
    """Two projects at 333.5 JPY for a unit-hour.

    llm: 4,800 s are 1 1/3 hours: 333.5 x 4/3 = 444.666... -> 445 JPY.
    vision: 59 s: 333.5 x 59 / 3600 = 5.4656... -> 5 JPY.
    Total: 445 + 5 = 450 JPY, which is the sum of what was rounded (450.13... unrounded).
    """
    ledger = bound_ledger("JPY", "333.5")

    invoice = close_with(ledger, Use(ledger.llm, 4800, units=2), Use(ledger.vision, 59))

    assert printed(invoice) == [("llm", "445"), ("vision", "5"), ("total", "450")]


def test_dinars_have_three_digits_after_the_point() -> None:
    """Two projects at 0.7505 KWD for a unit-hour.

    llm: 1,801 s: 0.7505 x 1801 / 3600 = 0.375458... -> 0.375 KWD.
    vision: 3,600 s: 0.7505 -> half a fils is rounded up -> 0.751 KWD.
    Total: 0.375 + 0.751 = 1.126 KWD.
    """
    ledger = bound_ledger("KWD", "0.7505")

    invoice = close_with(ledger, Use(ledger.llm, 1801), Use(ledger.vision, 3600))

    assert printed(invoice) == [("llm", "0.375"), ("vision", "0.751"), ("total", "1.126")]


def test_a_zone_with_a_half_hour_has_a_month_of_whole_utc_hours() -> None:
    """October begins in Kolkata (+05:30) at 18:30 UTC on 30 September.

    No UTC hour begins there: the month begins with the hour that contains that moment, and has
    those from 18:00 UTC on 30 September to 18:00 UTC on 31 October, 744 of them. The hour at 17:00
    on 31 October is its last one: 2 x 2.00 = 4.00 EUR. The one at 18:00 is November's: 2.00 EUR.
    """
    ledger = make_ledger(bound_hours=3, time_zone="Asia/Kolkata")
    september = datetime(2026, 9, 30, 18, tzinfo=UTC)
    make_price(ledger.book, end_at=MONTH_START, begin_at=september)
    assign(ledger.organization, ledger.book, begin_at=september, end_at=MONTH_START)
    used = (september, MONTH_END - 7 * HOUR, MONTH_END - 6 * HOUR)
    for start_at in {*used, *(september + number * HOUR for number in range(6, 9))}:
        uses = [Use(ledger.llm)] if start_at in used else []
        sealed_window(ledger.cluster, uses, start_at=start_at)
    accrue_everything()

    invoice = close(ledger)
    november = close(ledger, "2026-11", at=NOVEMBER_OVER)

    assert invoice.document["period"] == {
        "label": "2026-10",
        "time_zone": "Asia/Kolkata",
        "begin_at": "2026-09-30T18:00:00Z",
        "end_at": "2026-10-31T18:00:00Z",
        "hours": 744,
    }
    assert printed(invoice) == [("llm", "4.00"), ("total", "4.00")]
    assert printed(november) == [("llm", "2.00"), ("total", "2.00")]


def test_late_use_is_rounded_together_with_what_was_billed_before() -> None:
    """One hour at 0.333 EUR in October; a second hour of October is found in November.

    October: 0.333 -> 0.33 EUR. Both hours: 0.666 -> 0.67 EUR; 0.67 - 0.33 = 0.34 EUR late.
    """
    ledger = bound_ledger("EUR", "0.333")
    october = close_with(ledger, Use(ledger.llm))
    window = MeteringWindow.objects.earliest("start_at")
    accrue_late(correct(window, ledger.llm, 3600))

    november = close(ledger, "2026-11", at=NOVEMBER_OVER)

    assert printed(october) == [("llm", "0.33"), ("total", "0.33")]
    assert printed(november) == [("llm", "0.34"), ("total", "0.34")]
    (line,) = november.document["lines"]
    assert (line["service_month"], line["billed_unit_seconds"]) == ("2026-10", 3600)


def test_a_void_invoice_is_given_back_and_replaced() -> None:
    """October is 1 h and half an hour at 2.00 EUR: 2.00 + 1.00 = 3.00 EUR.

    It is credited in full, -3.00 EUR, and billed again from the same charges, 3.00 EUR: 3.00 EUR
    in all, under three numbers of two series.
    """
    ledger = bound_ledger("EUR", "2.00")
    invoice = close_with(ledger, Use(ledger.llm), Use(ledger.vision, 1800))

    note, replacement = void_invoice(
        invoice_id=invoice.pk, reason="The address was wrong.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize_invoice(invoice_id=note.pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    documents = [Invoice.objects.get(pk=row.pk) for row in (invoice, note, replacement)]
    year = documents[0].issue_year
    assert [(row.reference, printed(row)[-1][1]) for row in documents] == [
        (f"GL-{year}-000001", "3.00"),
        (f"GL-CN-{year}-000001", "-3.00"),
        (f"GL-{year}-000002", "3.00"),
    ]
    assert documents[1].document["corrects"] == f"GL-{year}-000001"
    assert Charge.objects.count() == 2


def test_late_use_crosses_a_tier_of_the_month_before() -> None:
    """20 % off above 2 h. October: 1.5 h at 2.00 EUR, 3.00 EUR, below the bound.

    In November 1.25 h of October arrive late, and half an hour of November's own. October's late
    line: 2.75 h x 2.00 = 5.50, less 3.00 billed before: 2.50. October's tier: 0.75 of 2.75 h are
    above the bound, with 0.75 / 2.75 x 5.50 = 1.50 EUR of list money; 20 % are 0.30, none of it
    billed before: -0.30. November: 0.5 h x 2.00 = 1.00, below the bound of its own month.
    In all: 2.50 - 0.30 + 1.00 = 3.20 EUR.
    """
    ledger = bound_ledger("EUR", "2.00")
    rule = make_rule((0, 0), (2, 20))
    publish_tiers(price_book=ledger.book, rule=rule, actor=DORA, at=AT)
    october = close_with(ledger, Use(ledger.llm, 3600), Use(ledger.llm, 1800))
    window = MeteringWindow.objects.get(start_at=MONTH_START)
    accrue_late(correct(window, ledger.llm, 3600, 900))
    sealed_window(ledger.cluster, [Use(ledger.llm, 1800)], start_at=MONTH_END)
    accrue_everything()

    november = close(ledger, "2026-11", at=NOVEMBER_OVER)

    assert [amount for _, amount in printed(october)] == ["3.00", "3.00"]
    assert [amount for _, amount in printed(november)] == ["1.00", "2.50", "-0.30", "3.20"]
    (tier,) = [line["tier"] for line in november.document["lines"] if "tier" in line]
    assert (tier["total_in_scope"], tier["in_band"], tier["list_amount_in_band"]) == (
        "2.750000",
        "0.750000",
        "1.50",
    )

"""What preemptible pods held is charged at its own price, or waits for one: never at a guess."""

from decimal import Decimal

import pytest

from billing.domain.errors import PriceInUseError
from billing.models import AccrualException, BillingPeriod, Charge, InvoiceLine, Price
from billing.services.accrual import accrue_windows
from billing.services.invoicing import draft_invoice
from billing.services.pricing.prices import set_price
from metering.models import MeteringWindow
from tests.support.billing.ledger import (
    BOUND_HOURS,
    DORA,
    HOUR,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    make_price,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_START

pytestmark = pytest.mark.django_db
BURST = "H100/1g.10gb/burst"


def accrue(*windows: MeteringWindow) -> None:
    accrue_windows(window_ids=[w.pk for w in windows], actor=TICK, at=AT)


def use_of(ledger: Ledger) -> MeteringWindow:
    return sealed_window(
        ledger.cluster, [Use(ledger.llm, 3600), Use(ledger.llm, 1800, price_group=BURST)]
    )


def test_preemptible_use_without_a_price_of_its_own_waits_for_a_person() -> None:
    ledger = make_ledger()
    window = use_of(ledger)

    accrue(window)

    assert [(c.price_group, c.unit_seconds) for c in Charge.objects.all()] == [
        ("H100/1g.10gb", 3600)
    ]
    found = AccrualException.objects.get()
    assert (found.code, found.price_group, found.unit_seconds) == ("no_price", BURST, 1800)
    assert found.summary == (
        "Price book acme has no price for small units of H100/1g.10gb/burst at that hour."
    )
    assert found.remedy == (
        "Set a price for the size and group, or for any group (*/burst), from that hour on."
    )


def test_heeding_the_remedy_charges_it() -> None:
    ledger = make_ledger()
    window = use_of(ledger)
    accrue(window)

    set_price(
        price_book=ledger.book,
        size="small",
        price_group="*/burst",
        unit_price=Decimal("0.50"),
        valid_from=MONTH_START,
        actor=DORA,
        at=AT,
    )
    accrue(window)

    rows = Charge.objects.order_by("price_group").values_list(
        "price_group", "unit_price", "unit_seconds"
    )
    assert list(rows) == [
        ("H100/1g.10gb", Decimal(2), 3600),
        (BURST, Decimal("0.5"), 1800),
    ]
    assert AccrualException.objects.get().resolved_at == AT


@pytest.mark.parametrize("group", ["*/burst", BURST])
def test_no_price_is_slipped_under_what_is_charged_already(group: str) -> None:
    ledger = make_ledger()
    make_price(ledger.book, "0.50", price_group=group, begin_at=MONTH_START - HOUR)
    accrue(use_of(ledger))

    with pytest.raises(PriceInUseError):
        set_price(
            price_book=ledger.book,
            size="small",
            price_group=group,
            unit_price=Decimal("0.10"),
            valid_from=MONTH_START,
            actor=DORA,
            at=AT,
        )

    assert Price.objects.get(price_group=group).unit_price == Decimal("0.50")


def test_a_price_for_preemptible_use_may_come_where_only_other_use_is_charged() -> None:
    ledger = make_ledger()
    accrue(sealed_window(ledger.cluster, [Use(ledger.llm)]))

    made = set_price(
        price_book=ledger.book,
        size="small",
        price_group="*/burst",
        unit_price=Decimal("0.10"),
        valid_from=MONTH_START,
        actor=DORA,
        at=AT,
    )

    assert made.valid.lower == MONTH_START


def test_the_price_of_the_exact_group_goes_before_that_of_any() -> None:
    ledger = make_ledger()
    make_price(ledger.book, "0.50", price_group="*/burst")
    make_price(ledger.book, "0.25", price_group=BURST)

    accrue(use_of(ledger))

    assert Charge.objects.get(price_group=BURST).unit_price == Decimal("0.25")


def test_a_price_for_preemptible_use_prices_nothing_else() -> None:
    ledger = make_ledger()
    make_price(ledger.book, "9.00", size="large", price_group="*/burst")
    window = sealed_window(ledger.cluster, [Use(ledger.llm, size="large")])

    accrue(window)

    assert not Charge.objects.exists()
    assert AccrualException.objects.get().remedy.endswith("any group (*), from that hour on.")


def test_the_invoice_shows_preemptible_use_on_a_line_of_its_own() -> None:
    ledger = make_ledger(bound_hours=BOUND_HOURS)
    make_price(ledger.book, "0.50", price_group="*/burst")
    use_of(ledger)
    seal_rest_of_month(ledger.cluster, BOUND_HOURS)
    accrue_everything()

    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)

    lines = InvoiceLine.objects.order_by("position").values_list("description", "amount")
    assert list(lines) == [
        ("Small unit, H100 1g.10gb", Decimal("2.00")),
        ("Small unit, H100 1g.10gb, preemptible", Decimal("0.25")),
    ]

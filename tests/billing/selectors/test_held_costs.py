"""What held use would cost by the price books, and on which bill it would be."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.test.utils import CaptureQueriesContext

from billing.models import PriceBookAssignment
from billing.selectors.pricing.held_costs import PriceBookHeldCosts
from billing.services.periods import open_period
from metering.adapters.held_costs_unknown import NoHeldCosts
from metering.protocols.held_costs import HeldCost, HeldUse, cost_text, total_of
from tests.support.billing.ledger import TICK, Ledger, make_book, make_ledger, make_price
from tests.support.builders import AT, MONTH_START
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def ledger() -> Ledger:
    return make_ledger()


@pytest.fixture
def use(ledger: Ledger) -> HeldUse:
    return HeldUse(
        cluster_id=ledger.cluster.pk,
        organization_id=ledger.organization.pk,
        size="small",
        price_group="H100/1g.10gb",
        last_start=MONTH_START + timedelta(days=1),
        unit_seconds=5400,
        pod_seconds=5400,
    )


def test_use_costs_the_price_of_its_organization_its_cluster_and_its_hour(
    ledger: Ledger, use: HeldUse
) -> None:
    make_price(ledger.book, "6.00", price_group="H100/1g.10gb", cluster=ledger.cluster)
    later = MONTH_START + timedelta(days=2)
    uses = [
        use,
        replace(use, price_group="A100/1g.5gb"),
        replace(use, size="large"),
        replace(use, last_start=MONTH_START - timedelta(days=1)),
        replace(use, last_start=later, unit_seconds=3600),
    ]

    with CaptureQueriesContext(connection) as queries:
        costs = PriceBookHeldCosts().costs_of(uses)

    assert costs == [
        HeldCost("EUR", Decimal("9.00")),
        HeldCost("EUR", Decimal("3.00")),
        HeldCost("EUR", None),
        HeldCost("", None),
        HeldCost("EUR", Decimal("6.00")),
    ]
    assert len(queries) == 1
    total = total_of(costs)
    assert (total.amounts, total.is_whole) == ({"EUR": Decimal("18.00")}, False)
    assert cost_text(total) == "about 18.00 EUR, without what has no price"


def test_use_of_no_project_has_the_price_of_the_default_book(use: HeldUse) -> None:
    stray = replace(use, organization_id=None)
    assert PriceBookHeldCosts().costs_of([stray]) == [HeldCost("", None)]

    default = make_book("default")
    make_price(default, "10.00")
    PriceBookAssignment.objects.create(
        price_book=default, valid=DateTimeTZRange(MONTH_START, None), published_at=AT
    )

    assert PriceBookHeldCosts().costs_of([stray, use]) == [
        HeldCost("EUR", Decimal("15.00")),
        HeldCost("EUR", Decimal("3.00")),
    ]


def test_late_use_of_a_month_that_is_closing_is_on_the_next_bill(ledger: Ledger) -> None:
    payer = ledger.organization
    first, last = datetime(2026, 9, 30, 12, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)

    def bills() -> list[str]:
        months = PriceBookHeldCosts().bills_of(payer.pk, first_start=first, last_start=last)
        return [f"{month:%B %Y}" for month in months]

    assert bills() == ["September 2026", "October 2026", "November 2026"]
    for label in ("2026-09", "2026-10"):
        period = open_period(organization=payer, label=label, actor=TICK, at=AT)
        type(period).objects.filter(pk=period.pk).update(state="review")
    assert bills() == ["November 2026"]


def test_without_billing_nothing_is_known(use: HeldUse) -> None:
    none = NoHeldCosts()

    assert none.costs_of([use, use]) == [HeldCost("", None)] * 2
    assert none.bills_of(use.cluster_id, first_start=AT, last_start=AT) == []
    assert cost_text(total_of([HeldCost("", None)])) == "not known: no price applies"
    assert cost_text(total_of([])) == "nothing"

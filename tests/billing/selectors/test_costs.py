"""Cost and use are reported as frozen facts, rounded once per fact."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from billing.domain.money import Money
from billing.models import DailyCost
from billing.selectors.costs import costs_by_organization, unpriced_use
from billing.selectors.documents.invoices import invoices_of_month
from billing.selectors.months import undrafted_periods
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.showback import add_up_changed_days
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    make_price,
    month_of_use,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END, MONTH_START
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
OCTOBER: dict[str, Any] = {"first": date(2026, 10, 1), "end": date(2026, 11, 1)}


@shared_rows
def two() -> tuple[Ledger, Ledger]:
    """Acme in euros over two days, Umbrella in yen, and something without a price."""
    acme = make_ledger("acme")
    umbrella = make_ledger("umbrella", billing_currency="JPY")
    make_price(acme.book, "8.00", size="large")
    sealed_window(
        acme.cluster, [Use(acme.llm, 9), Use(acme.llm, 9, owner="bob"), Use(umbrella.llm)]
    )
    sealed_window(
        acme.cluster,
        [Use(acme.vision, 1800, size="large"), Use(umbrella.llm, 60, size="medium")],
        start_at=MONTH_START + 24 * HOUR,
    )
    accrue_everything()
    add_up_changed_days()
    return acme, umbrella


@pytest.mark.usefixtures("two")
def test_costs_by_organization_are_by_size_and_in_its_currency() -> None:
    facts = costs_by_organization(DailyCost.objects.all(), **OCTOBER)

    assert [(f.organization, f.organization_name, f.unit_seconds, f.cost) for f in facts] == [
        ("acme", "Acme", {"large": 1800, "small": 18}, Money(Decimal("4.01"), "EUR")),
        ("umbrella", "Umbrella", {"small": 3600}, Money(Decimal(2), "JPY")),
    ]


def test_days_outside_and_other_organizations_are_left_out(two: tuple[Ledger, Ledger]) -> None:
    acme, _ = two
    costs = DailyCost.objects.filter(organization=acme.organization)

    facts = costs_by_organization(costs, first=date(2026, 10, 1), end=date(2026, 10, 2))

    assert [(f.organization, f.unit_seconds) for f in facts] == [("acme", {"small": 18})]


def test_the_largest_cost_of_a_currency_comes_first(two: tuple[Ledger, Ledger]) -> None:
    costs = DailyCost.objects.filter(organization=two[1].organization)
    costs.update(currency="EUR", unit_seconds=36_000)

    facts = costs_by_organization(DailyCost.objects.all(), **OCTOBER)

    assert [(f.organization, str(f.cost.amount)) for f in facts] == [
        ("umbrella", "20.00"),
        ("acme", "4.01"),
    ]


@pytest.mark.usefixtures("two")
def test_unpriced_use_is_reported_by_organization() -> None:
    assert [(f.organization, f.exceptions, f.unit_seconds) for f in unpriced_use()] == [
        ("umbrella", 1, {"medium": 60})
    ]


def test_unpriced_use_of_two_sizes_is_never_added(two: tuple[Ledger, Ledger]) -> None:
    acme, umbrella = two
    uses = [
        Use(umbrella.llm, 30, size="medium", price_group="A100/1of2"),
        Use(umbrella.llm, 7, size="large"),
        Use(acme.llm, 5, size="medium"),
    ]
    sealed_window(acme.cluster, uses, start_at=MONTH_START + 25 * HOUR)
    accrue_everything()

    assert [(f.organization, f.exceptions, f.unit_seconds) for f in unpriced_use()] == [
        ("acme", 1, {"medium": 5}),
        ("umbrella", 3, {"large": 7, "medium": 90}),
    ]


def test_what_is_on_a_final_invoice_is_no_longer_unbilled() -> None:
    ledger = month_of_use([("llm", 3600)])
    period = ledger.organization.billing_periods.get(label="2026-10")
    assert undrafted_periods(ended_before=AT).ready_ids == (period.pk,)
    assert undrafted_periods(ended_before=MONTH_END - HOUR).ready_ids == ()
    draft = draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    assert undrafted_periods(ended_before=AT).ready_ids == ()

    final = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    organization = ledger.organization.pk
    (fact,) = invoices_of_month("2026-10", organization_ids=[organization])
    assert (fact.id, fact.organization_id) == (final.pk, organization)
    assert (fact.reference, str(fact.total.amount)) == (final.reference, "2.00")
    assert invoices_of_month("2026-09", organization_ids=[organization]) == ()
    assert invoices_of_month("2026-10", organization_ids=[period.pk]) == ()

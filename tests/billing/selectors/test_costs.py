"""Cost and use are reported as frozen facts, rounded once per fact."""

from datetime import date
from typing import Any

import pytest

from billing.selectors.costs import (
    cost_by_day,
    cost_by_organization,
    cost_by_project,
    cost_by_size,
    unbilled_cost,
    unpriced_use,
)
from billing.selectors.documents.invoices import invoices_of_month, latest_invoices
from billing.selectors.months import undrafted_periods
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
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

pytestmark = pytest.mark.django_db
OCTOBER: dict[str, Any] = {"begin_at": MONTH_START, "end_at": MONTH_END}


@pytest.fixture
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
    return acme, umbrella


@pytest.mark.usefixtures("two")
def test_cost_by_organization_is_in_its_currency() -> None:
    facts = cost_by_organization(**OCTOBER)

    assert [
        (f.organization, f.unit_seconds, str(f.cost.amount), f.cost.currency) for f in facts
    ] == [
        ("acme", 1818, "4.01", "EUR"),
        ("umbrella", 3600, "2", "JPY"),
    ]
    assert facts[0].organization_name == "Acme"


def test_hours_outside_and_other_organizations_are_left_out(two: tuple[Ledger, Ledger]) -> None:
    acme, _ = two

    facts = cost_by_organization(
        begin_at=MONTH_START,
        end_at=MONTH_START + HOUR,
        organizations=[acme.organization.pk],
    )

    assert [(f.organization, f.unit_seconds) for f in facts] == [("acme", 18)]


def test_cost_by_project_size_and_day(two: tuple[Ledger, Ledger]) -> None:
    projects = cost_by_project(**OCTOBER)
    sizes = cost_by_size(**OCTOBER)
    days = cost_by_day(**OCTOBER)

    assert [(f.organization, f.project, f.unit_seconds) for f in projects] == [
        ("acme", "llm", 18),
        ("acme", "vision", 1800),
        ("umbrella", "llm", 3600),
    ]
    assert projects[0].project_id == two[0].llm.pk
    assert [(f.organization, f.size, str(f.cost.amount)) for f in sizes] == [
        ("acme", "large", "4.00"),
        ("acme", "small", "0.01"),
        ("umbrella", "small", "2"),
    ]
    assert [(f.organization, f.day, f.unit_seconds) for f in days] == [
        ("acme", date(2026, 10, 1), 18),
        ("acme", date(2026, 10, 2), 1800),
        ("umbrella", date(2026, 10, 1), 3600),
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
    assert [str(f.cost.amount) for f in unbilled_cost(before=AT)] == ["2.00"]
    assert undrafted_periods(ended_before=AT).ready_ids == ()

    final = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    assert unbilled_cost(before=AT) == ()
    (fact,) = invoices_of_month("2026-10")
    assert (fact.reference, fact.state, str(fact.total.amount)) == (
        final.reference,
        "final",
        "2.00",
    )
    assert (fact.organization, fact.period, fact.finalized_at) == (
        "acme",
        "2026-10",
        final.finalized_at,
    )
    assert latest_invoices(5) == (fact,)
    assert invoices_of_month("2026-09") == ()

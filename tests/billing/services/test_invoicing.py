"""A draft holds the period's charges, refuses with every reason, and may be made again."""

from decimal import Decimal

import pytest
from pytest_django import DjangoAssertNumQueries

from billing.domain.documents.document import InvoiceTerms, Party
from billing.domain.errors import InvoiceFinalError, NothingToInvoiceError, PeriodNotReadyError
from billing.models import BillingPeriod, Charge, Invoice, InvoiceLine
from billing.selectors.documents.membership import unbilled_charges
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import discard_draft, draft_invoice
from billing.services.periods import open_period
from tenants.domain.refusals import StaleVersionError
from tenants.models import AuditEntry
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    make_price,
    make_window,
    month_of_use,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END, MONTH_START, make_organization, make_project

pytestmark = pytest.mark.django_db
TERMS = InvoiceTerms(issuer=Party(name="Site", address="Site 1", tax_id="X1"), series="S")


def october(ledger: Ledger) -> BillingPeriod:
    return open_period(organization=ledger.organization, label="2026-10", actor=DORA, at=AT)


def draft(ledger: Ledger) -> Invoice:
    return draft_invoice(period_id=october(ledger).pk, actor=DORA, at=AT, terms=TERMS)


def reasons(ledger: Ledger, *, at: object = AT) -> list[str]:
    period = october(ledger)
    with pytest.raises(PeriodNotReadyError) as refused:
        draft_invoice(period_id=period.pk, actor=DORA, at=at, terms=SITE_TERMS)  # type: ignore[arg-type]
    assert not Invoice.objects.exists()
    assert refused.value.code == "period_not_ready"
    return [problem.code for problem in refused.value.problems]


def test_a_draft_holds_the_charges_of_the_period_line_by_line() -> None:
    ledger = month_of_use([("llm", 3600), ("llm", 9), ("vision", 1800)])

    invoice = draft(ledger)

    assert [
        (line.position, line.project.slug, line.unit_seconds, str(line.amount))
        for line in invoice.lines.select_related("project")
    ] == [(1, "llm", 3609, "2.0100"), (2, "vision", 1800, "1.0000")]
    assert (invoice.state, invoice.number, invoice.reference) == ("draft", None, "draft")
    assert (invoice.total, invoice.currency, invoice.unit_seconds) == (Decimal("3.01"), "EUR", 5409)
    assert (invoice.series, invoice.drafted_by, invoice.drafted_by_id) == ("S", "dora", "7")
    assert invoice.version == 1
    assert invoice.document["issuer"]["name"] == "Site"
    assert invoice.document["customer"]["name"] == "Acme"
    assert invoice.document["period"]["hours"] == 744
    assert [line["amount"] for line in invoice.document["lines"]] == ["2.01", "1.00"]
    assert invoice.content_sha256 == ""


def test_a_draft_links_no_charge_and_takes_no_number() -> None:
    ledger = month_of_use([("llm", 3600)])

    draft(ledger)

    assert unbilled_charges(Charge.objects.all()).count() == 1
    entry = AuditEntry.objects.get(action="billing:invoice:draft")
    assert entry.facts == {
        "period": "2026-10",
        "total": "2.00",
        "currency": "EUR",
        "lines": 1,
        "version": 1,
    }


def test_drafting_again_replaces_the_lines_and_keeps_the_invoice() -> None:
    ledger = month_of_use([("llm", 3600)])
    first = draft(ledger)
    kept = InvoiceLine.objects.get().pk

    again = draft_invoice(period_id=first.period_id, actor=ERIC, at=AT + HOUR, terms=TERMS)

    assert (again.pk, again.version, again.drafted_by) == (first.pk, 2, "eric")
    assert InvoiceLine.objects.count() == 1
    assert not InvoiceLine.objects.filter(pk=kept).exists()


def test_a_period_that_is_not_over_is_refused() -> None:
    ledger = month_of_use([("llm", 3600)])

    assert reasons(ledger, at=MONTH_END - HOUR) == ["period_not_over"]


def test_every_reason_is_reported_at_once() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm), Use(ledger.llm, size="large")])
    accrue_everything()
    sealed_window(ledger.cluster, start_at=MONTH_START + HOUR)
    make_window(ledger.cluster, MONTH_START + 2 * HOUR)

    assert reasons(ledger, at=MONTH_START + 4 * HOUR) == [
        "period_not_over",
        "windows_not_sealed",
        "windows_not_accrued",
        "accrual_exceptions_open",
    ]


def test_an_hour_without_any_window_is_not_sealed() -> None:
    ledger = make_ledger()
    sealed_window(ledger.cluster, [Use(ledger.llm)])
    seal_rest_of_month(ledger.cluster, hours=743)
    accrue_everything()

    with pytest.raises(PeriodNotReadyError) as refused:
        draft(ledger)

    (problem,) = refused.value.problems
    assert (problem.code, problem.message) == (
        "windows_not_sealed",
        "1 metering window is not sealed, the first at 2026-10-31T23:00:00Z.",
    )


def test_the_missing_price_of_one_organization_does_not_stop_another() -> None:
    acme, umbrella = make_ledger("acme"), make_ledger("umbrella")
    sealed_window(acme.cluster, [Use(acme.llm), Use(umbrella.llm, size="large")])
    seal_rest_of_month(acme.cluster)
    accrue_everything()

    assert draft(acme).total == Decimal("2.00")
    Invoice.objects.all().delete()
    assert reasons(umbrella) == ["accrual_exceptions_open"]


def test_charges_that_differ_from_usage_are_refused() -> None:
    ledger = month_of_use([("llm", 3600)])
    charge = Charge.objects.get()
    price = make_price(ledger.book, price_group="H100/whole")
    charge.pk, charge.price, charge.unit_seconds = None, price, 1
    charge.save(force_insert=True)

    assert reasons(ledger) == ["usage_not_charged"]


def test_charges_in_another_currency_are_refused() -> None:
    ledger = month_of_use([("llm", 3600)])
    type(ledger.organization).objects.filter(pk=ledger.organization.pk).update(
        billing_currency="USD"
    )

    assert reasons(ledger) == ["charges_in_other_currency"]


def test_a_period_without_charges_has_nothing_to_invoice() -> None:
    organization = make_organization("quiet")
    make_project(organization)
    period = open_period(organization=organization, label="2026-10", actor=DORA, at=AT)

    with pytest.raises(NothingToInvoiceError) as refused:
        draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)

    assert refused.value.code == "nothing_to_invoice"
    assert not Invoice.objects.exists()


def test_a_final_period_is_not_drafted_again() -> None:
    ledger = month_of_use([("llm", 3600)])
    invoice = draft(ledger)
    finalize_invoice(invoice_id=invoice.pk, actor=ERIC, at=AT, terms=TERMS)

    with pytest.raises(InvoiceFinalError) as refused:
        draft(ledger)

    assert refused.value.facts["reference"] == Invoice.objects.get().reference
    assert Invoice.objects.get().version == 2


def test_a_discarded_draft_leaves_its_charges_unbilled() -> None:
    ledger = month_of_use([("llm", 3600)])
    invoice = draft(ledger)

    discard_draft(invoice_id=invoice.pk, actor=DORA, at=AT)

    assert (Invoice.objects.count(), InvoiceLine.objects.count()) == (0, 0)
    assert unbilled_charges(Charge.objects.all()).count() == 1
    assert AuditEntry.objects.filter(action="billing:invoice:discard").count() == 1


def test_a_draft_made_again_since_is_not_discarded() -> None:
    ledger = month_of_use([("llm", 3600)])
    invoice = draft(ledger)
    draft(ledger)

    with pytest.raises(StaleVersionError):
        discard_draft(invoice_id=invoice.pk, actor=DORA, at=AT, expected_version=1)

    assert Invoice.objects.get().version == 2


def test_a_final_invoice_is_not_discarded() -> None:
    ledger = month_of_use([("llm", 3600)])
    invoice = finalize_invoice(invoice_id=draft(ledger).pk, actor=ERIC, at=AT, terms=TERMS)

    with pytest.raises(InvoiceFinalError):
        discard_draft(invoice_id=invoice.pk, actor=DORA, at=AT)

    assert Invoice.objects.get().state == "final"


@pytest.mark.parametrize("projects", [1, 20])
def test_the_number_of_statements_does_not_grow_with_lines(
    projects: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ledger = month_of_use([(f"project-{n}", 3600) for n in range(projects)])
    period = october(ledger)

    with django_assert_num_queries(18):
        draft_invoice(period_id=period.pk, actor=DORA, at=AT, terms=SITE_TERMS)

    assert InvoiceLine.objects.count() == projects

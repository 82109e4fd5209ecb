"""Taxes on documents: from the treatment and rate of the tax point, frozen with the invoice."""

from datetime import date
from decimal import Decimal

import pytest
from django.db import IntegrityError, connection, transaction

from billing.adapters.documents import render_csv, render_pdf
from billing.domain.documents.document import canonical_bytes
from billing.domain.documents.taxes import TaxTerms
from billing.domain.errors import (
    DraftStaleError,
    TaxRateExistsError,
    TaxRateMissingError,
    TaxTreatmentExistsError,
    TaxWithdrawnError,
)
from billing.models import BillingPeriod, Invoice, TaxRate, TaxTreatment
from billing.selectors.ledger.settlement import open_amounts
from billing.selectors.verification import check_invoices
from billing.services.crediting import draft_credit, void_invoice
from billing.services.taxes import (
    set_tax_rate,
    set_tax_treatment,
    withdraw_tax_rate,
    withdraw_tax_treatment,
)
from billing.tasks import settle_periods
from tenants.models import Organization
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, TICK, Ledger, month_of_use
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
JANUARY = date(2026, 1, 1)
PRINTED = {
    "category": "S",
    "country": "DE",
    "rate": "19",
    "taxable_amount": "3.00",
    "amount": "0.57",
    "exemption_text": "",
}


@shared_rows
def ledger() -> Ledger:
    """October with 2.00 and 1.00."""
    return month_of_use([("llm", 3600), ("vision", 1800)])


def set_rate(
    rate: str, *, category: str = "S", text: str = "", valid_from: date = JANUARY
) -> TaxRate:
    terms = TaxTerms("DE", category, Decimal(rate), text)
    return set_tax_rate(terms=terms, valid_from=valid_from, actor=DORA, at=AT)


def treat(
    organization: Organization, category: str = "S", *, valid_from: date = JANUARY
) -> TaxTreatment:
    return set_tax_treatment(
        organization=organization,
        country="DE",
        category=category,
        valid_from=valid_from,
        actor=DORA,
        at=AT,
    )


def sums(invoice: Invoice) -> tuple[str, ...]:
    return tuple(f"{n:.2f}" for n in (invoice.total, invoice.tax_total, invoice.payable))


def test_without_a_treatment_a_document_has_no_taxes(ledger: Ledger) -> None:
    before = canonical_bytes(draft(ledger.organization, "2026-10").document)
    set_rate("19")
    treat(ledger.organization, valid_from=date(2026, 11, 1))

    invoice = draft(ledger.organization, "2026-10")

    assert canonical_bytes(invoice.document) == before
    assert not {"taxes", "tax_total", "payable", "tax_point"} & invoice.document.keys()
    assert sums(finalize(invoice)) == ("3.00", "0.00", "3.00")


def test_the_rate_of_the_last_day_of_the_month_is_printed_and_frozen(ledger: Ledger) -> None:
    set_rate("16")
    set_rate("19", valid_from=date(2026, 10, 31))
    set_rate("21", valid_from=date(2026, 11, 1))
    treat(ledger.organization)

    final = finalize(draft(ledger.organization, "2026-10"))

    assert sums(final) == ("3.00", "0.57", "3.57")
    (tax,) = final.document["taxes"]
    assert (tax["rate"], tax["taxable_amount"], tax["amount"]) == ("19", "3.00", "0.57")
    assert (final.document["tax_point"], final.document["payable"]) == ("2026-10-31", "3.57")
    assert final.document["total"]["amount"] == "3.00"
    assert check_invoices({}).differences == ()
    assert render_pdf(final.document).startswith(b"%PDF")
    rows = render_csv(final.document).decode().splitlines()
    assert rows[0].endswith('"tax_category","tax_rate","invoice_total","tax_total","payable"')
    assert all(row.endswith(',"S",19,3.00,0.57,3.57') for row in rows[1:])


def test_reverse_charge_shows_its_text_and_no_tax(ledger: Ledger) -> None:
    set_rate("0", category="AE", text="Reverse charge.")
    treat(ledger.organization, "AE")

    final = finalize(draft(ledger.organization, "2026-10"))

    assert sums(final) == ("3.00", "0.00", "3.00")
    assert final.document["taxes"][0]["exemption_text"] == "Reverse charge."


def test_a_missing_rate_refuses_the_draft_and_parks_only_that_organization(
    ledger: Ledger,
) -> None:
    sound = month_of_use([("llm", 3600)], "umbrella")
    set_rate("19", valid_from=date(2026, 11, 1))
    treat(ledger.organization)

    with pytest.raises(TaxRateMissingError) as refused:
        draft(ledger.organization, "2026-10")
    settle_periods(at=AT, actor=TICK)

    assert (refused.value.code, refused.value.field) == ("tax_rate_missing", "organization")
    assert refused.value.facts == {"country": "DE", "category": "S", "tax_point": "2026-10-31"}
    assert "no tax rate of DE, category S, on the tax point 2026-10-31" in refused.value.message
    assert [i.organization for i in Invoice.objects.filter(period__label="2026-10")] == [
        sound.organization
    ]
    period = BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")
    assert period.draft_refused_at is not None


def test_a_changed_rate_makes_a_draft_stale(ledger: Ledger) -> None:
    wrong = set_rate("91")
    treat(ledger.organization)
    made = draft(ledger.organization, "2026-10")
    withdraw_tax_rate(rate_id=wrong.pk, reason="Typed wrong.", actor=DORA, at=AT)
    set_rate("19")

    with pytest.raises(DraftStaleError) as refused:
        finalize(made)

    assert refused.value.facts == {"changed": "taxes"}
    made.refresh_from_db()
    assert made.state == "draft"
    assert sums(finalize(draft(ledger.organization, "2026-10"))) == ("3.00", "0.57", "3.57")


def test_a_credit_note_takes_the_rate_printed_on_its_invoice(ledger: Ledger) -> None:
    rate = set_rate("19")
    treat(ledger.organization)
    final = finalize(draft(ledger.organization, "2026-10"))
    withdraw_tax_rate(rate_id=rate.pk, reason="Typed wrong.", actor=DORA, at=AT)
    set_rate("7")

    line = final.lines.get(project__slug="llm")
    part = draft_credit(
        invoice_id=final.pk,
        amounts={line.pk: Decimal("0.50")},
        reason="x",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )

    assert sums(finalize(part)) == ("-0.50", "-0.10", "-0.60")
    assert part.document["taxes"][0]["rate"] == "19"
    assert check_invoices({}).differences == ()


def test_partial_credit_notes_of_a_whole_invoice_give_back_its_tax(ledger: Ledger) -> None:
    set_rate("19")
    treat(ledger.organization)
    final = finalize(draft(ledger.organization, "2026-10"))
    lines = {line.project.slug: line.pk for line in final.lines.select_related("project")}

    parts = [
        finalize(
            draft_credit(
                invoice_id=final.pk,
                amounts={lines[slug]: Decimal(amount)},
                reason="x",
                actor=DORA,
                at=AT,
                terms=SITE_TERMS,
            )
        )
        for slug, amount in (("llm", "0.50"), ("llm", "1.50"), ("vision", "1.00"))
    ]

    assert [sums(part) for part in parts] == [
        ("-0.50", "-0.10", "-0.60"),
        ("-1.50", "-0.28", "-1.78"),
        ("-1.00", "-0.19", "-1.19"),
    ]
    assert "corrected_amount" not in parts[0].document["taxes"][0]
    (tax,) = parts[2].document["taxes"]
    assert (tax["corrected_taxable_amount"], tax["corrected_amount"]) == ("-2.00", "-0.38")
    assert open_amounts([final.pk]) == {final.pk: 0}
    assert check_invoices({}).differences == ()


def test_a_void_invoice_is_credited_at_its_rate_and_replaced_at_the_right_one(
    ledger: Ledger,
) -> None:
    rate = set_rate("19")
    treat(ledger.organization)
    final = finalize(draft(ledger.organization, "2026-10"))
    withdraw_tax_rate(rate_id=rate.pk, reason="Typed wrong.", actor=DORA, at=AT)
    set_rate("7")

    note, replacement = void_invoice(
        invoice_id=final.pk, reason="Rate.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize(replacement)

    note.refresh_from_db()
    replacement.refresh_from_db()
    assert sums(note) == ("-3.00", "-0.57", "-3.57")
    assert sums(replacement) == ("3.00", "0.21", "3.21")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tax_total": "0.56", "payable": "3.56"}, "its taxes are not those printed"),
        ({"payable": "3.58"}, "its taxes are not those printed"),
        ({"taxes": [{**PRINTED, "amount": "0.58"}]}, "its taxes are not the rates of its total"),
    ],
)
def test_the_database_refuses_taxes_that_do_not_add_up(
    ledger: Ledger, change: dict[str, object], reason: str
) -> None:
    set_rate("19")
    treat(ledger.organization)
    made = draft(ledger.organization, "2026-10")
    made.document |= change
    Invoice.objects.filter(pk=made.pk).update(document=made.document)

    finalize(made)

    with pytest.raises(IntegrityError, match=reason), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def test_a_day_has_one_rate_and_one_treatment_and_each_is_withdrawn_once(ledger: Ledger) -> None:
    rate, treatment = set_rate("19"), treat(ledger.organization)

    with pytest.raises(TaxRateExistsError):
        set_rate("20")
    with pytest.raises(TaxTreatmentExistsError):
        treat(ledger.organization, "O")
    withdraw_tax_rate(rate_id=rate.pk, reason="Wrong.", actor=DORA, at=AT)
    withdraw_tax_treatment(treatment_id=treatment.pk, reason="Wrong.", actor=DORA, at=AT)
    with pytest.raises(TaxWithdrawnError):
        withdraw_tax_rate(rate_id=rate.pk, reason="Wrong.", actor=DORA, at=AT)
    with pytest.raises(TaxWithdrawnError):
        withdraw_tax_treatment(treatment_id=treatment.pk, reason="Wrong.", actor=DORA, at=AT)

    assert (TaxRate.objects.count(), TaxTreatment.objects.count()) == (1, 1)
    assert "taxes" not in draft(ledger.organization, "2026-10").document


def test_the_database_keeps_what_was_published() -> None:
    set_rate("19")

    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE billing_taxrate SET rate = 20")

    assert TaxRate.objects.get().rate == 19

"""Credit notes name the invoice they correct; a void invoice is credited and replaced."""

from decimal import Decimal

import pytest

from billing.domain.errors import (
    CreditInvalidError,
    CreditTooLargeError,
    DraftStaleError,
    FourEyesError,
    NotCreditableError,
    ReasonMissingError,
)
from billing.models import BillingPeriod, Charge, Invoice, InvoiceLine
from billing.selectors.documents.membership import charges_of_invoice, with_line
from billing.selectors.verification import check_invoices, check_lines, check_numbers
from billing.services.crediting import draft_credit, void_invoice
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import discard_draft
from metering.models import MeteringWindow
from tenants.models import AuditEntry
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import DORA, ERIC, HOUR, Ledger, month_of_use
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR


@shared_rows
def ledger() -> Ledger:
    return month_of_use([("llm", 3600), ("vision", 1800)])


@shared_rows
def final(ledger: Ledger) -> Invoice:
    """October, final with 2.00 and 1.00."""
    return finalize(draft(ledger.organization, "2026-10"))


def line_of(invoice: Invoice, project: str) -> InvoiceLine:
    return invoice.lines.get(project__slug=project)


def credit(invoice: Invoice, project: str, amount: str) -> Invoice:
    return draft_credit(
        invoice_id=invoice.pk,
        amounts={line_of(invoice, project).pk: Decimal(amount)},
        reason="Broken hardware.",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )


def expect_verified() -> None:
    """Expect that what the nightly verification recomputes is as it is stored."""
    for check in (check_invoices, check_lines, check_numbers):
        assert check({}).differences == ()


def test_a_credit_note_gives_back_part_of_a_line_and_names_its_invoice(final: Invoice) -> None:
    note = finalize(credit(final, "llm", "1.50"))

    assert (note.kind, note.run, note.corrects_id, note.total) == (
        "credit_note",
        2,
        final.pk,
        Decimal("-1.50"),
    )
    assert note.reference == f"GL-CN-{note.issue_year}-000001"
    assert (note.document["corrects"], note.document["total"]["amount"]) == (
        final.reference,
        "-1.50",
    )
    assert note.run_reason == "Broken hardware."
    entry = AuditEntry.objects.get(action="billing:invoice:draft", object_id=str(note.pk))
    assert (entry.actor_label, entry.facts["run"], entry.facts["reason"]) == (
        "dora",
        2,
        "Broken hardware.",
    )
    final.refresh_from_db()
    assert final.total == Decimal("3.00")
    expect_verified()


def test_no_more_is_given_back_than_is_left_of_a_line(final: Invoice) -> None:
    finalize(credit(final, "vision", "0.75"))

    with pytest.raises(CreditTooLargeError) as refused:
        credit(final, "vision", "0.26")

    assert refused.value.facts["left"] == "0.2500"
    assert finalize(credit(final, "vision", "0.25")).total == Decimal("-0.25")
    with pytest.raises(CreditTooLargeError):
        credit(final, "vision", "0.01")
    assert Invoice.objects.count() == 3


@pytest.mark.parametrize("amount", ["0", "-1", "0.001", "NaN"])
def test_an_amount_that_is_none_is_refused(final: Invoice, amount: str) -> None:
    with pytest.raises(CreditInvalidError) as refused:
        credit(final, "llm", amount)

    assert (refused.value.field, Invoice.objects.count()) == ("lines", 1)


def test_a_line_of_another_invoice_is_refused(final: Invoice) -> None:
    other = month_of_use([("llm", 3600)], "umbrella")
    line = line_of(draft(other.organization, "2026-10"), "llm")

    with pytest.raises(CreditInvalidError):
        draft_credit(
            invoice_id=final.pk,
            amounts={line.pk: Decimal(1)},
            reason="x",
            actor=DORA,
            at=AT,
            terms=SITE_TERMS,
        )


def test_a_credit_needs_two_people_and_a_reason(final: Invoice) -> None:
    note = credit(final, "llm", "1.00")
    with pytest.raises(FourEyesError):
        finalize_invoice(invoice_id=note.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    discard_draft(invoice_id=note.pk, actor=DORA, at=AT)
    with pytest.raises(ReasonMissingError):
        void_invoice(invoice_id=final.pk, reason=" ", actor=DORA, at=AT, terms=SITE_TERMS)

    assert list(Invoice.objects.values_list("pk", flat=True)) == [final.pk]


def test_a_void_invoice_is_credited_in_full_and_replaced_for_the_customer_as_it_is_now(
    ledger: Ledger, final: Invoice
) -> None:
    ledger.organization.billing_address = "New Street 1"
    ledger.organization.save(update_fields=["billing_address"])

    note, replacement = void_invoice(
        invoice_id=final.pk, reason="Address.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    assert [i.total for i in (note, replacement)] == [Decimal("-3.00"), Decimal("3.00")]
    finalize(replacement)

    note.refresh_from_db()
    replacement.refresh_from_db()
    assert (note.state, replacement.state, replacement.run) == ("final", "final", 2)
    assert (note.kind, replacement.kind) == ("credit_note", "invoice")
    assert replacement.number == 2
    assert note.document["customer"]["address"] == ""
    assert replacement.document["customer"]["address"] == "New Street 1"
    every = Charge.objects.all()
    assert set(with_line(every).values_list("line_id", flat=True)) == set(
        replacement.lines.values_list("pk", flat=True)
    )
    assert charges_of_invoice(every, replacement.pk).count() == 2
    expect_verified()


def test_late_use_after_a_replacement_is_rounded_with_what_is_billed_once(
    ledger: Ledger, final: Invoice
) -> None:
    _, replacement = void_invoice(
        invoice_id=final.pk, reason="Address.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    finalize(replacement)

    accrue_late(correct(MeteringWindow.objects.earliest("start_at"), ledger.llm, 1001))

    (line,) = InvoiceLine.objects.filter(
        invoice=draft(ledger.organization, "2026-11", at=NOVEMBER_OVER)
    )
    assert (line.unit_seconds, line.billed_unit_seconds) == (1001, 3600)


def test_what_is_no_invoice_in_force_is_not_credited(final: Invoice) -> None:
    note, replacement = void_invoice(
        invoice_id=final.pk, reason="Address.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    for invoice in (final, note, replacement):
        with pytest.raises(NotCreditableError):
            void_invoice(
                invoice_id=invoice.pk, reason="Again.", actor=DORA, at=AT, terms=SITE_TERMS
            )
    finalize(note)

    for invoice in (final, note):
        with pytest.raises(NotCreditableError):
            void_invoice(
                invoice_id=invoice.pk, reason="Again.", actor=DORA, at=AT, terms=SITE_TERMS
            )
    again = void_invoice(
        invoice_id=replacement.pk, reason="Again.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    assert [i.run for i in again] == [3, 3]


def test_a_discarded_run_leaves_the_invoice_in_force(final: Invoice) -> None:
    note, _ = void_invoice(
        invoice_id=final.pk, reason="Address.", actor=DORA, at=AT, terms=SITE_TERMS
    )

    discard_draft(invoice_id=note.pk, actor=ERIC, at=AT)

    assert list(Invoice.objects.values_list("pk", flat=True)) == [final.pk]
    assert BillingPeriod.objects.get(label="2026-10").state == "closed"


def test_a_draft_with_another_address_than_now_is_not_finalized(ledger: Ledger) -> None:
    made = draft(ledger.organization, "2026-10")
    ledger.organization.billing_address = "New Street 1"
    ledger.organization.save(update_fields=["billing_address"])

    with pytest.raises(DraftStaleError) as refused:
        finalize(made)

    assert refused.value.facts == {"changed": "customer.address"}
    final = finalize(draft(ledger.organization, "2026-10"))
    assert final.document["customer"]["address"] == "New Street 1"

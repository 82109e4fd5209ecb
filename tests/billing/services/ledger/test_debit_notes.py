"""Debit notes name the invoice on whose lines they ask for more, and are owed by themselves."""

from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from billing.adapters.documents import render_csv, render_pdf
from billing.domain.errors import (
    CreditInvalidError,
    CreditTooLargeError,
    FourEyesError,
    NotCreditableError,
    ReasonMissingError,
)
from billing.models import DueDate, Invoice, InvoiceLine, JournalEntry, PaymentAllocation
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.ledger.reports import ageing, statement
from billing.selectors.verification import check_invoices, check_lines, check_numbers
from billing.services.crediting import draft_credit, draft_debit, void_invoice
from billing.services.finalizing import finalize_invoice
from metering.models import MeteringWindow
from tenants.models import AuditEntry
from tests.billing.services.ledger.test_journal import balances
from tests.billing.services.test_taxes import set_rate, sums, treat
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import DORA, HOUR, Ledger, month_of_use
from tests.support.billing.payments import pay, settled
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
NOVEMBER_OVER = MONTH_END + 31 * 24 * HOUR


@pytest.fixture(autouse=True)
def verified(db: None) -> Iterator[None]:  # noqa: ARG001 - It is the transaction.
    """Expect after each test that documents, journal and payments agree, as at a commit."""
    yield
    expect_consistent()
    for check in (check_journal, check_invoices, check_lines, check_numbers):
        assert check({}).differences == ()


@shared_rows
def ledger() -> Ledger:
    return month_of_use([("llm", 3600), ("vision", 1800)])


@shared_rows
def final(ledger: Ledger) -> Invoice:
    """October, final with 2.00 and 1.00."""
    return finalize(draft(ledger.organization, "2026-10"))


def expect_consistent() -> None:
    """Have the database check what it checks at a commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def line_of(document: Invoice) -> InvoiceLine:
    return document.lines.get(project__slug="llm")


def debit(invoice: Invoice, amount: str) -> Invoice:
    return draft_debit(
        invoice_id=invoice.pk,
        amounts={line_of(invoice).pk: Decimal(amount)},
        reason="Support was left out.",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )


def credit(document: Invoice, amount: str) -> Invoice:
    amounts = {line_of(document).pk: Decimal(amount)}
    return draft_credit(
        invoice_id=document.pk, amounts=amounts, reason="x", actor=DORA, at=AT, terms=SITE_TERMS
    )


def test_a_debit_note_asks_for_more_on_a_line_and_names_its_invoice(final: Invoice) -> None:
    note = finalize(debit(final, "0.75"))

    assert (note.kind, note.run, note.corrects_id, f"{note.total:.2f}") == (
        "debit_note",
        2,
        final.pk,
        "0.75",
    )
    assert note.reference == f"GL-DN-{note.issue_year}-000001"
    assert (note.document["kind"], note.document["corrects"]) == ("debit_note", final.reference)
    (line,) = note.lines.all()
    assert (line.unit_seconds, line.billed_unit_seconds, f"{line.amount:.2f}") == (0, 0, "0.75")
    entry = AuditEntry.objects.get(action="billing:invoice:draft", object_id=str(note.pk))
    assert entry.facts["reason"] == "Support was left out."
    assert render_pdf(note.document).startswith(b"%PDF")
    assert render_csv(note.document).decode().count("\n") == 2


def test_a_debit_note_is_owed_dated_and_posted_by_itself(final: Invoice) -> None:
    note = finalize(debit(final, "0.75"))
    assert note.finalized_at is not None
    on = note.finalized_at.date()

    assert DueDate.objects.get(document=note).due_on == on + timedelta(days=30)
    assert JournalEntry.objects.get(event="debit_note").reason == note.reference
    assert balances(final.organization) == {
        "receivables": Decimal("3.75"),
        "revenue": Decimal("-3.75"),
    }
    assert [settled(one) for one in (final, note)] == [("open", "3.00"), ("open", "0.75")]
    (row,) = ageing(on=on, organization_ids=None)
    assert (row.not_due, row.total) == (Decimal("3.75"), Decimal("3.75"))
    account = statement(
        final.organization_id, currency="EUR", begin_on=date(2026, 1, 1), end_on=date(2100, 1, 1)
    )
    assert [one.event for one in account.lines] == ["debit_note", "invoice"]
    assert account.closing == Decimal("3.75")


def test_a_payment_that_names_a_debit_note_settles_it(final: Invoice) -> None:
    note = finalize(debit(final, "0.75"))

    pay(amount="0.75", remittance=f"For {note.reference}")

    assert [settled(one) for one in (final, note)] == [("open", "3.00"), ("paid", "0.00")]


def test_a_debit_note_does_not_raise_what_may_be_paid_of_its_invoice(final: Invoice) -> None:
    finalize(debit(final, "0.75"))
    payment = pay(amount="9.00", remittance=final.reference)

    def overdraw() -> None:
        PaymentAllocation.objects.create(
            payment=payment,
            document=final,
            amount=Decimal("0.75"),
            allocated_by="x",
            allocated_at=AT,
        )
        expect_consistent()

    assert settled(final) == ("paid", "0.00")
    with pytest.raises(DatabaseError, match="document leaves open"), transaction.atomic():
        overdraw()


def test_a_debit_note_is_credited_itself_and_leaves_its_invoice_as_it_is(final: Invoice) -> None:
    note = finalize(debit(final, "0.75"))

    with pytest.raises(CreditTooLargeError):
        credit(final, "2.01")
    with pytest.raises(CreditTooLargeError):
        credit(note, "0.76")
    back = finalize(credit(note, "0.75"))

    assert (back.kind, back.corrects_id, f"{back.total:.2f}") == ("credit_note", note.pk, "-0.75")
    assert [settled(one) for one in (final, note)] == [("open", "3.00"), ("credited", "0.00")]
    assert finalize(credit(final, "2.00")).corrects_id == final.pk


def test_what_cannot_be_debited_is_refused_and_nothing_is_written(final: Invoice) -> None:
    for amount in ("0", "-1", "0.001", "NaN"):
        with pytest.raises(CreditInvalidError) as refused:
            debit(final, amount)
        assert refused.value.field == "lines"
    with pytest.raises(CreditInvalidError):
        draft_debit(
            invoice_id=final.pk,
            amounts={final.pk: Decimal(1)},
            reason="x",
            actor=DORA,
            at=AT,
            terms=SITE_TERMS,
        )
    with pytest.raises(ReasonMissingError):
        draft_debit(
            invoice_id=final.pk,
            amounts={line_of(final).pk: Decimal(1)},
            reason=" ",
            actor=DORA,
            at=AT,
            terms=SITE_TERMS,
        )
    assert Invoice.objects.count() == 1

    note = debit(final, "0.75")
    with pytest.raises(FourEyesError):
        finalize_invoice(invoice_id=note.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    finalize(note)
    for refused_call in (lambda: debit(note, "1.00"), lambda: void(note), lambda: void(final)):
        with pytest.raises(NotCreditableError):
            refused_call()
    assert Invoice.objects.count() == 2


def void(document: Invoice) -> None:
    void_invoice(invoice_id=document.pk, reason="x", actor=DORA, at=AT, terms=SITE_TERMS)


def test_use_taken_back_after_a_debit_gives_back_what_the_use_was_billed(
    ledger: Ledger, final: Invoice
) -> None:
    finalize(debit(final, "0.75"))

    accrue_late(correct(MeteringWindow.objects.earliest("start_at"), ledger.llm, -1800))

    late = finalize(draft(ledger.organization, "2026-11", at=NOVEMBER_OVER), at=NOVEMBER_OVER)
    (line,) = late.lines.all()
    assert (line.unit_seconds, line.billed_unit_seconds, f"{line.amount:.2f}") == (
        -1800,
        3600,
        "-1.00",
    )


def test_a_debit_note_has_a_tax_of_its_own_that_credit_notes_of_it_give_back(
    ledger: Ledger,
) -> None:
    set_rate("19")
    treat(ledger.organization)
    final = finalize(draft(ledger.organization, "2026-10"))

    first, second = (finalize(debit(final, "0.50")) for _ in range(2))
    notes = [finalize(credit(first, amount)) for amount in ("0.02", "0.02", "0.46")]

    assert [sums(one) for one in (first, second)] == [("0.50", "0.10", "0.60")] * 2
    assert [sums(one)[1] for one in notes] == ["0.00", "-0.01", "-0.09"]
    assert settled(first) == ("credited", "0.00")


def test_the_database_refuses_a_debit_note_that_is_an_invoice(final: Invoice) -> None:
    note = debit(final, "0.75")

    def finalize_as_invoice() -> None:
        Invoice.objects.filter(pk=note.pk).update(kind="invoice")
        finalize(note)
        expect_consistent()

    with pytest.raises(IntegrityError, match="its kind is not that of"), transaction.atomic():
        finalize_as_invoice()

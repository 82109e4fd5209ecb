"""Payments: once by their bank reference, matched, allocated, released, reversed and refunded."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from billing.adapters.bank_files import read_camt053, read_csv
from billing.domain.ledger.errors import (
    AllocationTooLargeError,
    BankFileInvalidError,
    PaymentExistsError,
    PaymentInvalidError,
    PaymentNotAllocatableError,
    PaymentReturnedError,
)
from billing.models import DueDate, Invoice, JournalEntry, Payment, PaymentAllocation
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.ledger.settlement import with_free_amount
from billing.services.crediting import draft_credit
from billing.services.ledger.payments import import_payments
from billing.services.ledger.settling import (
    allocate_payment,
    refund_payment,
    release_payment,
    reverse_payment,
)
from metering.models import MeteringWindow
from tenants.models import AuditEntry
from tests.billing.services.ledger.test_journal import balances, issued_on
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import DORA, HOUR, Ledger, month_of_use
from tests.support.billing.payments import camt_text, csv_text, pay, settled
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def ledger() -> Ledger:
    return month_of_use([("llm", 3600), ("vision", 1800)])


@shared_rows
def final(ledger: Ledger) -> Invoice:
    """October, final with 2.00 and 1.00."""
    return finalize(draft(ledger.organization, "2026-10"))


def free(payment: Payment) -> str:
    row = with_free_amount(Payment.objects.filter(pk=payment.pk)).get()
    return f"{row.free_amount:.2f}"


@pytest.fixture(autouse=True)
def verified(db: None) -> Iterator[None]:  # noqa: ARG001 - It is the transaction.
    """Expect after each test that journal, documents and payments agree, as at a commit."""
    yield
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    assert check_journal({}).differences == ()


def credit(invoice: Invoice, amount: str) -> Invoice:
    amounts = {invoice.lines.get(project__slug="llm").pk: Decimal(amount)}
    note = draft_credit(
        invoice_id=invoice.pk, amounts=amounts, reason="No.", actor=DORA, at=AT, terms=SITE_TERMS
    )
    return finalize(note)


def test_a_payment_that_names_its_invoice_settles_it(final: Invoice) -> None:
    payment = pay(remittance=f"Thanks, {final.reference}.")

    assert settled(final) == ("paid", "0.00")
    assert (payment.organization_id, free(payment)) == (final.organization_id, "0.00")
    assert balances(final.organization) == {"bank": 3, "revenue": -3}
    entry = AuditEntry.objects.get(action="billing:payment:record")
    assert (entry.organization_id, entry.facts["bank_reference"]) == (final.organization_id, "B1")


def test_a_reference_is_recorded_once(final: Invoice) -> None:
    pay(remittance=final.reference)

    with pytest.raises(PaymentExistsError):
        pay(amount="1.00")
    assert (Payment.objects.count(), JournalEntry.objects.count()) == (1, 3)


def test_a_part_payment_leaves_the_rest_open_until_it_is_overdue(final: Invoice) -> None:
    pay(amount="1.25", remittance=final.reference)

    assert settled(final) == ("part_paid", "1.75")
    due_on = DueDate.objects.get(document=final).due_on
    assert due_on == issued_on(final) + timedelta(days=30)
    assert settled(final, on=due_on)[0] == "part_paid"
    assert settled(final, on=due_on + timedelta(days=1))[0] == "overdue"


def test_an_over_payment_stays_as_credit_and_is_allocated_later(ledger: Ledger) -> None:
    final = finalize(draft(ledger.organization, "2026-10"))
    payment = pay(amount="5.00", remittance=final.reference)

    assert free(payment) == "2.00"
    assert balances(final.organization) == {"bank": 5, "customer_credit": -2, "revenue": -3}
    with pytest.raises(PaymentNotAllocatableError):
        allocate_payment(payment_id=payment.pk, document_id=final.pk, actor=DORA, at=AT)


def test_a_payment_of_an_unknown_payer_waits_and_gets_the_organization_it_settles(
    final: Invoice,
) -> None:
    payment = pay(remittance="GL-2026-999999")
    assert payment.organization_id is None

    allocate_payment(
        payment_id=payment.pk, document_id=final.pk, amount=Decimal(1), actor=DORA, at=AT
    )

    assert settled(final) == ("part_paid", "2.00")
    assert balances(final.organization) == {
        "clearing": 3,
        "customer_credit": -2,
        "receivables": 2,
        "revenue": -3,
    }
    payment.refresh_from_db()
    assert payment.organization_id == final.organization_id


@pytest.mark.parametrize(
    ("amount", "refusal"),
    [
        ("2.01", AllocationTooLargeError),
        ("0", PaymentInvalidError),
        ("-1", PaymentInvalidError),
        ("0.001", PaymentInvalidError),
    ],
)
def test_no_more_is_allocated_than_is_free(
    final: Invoice, amount: str, refusal: type[Exception]
) -> None:
    payment = pay(amount="2.00")

    with pytest.raises(refusal):
        allocate_payment(
            payment_id=payment.pk, document_id=final.pk, amount=Decimal(amount), actor=DORA, at=AT
        )
    assert not PaymentAllocation.objects.exists()
    assert Payment.objects.get().organization_id is None


def test_the_database_refuses_what_is_above_an_invoice(final: Invoice) -> None:
    payment = pay(amount="9.00")
    Payment.objects.filter(pk=payment.pk).update(organization=None)

    def overdraw() -> None:
        PaymentAllocation.objects.create(
            payment=payment, document=final, amount=4, allocated_by="x", allocated_at=AT
        )
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    with pytest.raises(DatabaseError, match="different organizations"), transaction.atomic():
        overdraw()
    allocate_payment(payment_id=payment.pk, document_id=final.pk, actor=DORA, at=AT)
    with pytest.raises(DatabaseError, match="more than the document"), transaction.atomic():
        overdraw()


def test_a_payment_of_another_organization_does_not_fit(final: Invoice) -> None:
    other = finalize(draft(month_of_use([("x", 3600)], slug="umbrella").organization, "2026-10"))
    payment = pay(amount="9.00", remittance=other.reference)

    with pytest.raises(PaymentNotAllocatableError):
        allocate_payment(payment_id=payment.pk, document_id=final.pk, actor=DORA, at=AT)
    assert settled(final) == ("open", "3.00")


def test_numbers_of_two_organizations_in_one_text_are_left_to_a_person(final: Invoice) -> None:
    other = finalize(draft(month_of_use([("x", 3600)], slug="umbrella").organization, "2026-10"))

    payment = pay(amount="9.00", remittance=f"{final.reference} {other.reference}")

    assert (payment.organization_id, free(payment)) == (None, "9.00")


def test_a_reversed_payment_leaves_its_invoice_open_again(final: Invoice) -> None:
    payment = pay(remittance=final.reference)

    made = reverse_payment(
        payment_id=payment.pk, reason="No funds.", booked_on=AT.date(), actor=DORA, at=AT
    )

    assert (made.kind, f"{made.amount:.2f}", made.origin_id) == ("reversal", "-3.00", payment.pk)
    assert settled(final) == ("open", "3.00")
    assert free(payment) == "0.00"
    assert balances(final.organization) == {"receivables": 3, "revenue": -3}
    with pytest.raises(PaymentReturnedError):
        reverse_payment(
            payment_id=payment.pk, reason="Again.", booked_on=AT.date(), actor=DORA, at=AT
        )
    with pytest.raises(PaymentNotAllocatableError):
        allocate_payment(payment_id=payment.pk, document_id=final.pk, actor=DORA, at=AT)


def test_a_payment_of_an_unknown_payer_is_reversed(ledger: Ledger) -> None:
    payment = pay(remittance="?")

    reverse_payment(payment_id=payment.pk, reason="x", booked_on=AT.date(), actor=DORA, at=AT)

    assert free(payment) == "0.00"
    assert balances(ledger.organization) == {}


def test_free_money_is_refunded_and_no_more(final: Invoice) -> None:
    payment = pay(amount="5.00", remittance=final.reference)

    def refund(amount: str, reference: str = "R1") -> Payment:
        return refund_payment(
            payment_id=payment.pk,
            amount=Decimal(amount),
            bank_reference=reference,
            booked_on=AT.date(),
            reason="Paid twice.",
            actor=DORA,
            at=AT,
        )

    with pytest.raises(AllocationTooLargeError):
        refund("2.01")
    assert refund("1.50").amount == Decimal("-1.50")
    with pytest.raises(PaymentExistsError):
        refund("0.50")
    with pytest.raises(AllocationTooLargeError):
        refund("0.51", "R2")
    assert balances(final.organization) == {
        "bank": Decimal("3.50"),
        "customer_credit": Decimal("-0.50"),
        "revenue": -3,
    }


def test_a_released_payment_is_free_again(final: Invoice) -> None:
    payment = pay(remittance=final.reference)

    release_payment(payment_id=payment.pk, reason="Wrong one.", actor=DORA, at=AT)

    assert (settled(final), free(payment)) == (("open", "3.00"), "3.00")
    with pytest.raises(PaymentNotAllocatableError):
        release_payment(payment_id=payment.pk, reason="Again.", actor=DORA, at=AT)
    allocate_payment(payment_id=payment.pk, document_id=final.pk, actor=DORA, at=AT)
    assert settled(final) == ("paid", "0.00")


def test_a_credit_note_of_a_paid_invoice_frees_what_was_paid_above_it(final: Invoice) -> None:
    first = pay(amount="1.00", remittance=final.reference)
    second = pay("B2", amount="2.00", remittance=final.reference)

    credit(final, "0.75")

    assert settled(final) == ("paid", "0.00")
    assert sorted([free(first), free(second)]) == ["0.00", "0.75"]
    assert balances(final.organization) == {
        "bank": 3,
        "customer_credit": Decimal("-0.75"),
        "revenue": Decimal("-2.25"),
    }


def test_an_invoice_credited_in_full_is_credited(ledger: Ledger) -> None:
    other = month_of_use([("llm", 3600)], slug="umbrella")
    final = finalize(draft(other.organization, "2026-10"))

    note = credit(final, "2.00")

    assert settled(final) == ("credited", "0.00")
    assert settled(note) == ("credited", "0.00")
    assert settled(draft(ledger.organization, "2026-10")) == ("", "0.00")


def test_a_month_below_zero_is_credit_that_settles_another_invoice(ledger: Ledger) -> None:
    october = finalize(draft(ledger.organization, "2026-10"))
    window = MeteringWindow.objects.filter(cluster=ledger.cluster).earliest("start_at")
    later = MONTH_END + 31 * 24 * HOUR
    accrue_late(correct(window, ledger.llm, -1800), at=MONTH_END + HOUR)
    note = finalize(draft(ledger.organization, "2026-11", at=later), at=later)

    credit_of_note = Payment.objects.get(document=note)

    assert (credit_of_note.kind, credit_of_note.amount) == ("credit_note", -note.total)
    assert balances(ledger.organization)["customer_credit"] == note.total
    allocate_payment(payment_id=credit_of_note.pk, document_id=october.pk, actor=DORA, at=AT)
    assert settled(october) == ("part_paid", f"{october.total + note.total:.2f}")
    assert "customer_credit" not in balances(ledger.organization)


@pytest.mark.parametrize("kind", ["csv", "camt"])
def test_good_rows_of_a_file_are_kept_and_a_repeated_file_changes_nothing(
    final: Invoice, kind: str
) -> None:
    rows = [
        ("B1", "2.00", f"Invoice {final.reference}"),
        ("B2", "x", ""),
        ("B3", "7.00", "no number"),
        ("B4", "0.001", ""),
    ]
    bank_file = (
        read_csv(csv_text(*rows).encode())
        if kind == "csv"
        else read_camt053(camt_text(*rows).encode())
    )

    report = import_payments(bank_file=bank_file, actor=DORA, at=AT)

    shift = 1 if kind == "csv" else 0
    assert [one.bank_reference for one in report.recorded] == ["B1", "B3"]
    assert [(one.line, one.code) for one in report.refused] == [
        (2 + shift, "bank_row_invalid"),
        (4 + shift, "payment_invalid"),
    ]
    assert settled(final) == ("part_paid", "1.00")
    entries, audits = JournalEntry.objects.count(), AuditEntry.objects.count()
    again = import_payments(bank_file=bank_file, actor=DORA, at=AT)
    assert (again.recorded, again.repeated, len(again.refused)) == ([], 2, 2)
    assert (JournalEntry.objects.count(), AuditEntry.objects.count()) == (entries, audits)


def test_another_amount_under_a_known_reference_is_refused(final: Invoice) -> None:
    pay(remittance=final.reference)

    report = import_payments(
        bank_file=read_csv(csv_text(("B1", "2.00", ""), ("B9", "1", ""), ("B9", "2", "")).encode()),
        actor=DORA,
        at=AT,
    )

    assert [one.bank_reference for one in report.recorded] == ["B9"]
    assert [(one.line, one.code) for one in report.refused] == [
        (2, "payment_exists"),
        (4, "payment_exists"),
    ]


def test_a_reference_that_occurs_twice_in_a_file_hides_no_payment() -> None:
    rows = [("B1", "5.00", "first"), ("B1", "5.00", "second"), ("NONREF", "5.00", "")]
    bank_file = read_camt053(camt_text(*rows).encode())
    report = import_payments(bank_file=bank_file, actor=DORA, at=AT)

    assert [one.remittance for one in report.recorded] == ["first"]
    assert [(one.line, one.code) for one in report.refused] == [
        (2, "payment_exists"),
        (3, "bank_row_invalid"),
    ]


def test_an_account_with_spaces_is_the_same_account() -> None:
    pay(bank_account="DE89 3704 0044 0532 0130 00")

    with pytest.raises(PaymentExistsError):
        pay(bank_account="de89370400440532013000")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<a/>",
        b"\xff\xfe<",
        b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        b"<Document><BkToCstmrStmt></BkToCstmrStmt></Document>",
    ],
)
def test_a_file_that_is_no_statement_is_refused(content: bytes) -> None:
    with pytest.raises(BankFileInvalidError):
        read_camt053(content)
    with pytest.raises(BankFileInvalidError):
        read_csv(content)


def test_debits_of_a_statement_are_passed_over() -> None:
    assert read_camt053(camt_text(("B1", "1", ""), indicator="DBIT").encode()).rows == []


@pytest.mark.parametrize(
    "fields",
    [{"reference": ""}, {"bank_account": "Credit note"}, {"booked_on": AT.date() + timedelta(1)}],
)
def test_a_payment_that_cannot_be_kept_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(PaymentInvalidError):
        pay(**fields)
    assert not Payment.objects.exists()

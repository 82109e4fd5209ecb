"""Write-offs: of what is open, by two persons, posted once, and reversed."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction

from billing.domain.errors import NotCreditableError, ReasonMissingError
from billing.domain.ledger.errors import (
    NotWritableOffError,
    PaymentNotAllocatableError,
    WriteOffFourEyesError,
    WriteOffStateError,
    WriteOffTooLargeError,
)
from billing.models import Invoice, JournalEntry, Payment, PaymentAllocation, WriteOff
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.ledger.reports import ageing, statement
from billing.services.crediting import draft_credit
from billing.services.ledger.settling import allocate_payment
from billing.services.ledger.write_offs import (
    confirm_write_off,
    propose_write_off,
    reject_write_off,
    reverse_write_off,
)
from tenants.models import AuditEntry
from tests.billing.services.ledger.test_journal import balances
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, ERIC, Ledger, month_of_use
from tests.support.billing.payments import pay, settled
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def ledger() -> Ledger:
    return month_of_use([("llm", 3600), ("vision", 1800)])


@shared_rows
def final(ledger: Ledger) -> Invoice:
    """October, final with 2.00 and 1.00."""
    return finalize(draft(ledger.organization, "2026-10"))


@pytest.fixture(autouse=True)
def verified(db: None) -> Iterator[None]:  # noqa: ARG001 - It is the transaction.
    """Expect after each test that journal, documents and write-offs agree, as at a commit."""
    yield
    assert check_journal({}).differences == ()
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def propose(invoice: Invoice, amount: str | None = None, **who: Any) -> WriteOff:  # noqa: ANN401
    return propose_write_off(
        document_id=invoice.pk,
        amount=None if amount is None else Decimal(amount),
        reason="Insolvent.",
        **{"is_four_eyes": True, "actor": DORA, "at": AT, **who},
    )


def confirm(row: WriteOff, **who: Any) -> WriteOff:  # noqa: ANN401 - Actor and time.
    given = {"is_four_eyes": True, "actor": ERIC, "at": AT, **who}
    return confirm_write_off(write_off_id=row.pk, **given)


def credit(invoice: Invoice, amount: str) -> Invoice:
    amounts = {invoice.lines.get(project__slug="llm").pk: Decimal(amount)}
    return draft_credit(
        invoice_id=invoice.pk,
        amounts=amounts,
        reason="Broken.",
        actor=DORA,
        at=AT,
        terms=SITE_TERMS,
    )


def test_what_is_open_is_written_off_by_a_second_person(final: Invoice) -> None:
    pay("B1", "1.00", remittance=final.reference)
    row = propose(final)
    assert (row.state, row.amount, settled(final)) == (
        "proposed",
        Decimal(2),
        ("part_paid", "2.00"),
    )

    confirm(row)

    assert settled(final) == ("written_off", "0.00")
    entry = JournalEntry.objects.get(event="write_off")
    assert {p.account_id: f"{p.amount:.2f}" for p in entry.postings.all()} == {
        "bad_debt": "2.00",
        "receivables": "-2.00",
    }
    assert AuditEntry.objects.get(action="billing:write_off:post").facts["reason"] == "Insolvent."


def test_a_part_is_written_off_and_the_rest_stays_open(final: Invoice) -> None:
    confirm(propose(final, "0.50"))

    assert settled(final) == ("open", "2.50")
    assert propose(final).amount == Decimal("2.5")


def test_a_reversed_write_off_is_open_again(ledger: Ledger, final: Invoice) -> None:
    issued = final.finalized_at
    assert issued is not None
    later = issued + timedelta(days=3)
    row = confirm(propose(final), at=issued)

    reverse_write_off(write_off_id=row.pk, reason="They paid.", actor=DORA, at=later)

    assert settled(final) == ("open", "3.00")
    assert balances(ledger.organization) == {"receivables": 3, "revenue": -3}
    for day, total in ((issued, []), (later, [Decimal(3)])):
        rows = ageing(on=day.date(), organization_ids=[ledger.organization.pk])
        assert [one.total for one in rows] == total
    made = statement(
        ledger.organization.pk,
        currency="EUR",
        begin_on=issued.date(),
        end_on=later.date() + timedelta(days=1),
    )
    assert [(line.event, f"{line.amount:.2f}") for line in made.lines] == [
        ("invoice", "3.00"),
        ("write_off", "-3.00"),
        ("write_off", "3.00"),
    ]
    with pytest.raises(WriteOffStateError):
        reverse_write_off(write_off_id=row.pk, reason="Again.", actor=DORA, at=later)
    assert JournalEntry.objects.filter(event="write_off").count() == 2


def test_the_proposer_does_not_confirm(final: Invoice) -> None:
    row = propose(final)

    with pytest.raises(WriteOffFourEyesError):
        confirm(row, actor=DORA)

    row.refresh_from_db()
    assert (row.state, settled(final)) == ("proposed", ("open", "3.00"))
    assert not JournalEntry.objects.filter(event="write_off").exists()


def test_one_person_writes_off_where_no_second_one_is_required(final: Invoice) -> None:
    assert propose(final, is_four_eyes=False).state == "posted"
    assert settled(final) == ("written_off", "0.00")


def test_a_rejected_write_off_changes_nothing(final: Invoice) -> None:
    row = propose(final)
    with pytest.raises(ReasonMissingError):
        reject_write_off(write_off_id=row.pk, note=" ", actor=ERIC, at=AT)

    reject_write_off(write_off_id=row.pk, note="They pay.", actor=ERIC, at=AT)

    assert settled(final) == ("open", "3.00")
    with pytest.raises(WriteOffStateError):
        confirm(row)
    assert propose(final).state == "proposed"


@pytest.mark.parametrize("amount", ["0", "-1", "0.001", "3.01", "NaN"])
def test_an_amount_that_is_none_or_not_open_is_refused(final: Invoice, amount: str) -> None:
    with pytest.raises(WriteOffTooLargeError) as refused:
        propose(final, amount)
    assert refused.value.field == "amount"
    assert not WriteOff.objects.exists()


def test_less_may_be_open_when_it_is_confirmed(final: Invoice) -> None:
    row = propose(final)
    pay("B1", "0.01", remittance=final.reference)

    with pytest.raises(WriteOffTooLargeError) as refused:
        confirm(row)

    assert refused.value.facts["open"] == "2.9900"
    row.refresh_from_db()
    assert row.state == "proposed"


def test_a_second_proposal_waits_for_the_first_and_drafts_have_none(final: Invoice) -> None:
    propose(final)
    with pytest.raises(NotWritableOffError):
        propose(final, "1.00")
    note = credit(final, "1.00")
    with pytest.raises(NotWritableOffError):
        propose(note)
    with pytest.raises(NotWritableOffError):
        confirm(WriteOff.objects.get())


def test_what_is_written_off_is_neither_paid_nor_credited(final: Invoice) -> None:
    confirm(propose(final))
    payment = pay("B1", "1.00", remittance=final.reference)
    assert not PaymentAllocation.objects.exists()

    with pytest.raises(PaymentNotAllocatableError):
        allocate_payment(payment_id=payment.pk, document_id=final.pk, actor=DORA, at=AT)
    with pytest.raises(NotCreditableError):
        credit(final, "1.00")

    assert settled(final) == ("written_off", "0.00")


def test_the_database_keeps_write_offs_and_allocates_nothing_to_them(final: Invoice) -> None:
    row = confirm(propose(final))
    payment = pay("B1", "1.00")
    rows = WriteOff.objects.filter(pk=row.pk)

    for change in (
        lambda: rows.update(amount=1),
        lambda: rows.update(state="proposed", decided_at=None),
        lambda: rows.update(decision_note="x"),
        rows.delete,
    ):
        with pytest.raises(DatabaseError), transaction.atomic():
            change()
    with pytest.raises(DatabaseError), transaction.atomic():
        allocate_unchecked(payment, final)


def allocate_unchecked(payment: Payment, document: Invoice) -> None:
    Payment.objects.filter(pk=payment.pk).update(organization=document.organization)
    PaymentAllocation.objects.create(
        payment=payment, document=document, amount=1, allocated_by="x", allocated_at=AT
    )
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

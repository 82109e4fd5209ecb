"""A payment assigned to the wrong organization is taken back, and is money of an unknown payer."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.db import DatabaseError, connection, transaction

from billing.domain.errors import ReasonMissingError
from billing.domain.ledger.errors import PaymentReturnedError, PaymentSettledError
from billing.models import Invoice, JournalEntry, Payment
from billing.selectors.ledger.reconciliation import check_journal
from billing.selectors.ledger.reports import ageing, statement
from billing.services.ledger.settling import (
    allocate_payment,
    refund_payment,
    release_payment,
    reverse_payment,
    unassign_payment,
)
from tenants.models import AuditEntry
from tests.billing.services.ledger.test_journal import balances
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, month_of_use
from tests.support.billing.payments import pay, settled
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
FIRST_OF_TIME = date(2026, 1, 1)


def make_final(slug: str) -> Invoice:
    return finalize(draft(month_of_use([("llm", 3600)], slug=slug).organization, "2026-10"))


@shared_rows
def wrong() -> Invoice:
    """October of Umbrella, 2.00, to which the payment is assigned."""
    return make_final("umbrella")


@shared_rows
def payment(wrong: Invoice) -> Payment:
    """3.00 that one unit of is allocated to the wrong organization's invoice, and released."""
    made = pay(remittance="thanks")
    allocate_payment(payment_id=made.pk, document_id=wrong.pk, amount=Decimal(1), actor=DORA, at=AT)
    return release_payment(payment_id=made.pk, reason="Wrong one.", actor=DORA, at=AT)


def commit() -> None:
    """Check what is checked at a commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


def unassign(payment: Payment, *, days: int = 0) -> Payment:
    commit()
    return unassign_payment(
        payment_id=payment.pk, reason="Of Acme.", actor=DORA, at=AT + days * DAY
    )


def credit_of(invoice: Invoice, *, days: int) -> Decimal:
    rows = ageing(on=AT.date() + days * DAY, organization_ids=[invoice.organization_id])
    return sum((row.credit for row in rows), Decimal(0))


def test_a_wrong_payer_is_taken_back_and_the_right_one_follows(
    payment: Payment, wrong: Invoice
) -> None:
    right = make_final("acme")
    released = settled(wrong)

    unassign(payment, days=1)

    assert Payment.objects.get(pk=payment.pk).organization_id is None
    assert balances(wrong.organization) == {"receivables": 2, "revenue": -2}
    entry = AuditEntry.objects.get(action="billing:payment:unassign")
    assert (entry.organization_id, entry.facts["reason"]) == (wrong.organization_id, "Of Acme.")
    allocate_payment(payment_id=payment.pk, document_id=right.pk, actor=DORA, at=AT + 2 * DAY)
    assert (settled(right)[0], settled(wrong)) == ("paid", released)
    release_payment(payment_id=payment.pk, reason="Of Umbrella.", actor=DORA, at=AT + 3 * DAY)
    unassign(payment, days=3)
    allocate_payment(payment_id=payment.pk, document_id=wrong.pk, actor=DORA, at=AT + 4 * DAY)
    assert JournalEntry.objects.filter(source_key__startswith="assignment:").count() == 3
    assert JournalEntry.objects.filter(source_key__startswith="unassignment:").count() == 2
    commit()
    assert check_journal({}).differences == ()


def test_reports_of_past_days_keep_the_payer_of_the_day(payment: Payment, wrong: Invoice) -> None:
    unassign(payment, days=1)

    assert [credit_of(wrong, days=days) for days in (0, 1)] == [Decimal(-3), 0]
    made = statement(
        wrong.organization_id, currency="EUR", begin_on=FIRST_OF_TIME, end_on=AT.date() + 2 * DAY
    )
    shown = [(line.event, line.amount) for line in made.lines if line.event != "invoice"]
    assert shown == [("assignment", Decimal(-3)), ("unassignment", Decimal(3))]


def test_what_is_allocated_is_released_first(payment: Payment, wrong: Invoice) -> None:
    allocate_payment(payment_id=payment.pk, document_id=wrong.pk, actor=DORA, at=AT)
    entries = JournalEntry.objects.count()

    with pytest.raises(PaymentSettledError):
        unassign(payment)

    assert Payment.objects.get(pk=payment.pk).organization_id == wrong.organization_id
    assert JournalEntry.objects.count() == entries


def test_what_is_paid_back_or_of_no_payer_is_refused(payment: Payment) -> None:
    with pytest.raises(ReasonMissingError):
        unassign_payment(payment_id=payment.pk, reason=" ", actor=DORA, at=AT)
    refund_payment(
        payment_id=payment.pk,
        amount=Decimal(1),
        bank_reference="back",
        booked_on=AT.date(),
        reason="Too much.",
        actor=DORA,
        at=AT,
    )
    with pytest.raises(PaymentReturnedError):
        unassign(payment)
    with pytest.raises(PaymentReturnedError):
        unassign(pay("B2"))
    reversed_ = pay("B3")
    reverse_payment(payment_id=reversed_.pk, reason="x", booked_on=AT.date(), actor=DORA, at=AT)
    with pytest.raises(PaymentReturnedError):
        unassign(reversed_)


def test_the_database_keeps_the_payer_of_what_is_allocated(
    payment: Payment, wrong: Invoice
) -> None:
    allocate_payment(payment_id=payment.pk, document_id=wrong.pk, actor=DORA, at=AT)
    other = make_final("acme").organization

    with pytest.raises(DatabaseError, match="keeps its organization"), transaction.atomic():
        Payment.objects.filter(pk=payment.pk).update(organization=None)
    with pytest.raises(DatabaseError, match="reversed or refunded"), transaction.atomic():
        Payment.objects.filter(pk=payment.pk).update(organization=other)

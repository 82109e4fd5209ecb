"""What is paid back is at most what is left, whatever writes it, and then nothing is open."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import DatabaseError, connection, transaction

from billing.models import DueDate, Payment
from billing.selectors.ledger.reports import ageing
from billing.services.ledger.settling import refund_payment
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, month_of_use
from tests.support.billing.payments import pay
from tests.support.builders import AT

pytestmark = pytest.mark.django_db


def test_the_database_refuses_to_pay_back_more_than_is_left() -> None:
    ledger = month_of_use([("llm", 3600)])
    final = finalize(draft(ledger.organization, "2026-10"))
    payment = pay(amount="4.00", remittance=final.reference)

    refund = Payment(
        kind="refund",
        bank_account=payment.bank_account,
        bank_reference="R1",
        amount=Decimal("-2.01"),
        currency="EUR",
        booked_on=AT.date(),
        organization=payment.organization,
        origin=payment,
        recorded_by="dora",
        recorded_at=AT,
    )
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS billing_payment_return_fits IMMEDIATE")

    with pytest.raises(DatabaseError, match="more is paid back"), transaction.atomic():
        refund.save(force_insert=True)

    assert not payment.returns.exists()


def test_who_was_paid_back_is_not_among_open_items() -> None:
    ledger = month_of_use([("llm", 3600)])
    final = finalize(draft(ledger.organization, "2026-10"))
    payment = pay(amount="5.00", remittance=final.reference)
    today = max(AT.date(), DueDate.objects.get(document=final).due_on) + timedelta(days=1)
    (credit,) = ageing(on=today, organization_ids=None)

    refund_payment(
        payment_id=payment.pk,
        amount=-credit.total,
        bank_reference="R1",
        booked_on=AT.date(),
        reason="Paid twice.",
        actor=DORA,
        at=AT,
    )

    assert credit.total < 0
    assert ageing(on=today, organization_ids=None) == ()

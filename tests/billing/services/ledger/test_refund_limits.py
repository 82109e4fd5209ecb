"""What is paid back is at most what is left, whatever writes it."""

from decimal import Decimal

import pytest
from django.db import DatabaseError, connection, transaction

from billing.models import Payment
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import month_of_use
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

"""Releasing carried balances: money owed to a customer becomes free to settle or pay back."""

from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction

from billing.domain.errors import required_reason
from billing.domain.ledger.errors import NothingCarriedError
from billing.models import Invoice, Payment, PaymentKind
from billing.selectors.ledger.carried import releasable_balance
from billing.selectors.locks import lock_organizations, share_accounting_months
from billing.services.ledger.journal import post_events
from billing.services.ledger.payments import audit_payment
from tenants.domain.actors import Actor


def release_balance(*, invoice_id: UUID, reason: str, actor: Actor, at: datetime) -> Payment:
    """Return the credit that the carried balance of an invoice's issuer and recipient becomes.

    The whole balance is released, as it is after their latest document. What a customer owes is not
    released: the next document asks for it.

    Args:
        invoice_id: Any document of that issuer and recipient in the currency.
        reason: Why it is not left to the next document.
        actor: The account that releases it.
        at: When.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        NothingCarriedError: Nothing that is owed to the customer is carried.
        Invoice.DoesNotExist: There is none.
    """
    why = required_reason(reason)
    with transaction.atomic():
        invoice = Invoice.objects.defer("document", "content").get(pk=invoice_id)
        lock_organizations([invoice.organization_id])
        share_accounting_months()
        balance = releasable_balance(invoice)
        if balance is None:
            raise NothingCarriedError("No balance that is owed to the customer is carried.")
        payment = Payment.objects.create(
            kind=PaymentKind.CARRIED,
            bank_account="CARRIED",
            bank_reference=str(balance.document_id),
            amount=-balance.amount,
            currency=invoice.currency,
            booked_on=at.date(),
            organization_id=invoice.organization_id,
            document_id=balance.document_id,
            reason=why,
            recorded_by=actor.label,
            recorded_at=at,
        )
        post_events(_RELEASED, {"id": payment.pk}, actor=actor, at=at)
        audit_payment(payment, action="release_balance", facts={"reason": why}, actor=actor, at=at)
    return payment


_RELEASED: Final = """
SELECT p.kind AS event, 'payment:' || p.id AS source_key, p.organization_id, p.currency,
       p.booked_on AS document_on, 'Carried balance of ' || (i.document ->> 'reference') AS reason,
       x.account, x.amount
  FROM billing_payment p JOIN billing_invoice i ON i.id = p.document_id
 CROSS JOIN LATERAL (VALUES ('carried_balance', p.amount), ('customer_credit', -p.amount))
   AS x(account, amount)
 WHERE p.id = %(id)s
"""

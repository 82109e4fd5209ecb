"""Settling: payments assigned, allocated to open items, released, reversed and refunded.

Whatever changes what an organization has left to pay locks the organization first, as a
finalization does.
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from django.db import transaction

from billing.domain.documents.document_text import money_text
from billing.domain.documents.invoicing import OWED_KINDS
from billing.domain.errors import required_reason
from billing.domain.ledger.bank_rows import BankRow, require_bank_row, require_payment_amount
from billing.domain.ledger.errors import (
    AllocationTooLargeError,
    PaymentExistsError,
    PaymentNotAllocatableError,
    PaymentReturnedError,
    PaymentSettledError,
)
from billing.models import Invoice, OpeningBalance, Payment, PaymentAllocation, PaymentKind
from billing.selectors.ledger.settlement import open_amount_of, with_free_amount
from billing.selectors.locks import lock_organizations, lock_payment, share_accounting_months
from billing.services.ledger.allocations import (
    release_allocations,
    standing_allocations,
    write_allocations,
)
from billing.services.ledger.journal import post_events
from billing.services.ledger.payments import (
    PAYMENTS,
    TAKEN,
    audit_payment,
    known_payments,
    new_payment,
)
from tenants.domain.actors import Actor


def allocate_payment(
    *,
    payment_id: UUID,
    document_id: UUID | None = None,
    opening_balance_id: UUID | None = None,
    amount: Decimal | None = None,
    actor: Actor,
    at: datetime,
) -> Payment:
    """Settle an open item with a payment's money; one without an organization gets the item's.

    Args:
        payment_id: A receipt, the credit of a credit note, or opening credit.
        document_id: A final invoice.
        opening_balance_id: Instead of an invoice, an opening balance above zero.
        amount: How much; None for as much as is free and open.
        actor: The account that allocates.
        at: When.

    Raises:
        PaymentNotAllocatableError: They do not fit, or nothing is left of one of them.
        AllocationTooLargeError: More than is left.
        PaymentInvalidError: The amount is not above zero, or finer than the currency.
    """
    item = _open_item(document_id, opening_balance_id)
    with transaction.atomic():
        lock_organizations([item.organization_id])
        payment = lock_payment(payment_id)
        share_accounting_months()
        _require_fit(payment, item)
        _require_left(payment, item, amount)
        if payment.organization_id is None:
            _assign(payment, item.organization_id, actor=actor, at=at)
        left = min(_free(payment), open_amount_of(item))
        row = PaymentAllocation(
            payment=payment,
            document_id=document_id,
            opening_balance_id=opening_balance_id,
            amount=left if amount is None else amount,
        )
        write_allocations([row], actor=actor, at=at)
        facts = {"document": item.reference, "amount": str(row.amount)}
        audit_payment(payment, action="allocate", facts=facts, actor=actor, at=at)
    return payment


def release_payment(*, payment_id: UUID, reason: str, actor: Actor, at: datetime) -> Payment:
    """Take all allocations of a payment back, so that its money is free again.

    Raises:
        ReasonMissingError: There is no reason.
        PaymentNotAllocatableError: Nothing of it is allocated.
    """
    why = required_reason(reason)
    with transaction.atomic():
        payment = _lock_with_organization(payment_id)
        rows = standing_allocations(payment_id=payment.pk)
        if not rows:
            raise PaymentNotAllocatableError("Nothing of the payment is allocated.")
        release_allocations(rows, actor=actor, at=at)
        audit_payment(payment, action="release", facts={"reason": why}, actor=actor, at=at)
    return payment


def unassign_payment(*, payment_id: UUID, reason: str, actor: Actor, at: datetime) -> Payment:
    """Take the payer of a payment back, so that it can be allocated to another's invoice.

    Args:
        payment_id: A receipt that nothing is allocated or paid back of.
        reason: Why the organization is not its payer.
        actor: The account that takes it back.
        at: When.

    Raises:
        ReasonMissingError: There is no reason.
        PaymentReturnedError: Its payer is not known, it is reversed or refunded, or no receipt.
        PaymentSettledError: Something of it is allocated.
    """
    why = required_reason(reason)
    with transaction.atomic():
        payment = _lock_with_organization(payment_id)
        is_assigned = payment.kind == PaymentKind.RECEIPT and payment.organization_id is not None
        if not is_assigned or payment.returns.exists():
            raise PaymentReturnedError("The payment has no payer that can be taken back.")
        if standing_allocations(payment_id=payment.pk):
            raise PaymentSettledError("Something of the payment is allocated.")
        _post_payer(payment, event="unassignment", actor=actor, at=at)
        audit_payment(payment, action="unassign", facts={"reason": why}, actor=actor, at=at)
        payment.organization_id = None
        payment.save(update_fields=["organization"])
    return payment


def reverse_payment(
    *, payment_id: UUID, reason: str, booked_on: date, actor: Actor, at: datetime
) -> Payment:
    """Return the reversal of a payment that the bank took back; its allocations are released.

    Raises:
        ReasonMissingError: There is no reason.
        PaymentInvalidError: The date is in the future.
        PaymentReturnedError: It is reversed, refunded in part, or was never received.
    """
    why = required_reason(reason)
    with transaction.atomic():
        payment = _lock_with_organization(payment_id)
        if payment.kind != PaymentKind.RECEIPT or payment.returns.exists():
            raise PaymentReturnedError("The payment cannot be reversed.")
        rows = standing_allocations(payment_id=payment.pk)
        release_allocations(rows, actor=actor, at=at)
        made = _pay_back(
            payment,
            kind=PaymentKind.REVERSAL,
            row=_reversed(payment, booked_on=booked_on),
            reason=why,
            actor=actor,
            at=at,
        )
        audit_payment(payment, action="reverse", facts={"reason": why}, actor=actor, at=at)
    return made


def refund_payment(  # noqa: PLR0913 - What the bank says, and why; keyword only.
    *,
    payment_id: UUID,
    amount: Decimal,
    bank_reference: str,
    bank_account: str = "",
    booked_on: date,
    reason: str,
    actor: Actor,
    at: datetime,
) -> Payment:
    """Return the refund of free money: the bank's transaction that paid it back.

    Args:
        payment_id: A payment, or the credit of a credit note, which came from no account.
        amount: At most what is free.
        bank_reference: The bank's reference of the transaction.
        bank_account: The account of ours it left; "" for the one the payment came to.
        booked_on: When.
        reason: Why.
        actor: The account that records it.
        at: When it is recorded.

    Raises:
        ReasonMissingError: There is no reason.
        PaymentInvalidError: Amount, reference or date cannot be kept.
        PaymentReturnedError: Its organization is not known, or it is itself a refund or reversal.
        AllocationTooLargeError: More than is free.
        PaymentExistsError: There is a payment with this reference.
    """
    why = required_reason(reason)
    with transaction.atomic():
        payment = _lock_with_organization(payment_id)
        if payment.origin_id is not None or payment.organization_id is None:
            raise PaymentReturnedError("The payment cannot be refunded.")
        account = bank_account or payment.bank_account
        row = BankRow(account, bank_reference, amount, payment.currency, booked_on)
        require_bank_row(row, today=at.date())
        free = _free(payment)
        if amount > free:
            raise AllocationTooLargeError(
                f"More would be refunded than is free: {money_text(free, payment.currency)}.",
                field="amount",
                facts={"free": str(free)},
            )
        made = _pay_back(payment, kind=PaymentKind.REFUND, row=row, reason=why, actor=actor, at=at)
        facts = {"amount": str(amount), "reason": why}
        audit_payment(payment, action="refund", facts=facts, actor=actor, at=at)
    return made


def _open_item(
    document_id: UUID | None, opening_balance_id: UUID | None
) -> Invoice | OpeningBalance:
    if document_id is not None:
        return Invoice.objects.select_related("period").get(pk=document_id)
    if opening_balance_id is None:
        raise ValueError("a document or an opening balance is named")
    return OpeningBalance.objects.get(pk=opening_balance_id)


def _require_fit(payment: Payment, item: Invoice | OpeningBalance) -> None:
    if isinstance(item, Invoice):
        is_owed = item.state == "final" and item.kind in OWED_KINDS
    else:
        is_owed = item.amount > 0
    is_fitting = (
        payment.origin_id is None
        and is_owed
        and payment.currency == item.currency
        and payment.organization_id in {None, item.organization_id}
        and not payment.returns.filter(kind=PaymentKind.REVERSAL).exists()
    )
    if not is_fitting:
        raise PaymentNotAllocatableError("Payment and document do not fit.", field="document")


def _require_left(payment: Payment, item: Invoice | OpeningBalance, amount: Decimal | None) -> None:
    free, open_amount = _free(payment), open_amount_of(item)
    facts = {"free": str(free), "open": str(open_amount)}
    if min(free, open_amount) <= 0:
        raise PaymentNotAllocatableError("Nothing is left of payment or document.", facts=facts)
    if amount is not None:
        require_payment_amount(amount, currency=payment.currency)
        if amount > min(free, open_amount):
            raise AllocationTooLargeError(
                f"More would be allocated than is left: {money_text(free, payment.currency)} of"
                f" the payment, {money_text(open_amount, payment.currency)} of the document.",
                field="amount",
                facts=facts,
            )


def _free(payment: Payment) -> Decimal:
    free: Decimal = with_free_amount(Payment.objects.filter(pk=payment.pk)).get().free_amount
    return free


def _assign(payment: Payment, organization_id: UUID, *, actor: Actor, at: datetime) -> None:
    payment.organization_id = organization_id
    payment.save(update_fields=["organization"])
    _post_payer(payment, event="assignment", actor=actor, at=at)


def _post_payer(payment: Payment, *, event: str, actor: Actor, at: datetime) -> None:
    """Post an assignment or its opposite; one after an earlier one of the payment has a number."""
    key = f"{event}:{payment.pk}"
    values = {"id": payment.pk, "event": event, "key": key, "keys": f"{key}%", "at": at}
    post_events(_PAYERS, values, actor=actor, at=at)


def _lock_with_organization(payment_id: UUID) -> Payment:
    owner = Payment.objects.only("organization_id").get(pk=payment_id).organization_id
    lock_organizations([] if owner is None else [owner])
    payment = lock_payment(payment_id)
    share_accounting_months()
    return payment


def _reversed(payment: Payment, *, booked_on: date) -> BankRow:
    reference = f"Reversal {payment.pk}"
    return BankRow(payment.bank_account, reference, payment.amount, payment.currency, booked_on)


def _pay_back(
    payment: Payment, *, kind: PaymentKind, row: BankRow, reason: str, actor: Actor, at: datetime
) -> Payment:
    require_bank_row(row, today=at.date())
    if row.key in known_payments([row]):
        raise PaymentExistsError(TAKEN, field="bank_reference")
    made = new_payment(
        row,
        organization_id=payment.organization_id,
        actor=actor,
        at=at,
        kind=kind,
        origin=payment,
        reason=reason,
    )
    made.amount = -row.amount
    made.save()
    post_events(PAYMENTS, {"ids": [made.pk]}, actor=actor, at=at)
    return made


_PAYERS: Final = """
SELECT %(event)s AS event, %(key)s || coalesce(':' || nullif(before.number, 0), '') AS source_key,
       p.organization_id, p.currency,
       (%(at)s::timestamptz AT TIME ZONE 'UTC')::date AS document_on, p.bank_reference AS reason,
       x.account, CASE %(event)s WHEN 'assignment' THEN x.amount ELSE -x.amount END AS amount
  FROM billing_payment p
 CROSS JOIN (SELECT count(*) AS number FROM billing_journalentry
              WHERE source_key LIKE %(keys)s) before
 CROSS JOIN LATERAL (VALUES ('clearing', p.amount), ('customer_credit', -p.amount))
   AS x(account, amount)
 WHERE p.id = %(id)s
"""

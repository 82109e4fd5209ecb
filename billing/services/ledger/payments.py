"""Payments: recorded once by the bank's reference, matched, allocated, reversed and refunded.

Money is the credit of its organization until it is allocated. Whatever changes what an organization
has left locks the organization first, as a finalization does.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from billing.domain.ledger.bank_rows import (
    BankFile,
    BankRow,
    RefusedRow,
    require_bank_row,
)
from billing.domain.ledger.errors import (
    PaymentExistsError,
)
from billing.models import Invoice, Payment, PaymentAllocation
from billing.selectors.ledger.settlement import find_documents, open_amounts
from billing.selectors.locks import (
    lock_organizations,
    share_accounting_months,
)
from billing.services.ledger.allocations import (
    write_allocations,
)
from billing.services.ledger.journal import post_events
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.services.audit import record


@dataclass(frozen=True)
class PaymentReport:
    """What became of a bank's file: payments recorded, those known before, and refused rows."""

    recorded: list[Payment]
    repeated: int
    refused: list[RefusedRow]


def import_payments(*, bank_file: BankFile, actor: Actor, at: datetime) -> PaymentReport:
    """Record the rows of a bank's file that can be, and report the others; a repeat adds nothing.

    A payment whose text has numbers of one organization's invoices in its currency is allocated to
    them in that order; any other waits for a person.

    Args:
        bank_file: As read.
        actor: The account that imports it.
        at: When.
    """
    rows, refused = _checked(bank_file, today=at.date())
    with transaction.atomic():
        made = _record_new(rows, organization_id=None, actor=actor, at=at)
        known = known_payments(rows)
        taken = [row for row in rows if known[row.key] != (row.amount, row.currency)]
        refused += [_refused(row, PaymentExistsError(TAKEN)) for row in taken]
        if made:
            record(
                actor=actor,
                at=at,
                action="billing:payment:import",
                object_kind="payment",
                object_id="",
                facts={"recorded": len(made), "refused": len(refused)},
            )
    repeated = len(rows) - len(taken) - len(made)
    return PaymentReport(made, repeated, sorted(refused, key=lambda row: row.line))


def record_payment(
    *, row: BankRow, organization_id: UUID | None = None, actor: Actor, at: datetime
) -> Payment:
    """Record a payment that was received, and allocate it if its text says to what.

    Args:
        row: As the bank has it.
        organization_id: Whose money it is; None where the text must say so.
        actor: The account that records it.
        at: When.

    Raises:
        PaymentInvalidError: Account, reference, amount or date cannot be kept.
        CurrencyUnknownError: The currency is not an active one.
        PaymentExistsError: There is one with this reference.
    """
    require_bank_row(row, today=at.date())
    with transaction.atomic():
        made = _record_new([row], organization_id=organization_id, actor=actor, at=at)
        if not made:
            raise PaymentExistsError(TAKEN, field="bank_reference")
        audit_payment(made[0], action="record", facts={}, actor=actor, at=at)
    return made[0]


def _checked(bank_file: BankFile, *, today: date) -> tuple[list[BankRow], list[RefusedRow]]:
    """Return the rows that can be recorded, and all refused ones.

    A reference that occurs twice in a file identifies no payment: only its first row is taken.
    """
    refused = list(bank_file.refused)
    rows: dict[tuple[str, str], BankRow] = {}
    for row in bank_file.rows:
        try:
            require_bank_row(row, today=today)
        except DomainError as error:
            refused.append(_refused(row, error))
            continue
        if row.key in rows:
            refused.append(_refused(row, PaymentExistsError(TWICE, field="bank_reference")))
        rows.setdefault(row.key, row)
    return list(rows.values()), refused


def _refused(row: BankRow, error: DomainError) -> RefusedRow:
    field = f"{error.field}: " if error.field else ""
    return RefusedRow(line=row.line, code=error.code, reason=f"{field}{error}")


def known_payments(rows: Iterable[BankRow]) -> dict[tuple[str, str], tuple[Decimal, str]]:
    """Return amount and currency of the payments recorded with these references."""
    keys = [row.key for row in rows]
    there = Payment.objects.filter(
        bank_account__in={account for account, _ in keys},
        bank_reference__in={reference for _, reference in keys},
    )
    return {(row.bank_account, row.bank_reference): (row.amount, row.currency) for row in there}


def _record_new(
    rows: Sequence[BankRow], *, organization_id: UUID | None, actor: Actor, at: datetime
) -> list[Payment]:
    """Write, post and match the payments whose reference is not known; return them."""
    known = known_payments(rows)
    unknown: dict[tuple[str, str], BankRow] = {}
    for row in rows:
        if row.key not in known:
            unknown.setdefault(row.key, row)
    documents = find_documents({one for row in unknown.values() for one in row.references})
    lock_organizations({one.organization_id for one in documents.values()})
    share_accounting_months()
    matched = {
        key: _matching(row, documents, organization_id=organization_id)
        for key, row in unknown.items()
    }
    payments = [
        new_payment(
            row,
            organization_id=organization_id or _one_organization(matched[row.key]),
            actor=actor,
            at=at,
        )
        for row in unknown.values()
    ]
    # In one order: two imports of the same rows wait for each other, and never both.
    ordered = sorted(payments, key=lambda one: (one.bank_account, one.bank_reference))
    Payment.objects.bulk_create(ordered, ignore_conflicts=True)
    there = set(
        Payment.objects.filter(pk__in=[one.pk for one in payments]).values_list("pk", flat=True)
    )
    made = [one for one in payments if one.pk in there]
    post_events(PAYMENTS, {"ids": [one.pk for one in made]}, actor=actor, at=at)
    _allocate_matched(made, matched, actor=actor, at=at)
    return made


def _matching(
    row: BankRow, documents: dict[str, Invoice], *, organization_id: UUID | None
) -> list[Invoice]:
    """Return the invoices a payer's text names, if they are of one organization."""
    named = [documents[one] for one in row.references if one in documents]
    if len({one.organization_id for one in named}) != 1:
        return []
    return [
        one
        for one in named
        if one.currency == row.currency and organization_id in {None, one.organization_id}
    ]


def _one_organization(documents: Sequence[Invoice]) -> UUID | None:
    return documents[0].organization_id if documents else None


def new_payment(
    row: BankRow,
    *,
    organization_id: UUID | None,
    actor: Actor,
    at: datetime,
    **more: Any,  # noqa: ANN401 - Fields.
) -> Payment:
    """Return a payment that is not written yet."""
    return Payment(
        bank_account=row.bank_account,
        bank_reference=row.bank_reference,
        amount=row.amount,
        currency=row.currency,
        booked_on=row.booked_on,
        payer=row.payer[:140],
        remittance=row.remittance[:500],
        organization_id=organization_id,
        recorded_by=actor.label,
        recorded_at=at,
        **more,
    )


def _allocate_matched(
    payments: Collection[Payment],
    matched: dict[tuple[str, str], list[Invoice]],
    *,
    actor: Actor,
    at: datetime,
) -> None:
    left = open_amounts([one.pk for found in matched.values() for one in found])
    rows = []
    for payment in payments:
        free = payment.amount
        for document in matched[payment.bank_account, payment.bank_reference]:
            amount = min(free, left[document.pk])
            if amount > 0:
                rows.append(PaymentAllocation(payment=payment, document=document, amount=amount))
                left[document.pk] -= amount
                free -= amount
    write_allocations(rows, actor=actor, at=at)


def audit_payment(
    payment: Payment, *, action: str, facts: dict[str, str], actor: Actor, at: datetime
) -> None:
    """Write the audit entry of what is done to a payment."""
    record(
        actor=actor,
        at=at,
        action=f"billing:payment:{action}",
        object_kind="payment",
        object_id=payment.pk,
        organization_id=payment.organization_id,
        facts={
            "bank_reference": payment.bank_reference,
            "total": str(payment.amount),
            "currency": payment.currency,
            **facts,
        },
    )


TWICE: Final = "The reference occurs twice in the file."
TAKEN: Final = "A payment with this reference on this account is recorded."
# A refund or reversal has the sign of its amount, so that it goes the other way.
PAYMENTS: Final = """
SELECT CASE p.kind WHEN 'receipt' THEN 'payment' ELSE p.kind END AS event,
       'payment:' || p.id AS source_key, p.organization_id, p.currency,
       p.booked_on AS document_on, p.bank_reference AS reason, x.account, x.amount
  FROM billing_payment p
 CROSS JOIN LATERAL (VALUES ('bank', p.amount),
   (CASE WHEN p.organization_id IS NULL THEN 'clearing' ELSE 'customer_credit' END, -p.amount))
   AS x(account, amount)
 WHERE p.id = ANY(%(ids)s)
"""

"""Allocating payments to open items, and taking allocations back; each is posted at once."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from billing.models import PaymentAllocation
from billing.selectors.ledger.settlement import open_amounts
from billing.services.ledger.journal import post_events
from tenants.domain.actors import Actor


def write_allocations(
    rows: Sequence[PaymentAllocation], *, actor: Actor, at: datetime
) -> list[PaymentAllocation]:
    """Write and post allocations; share the accounting months and lock organizations before.

    Args:
        rows: Those to write; the database checks that they fit.
        actor: The account that allocates.
        at: When.
    """
    for row in rows:
        row.allocated_by, row.allocated_at = actor.label, at
    made = PaymentAllocation.objects.bulk_create(rows)
    if made:
        post_events(_ALLOCATIONS, {"ids": [row.pk for row in made]}, actor=actor, at=at)
    return made


def release_allocations(
    rows: Sequence[PaymentAllocation], *, actor: Actor, at: datetime
) -> list[PaymentAllocation]:
    """Take allocations back, each by a negative one that points at it."""
    negative = [
        PaymentAllocation(
            payment_id=row.payment_id,
            document_id=row.document_id,
            opening_balance_id=row.opening_balance_id,
            amount=-row.amount,
            releases=row,
        )
        for row in rows
    ]
    return write_allocations(negative, actor=actor, at=at)


def release_above_open(document_id: UUID, *, actor: Actor, at: datetime) -> None:
    """Free what was paid above what a credit note leaves of an invoice, the latest payments first.

    An allocation is taken back whole; what still belongs to the document is allocated anew.
    """
    above = -open_amounts([document_id])[document_id]
    released, anew = [], []
    for row in standing_allocations(document_id=document_id):
        if above <= 0:
            break
        released.append(row)
        if row.amount > above:
            anew.append(_part(row, row.amount - above))
        above -= row.amount
    release_allocations(released, actor=actor, at=at)
    write_allocations(anew, actor=actor, at=at)


def standing_allocations(**of: UUID) -> list[PaymentAllocation]:
    """Return the allocations of a document or payment that are not taken back, newest first."""
    rows = PaymentAllocation.objects.filter(**of, amount__gt=0, release=None)
    return list(rows.order_by("-allocated_at", "-pk"))


def _part(row: PaymentAllocation, amount: Decimal) -> PaymentAllocation:
    return PaymentAllocation(payment_id=row.payment_id, document_id=row.document_id, amount=amount)


_ALLOCATIONS: Final = """
SELECT 'allocation' AS event, 'allocation:' || a.id AS source_key,
       coalesce(d.organization_id, o.organization_id) AS organization_id, p.currency,
       (a.allocated_at AT TIME ZONE 'UTC')::date AS document_on,
       (CASE WHEN a.amount < 0 THEN 'Released: ' ELSE '' END) || p.bank_reference || ' for '
         || coalesce(d.document ->> 'reference', o.reference) AS reason, x.account, x.amount
  FROM billing_paymentallocation a
  JOIN billing_payment p ON p.id = a.payment_id
  LEFT JOIN billing_invoice d ON d.id = a.document_id
  LEFT JOIN billing_openingbalance o ON o.id = a.opening_balance_id
 CROSS JOIN LATERAL (VALUES ('customer_credit', a.amount), ('receivables', -a.amount))
   AS x(account, amount)
 WHERE a.id = ANY(%(ids)s)
"""

"""What becomes final is posted: journal entry, due date, and credit of a standing credit note."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from billing.domain.documents.invoicing import InvoiceKind
from billing.models import Invoice
from billing.selectors.ledger.settlement import CARRIED, DUE, NET, TAX
from billing.selectors.locks import share_accounting_months
from billing.services.ledger.allocations import release_above_open
from billing.services.ledger.journal import post_events
from tenants.domain.actors import Actor
from tenants.services.audit import record

DOCUMENTS_MAX: Final = 10_000
"""Documents that one run posts, in about a second; the next run takes the rest."""


def post_document(document: Invoice, *, payment_days: int, actor: Actor, at: datetime) -> None:
    """Post a document that becomes final; the caller's transaction holds its audit entry.

    A credit note of a paid invoice makes what it gives back free for other documents.

    Args:
        document: A final one, with its organization locked.
        payment_days: From its date to its due date.
        actor: The account that finalizes.
        at: When.
    """
    share_accounting_months()
    if document.amount_due < 0 and document.corrects_id is None:
        _credit([document.pk], actor=actor, at=at)
    _post([document.pk], payment_days=payment_days, actor=actor, at=at)
    if document.kind == InvoiceKind.CREDIT_NOTE.value and document.corrects_id is not None:
        release_above_open(document.corrects_id, actor=actor, at=at)


def post_missing_documents(*, payment_days: int, actor: Actor, at: datetime) -> int:
    """Post final documents without an entry, and return how many there were.

    They are those of a version without a journal; a document that becomes final is posted at once.
    """
    with transaction.atomic():
        share_accounting_months()
        with connection.cursor() as cursor:
            cursor.execute(_MISSING, {"most": DOCUMENTS_MAX})
            missing = [document_id for (document_id,) in cursor.fetchall()]
        _credit(missing, actor=actor, at=at)
        posted = _post(missing, payment_days=payment_days, actor=actor, at=at)
        if posted:
            record(
                actor=actor,
                at=at,
                action="billing:journal:post_missing",
                object_kind="journal_entry",
                object_id="",
                facts={"entries": posted},
            )
    return posted


def _credit(document_ids: list[UUID], *, actor: Actor, at: datetime) -> None:
    """Record what documents give back by themselves as payments, which settle other invoices."""
    with connection.cursor() as cursor:
        cursor.execute(_CREDITS, {"documents": document_ids, "actor": actor.label, "at": at})


def _post(document_ids: list[UUID], *, payment_days: int, actor: Actor, at: datetime) -> int:
    values: dict[str, Any] = {"documents": document_ids, "payment_days": payment_days}
    with connection.cursor() as cursor:
        cursor.execute(_DUE_DATES, values)
    return post_events(_DOCUMENTS, values, actor=actor, at=at)


_FINAL: Final = "i.state = 'final' AND i.id = ANY (%(documents)s)"
_ISSUED_ON: Final = "(i.finalized_at AT TIME ZONE 'UTC')::date"
_GIVES_BACK: Final = f"i.corrects_id IS NULL AND {DUE} < 0"
# OFFSET 0 has each row looked up by its key also where nested loops are ruled out.
_DUE_DATES: Final = f"""
INSERT INTO billing_duedate (document_id, due_on, payment_days)
SELECT i.id, {_ISSUED_ON} + %(payment_days)s::int, %(payment_days)s
  FROM billing_invoice i
 WHERE {_FINAL} AND i.kind IN ('invoice', 'debit_note')
   AND NOT EXISTS (SELECT FROM billing_duedate d WHERE d.document_id = i.id OFFSET 0)
ON CONFLICT DO NOTHING
"""  # noqa: S608 - Put together from constants only.
_CREDITS: Final = f"""
INSERT INTO billing_payment
  (id, kind, bank_account, bank_reference, amount, currency, booked_on, payer, remittance,
   organization_id, document_id, reason, recorded_by, recorded_at)
SELECT gen_random_uuid(), 'credit_note', 'CREDITNOTE', i.document ->> 'reference',
       -{DUE}, i.currency, {_ISSUED_ON}, '', '', i.organization_id, i.id, '',
       %(actor)s, %(at)s
  FROM billing_invoice i
 WHERE {_FINAL} AND {_GIVES_BACK}
   AND NOT EXISTS (SELECT FROM billing_payment p WHERE p.document_id = i.id OFFSET 0)
ON CONFLICT DO NOTHING
"""  # noqa: S608 - As above.
# What a document gives back by itself is owed to the customer.
_DOCUMENTS: Final = f"""
SELECT i.kind AS event, 'document:' || i.id AS source_key, i.organization_id, i.currency,
       {_ISSUED_ON} AS document_on, i.document ->> 'reference' AS reason, p.account, p.amount
  FROM (SELECT * FROM billing_invoice i
         WHERE {_FINAL} AND ({NET}, {TAX}, {CARRIED}) <> (0, 0, 0)
           AND NOT EXISTS (SELECT FROM billing_journalentry e
                            WHERE e.source_key = 'document:' || i.id OFFSET 0)) i
 CROSS JOIN LATERAL (VALUES
   (CASE WHEN {_GIVES_BACK} THEN 'customer_credit' ELSE 'receivables' END, {DUE}),
   ('carried_balance', {CARRIED}),
   ('revenue', -({NET})), ('tax_payable', -({TAX}))) AS p(account, amount)
"""  # noqa: S608 - As above.
_MISSING: Final = f"""
SELECT i.id FROM billing_invoice i
 WHERE i.state = 'final' AND (
       ({NET}, {TAX}, {CARRIED}) <> (0, 0, 0) AND NOT EXISTS (
         SELECT FROM billing_journalentry e WHERE e.source_key = 'document:' || i.id)
    OR i.kind IN ('invoice', 'debit_note') AND NOT EXISTS (
         SELECT FROM billing_duedate d WHERE d.document_id = i.id)
    OR {_GIVES_BACK} AND NOT EXISTS (
         SELECT FROM billing_payment p WHERE p.document_id = i.id))
 ORDER BY i.id LIMIT %(most)s
"""  # noqa: S608 - As above.

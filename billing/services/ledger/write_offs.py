"""Write-offs: proposed, confirmed by another person and posted, and reversed.

Whatever changes what an organization has left to pay locks the organization first.
"""

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from django.db import transaction

from billing.domain.documents.invoicing import OWED_KINDS, InvoiceState
from billing.domain.errors import required_reason
from billing.domain.ledger.errors import NotWritableOffError
from billing.domain.ledger.write_offs import (
    WriteOffMove,
    WriteOffState,
    require_open_amount,
    require_second_person,
    write_off_after,
)
from billing.models import Invoice, WriteOff
from billing.selectors.ledger.settlement import open_amounts
from billing.selectors.locks import (
    lock_invoice,
    lock_organizations,
    lock_write_off,
    share_accounting_months,
)
from billing.services.ledger.journal import post_events
from tenants.domain.actors import Actor
from tenants.services.audit import record

REASON_LENGTH_MAX: Final = 500


def propose_write_off(
    *,
    document_id: UUID,
    amount: Decimal | None = None,
    reason: str,
    is_four_eyes: bool,
    actor: Actor,
    at: datetime,
) -> WriteOff:
    """Return a proposed write-off of what is open of a document; posted at once without four eyes.

    Args:
        document_id: A final invoice or debit note.
        amount: How much, with tax; None for all that is open.
        reason: Why it will not be paid.
        is_four_eyes: Whether another person has to confirm it.
        actor: The account that proposes.
        at: When.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        NotWritableOffError: The document is not final, has a proposed write-off or a credit note
            in the making.
        WriteOffTooLargeError: It is no amount above zero, or more than is open.
        Invoice.DoesNotExist: There is none.
    """
    why = required_reason(reason, length_max=REASON_LENGTH_MAX)
    owner = Invoice.objects.values_list("organization", flat=True).get(pk=document_id)
    with transaction.atomic():
        lock_organizations([owner])
        document = lock_invoice(document_id)
        _require_writable(document)
        left = open_amounts([document_id])[document_id]
        asked = left if amount is None else amount
        require_open_amount(asked, left=left, currency=document.currency)
        row = WriteOff.objects.create(
            organization_id=owner,
            document=document,
            currency=document.currency,
            amount=asked,
            reason=why,
            requested_by=actor.label,
            requested_by_id=actor.id,
            requested_at=at,
        )
        _audit(row, action="propose", reason=why, actor=actor, at=at)
        if not is_four_eyes:
            share_accounting_months()
            _post(row, note="", actor=actor, at=at)
    return row


def confirm_write_off(
    *, write_off_id: UUID, note: str = "", is_four_eyes: bool, actor: Actor, at: datetime
) -> WriteOff:
    """Post a proposed write-off: what it is of is not open any more.

    Raises:
        ReasonMissingError: The note is too long.
        WriteOffStateError: It is decided already.
        WriteOffFourEyesError: The actor proposed it, and the site requires four eyes.
        NotWritableOffError: The document has a credit note in the making.
        WriteOffTooLargeError: Less is open by now.
        WriteOff.DoesNotExist: There is none.
    """
    said = required_reason(note, field="note", length_max=REASON_LENGTH_MAX) if note else ""
    with transaction.atomic():
        row = lock_write_off(write_off_id)
        share_accounting_months()
        write_off_after(row.state, WriteOffMove.CONFIRM)
        require_second_person(
            proposer_id=row.requested_by_id,
            proposer=row.requested_by,
            actor_id=actor.id,
            is_four_eyes=is_four_eyes,
        )
        _require_no_draft(row.document)
        left = open_amounts([row.document_id])[row.document_id]
        require_open_amount(row.amount, left=left, currency=row.currency)
        _post(row, note=said, actor=actor, at=at)
    return row


def reject_write_off(*, write_off_id: UUID, note: str, actor: Actor, at: datetime) -> WriteOff:
    """Reject a proposed write-off with a reason: the document stays open.

    Raises:
        ReasonMissingError: There is no note, or one too long.
        WriteOffStateError: It is decided already.
        WriteOff.DoesNotExist: There is none.
    """
    why = required_reason(note, field="note", length_max=REASON_LENGTH_MAX)
    with transaction.atomic():
        row = lock_write_off(write_off_id)
        state = write_off_after(row.state, WriteOffMove.REJECT)
        _decide(row, state, note=why, actor=actor, at=at)
        _audit(row, action="reject", reason=why, actor=actor, at=at)
    return row


def reverse_write_off(*, write_off_id: UUID, reason: str, actor: Actor, at: datetime) -> WriteOff:
    """Reverse a posted write-off: its amount is open again.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        WriteOffStateError: It is not posted, or reversed already.
        WriteOff.DoesNotExist: There is none.
    """
    why = required_reason(reason, length_max=REASON_LENGTH_MAX)
    with transaction.atomic():
        row = lock_write_off(write_off_id)
        share_accounting_months()
        row.state = write_off_after(row.state, WriteOffMove.REVERSE).value
        row.reversed_by, row.reversed_at, row.reversal_reason = actor.label, at, why
        row.save(update_fields=["state", "reversed_by", "reversed_at", "reversal_reason"])
        post_events(_REVERSALS, {"ids": [row.pk]}, actor=actor, at=at)
        _audit(row, action="reverse", reason=why, actor=actor, at=at)
    return row


def _require_writable(document: Invoice) -> None:
    is_final = document.state == InvoiceState.FINAL.value and document.kind in OWED_KINDS
    if not is_final or document.write_offs.filter(state=WriteOffState.PROPOSED.value).exists():
        raise NotWritableOffError(
            "The document is not final, is a credit note, or has a proposed write-off.",
            field="document",
        )
    _require_no_draft(document)


def _require_no_draft(document: Invoice) -> None:
    """A credit note that became final later would give back what is written off."""
    if document.corrections.filter(state=InvoiceState.DRAFT.value).exists():
        raise NotWritableOffError(
            "The document has a credit or debit note in the making.", field="document"
        )


def _post(row: WriteOff, *, note: str, actor: Actor, at: datetime) -> None:
    _decide(row, WriteOffState.POSTED, note=note, actor=actor, at=at)
    post_events(_WRITE_OFFS, {"ids": [row.pk]}, actor=actor, at=at)
    _audit(row, action="post", reason=row.reason, actor=actor, at=at)


def _decide(row: WriteOff, state: WriteOffState, *, note: str, actor: Actor, at: datetime) -> None:
    row.state, row.decision_note = state.value, note
    row.decided_by, row.decided_by_id, row.decided_at = actor.label, actor.id, at
    row.save(update_fields=["state", "decision_note", "decided_by", "decided_by_id", "decided_at"])


def _audit(row: WriteOff, *, action: str, reason: str, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:write_off:{action}",
        object_kind="write_off",
        object_id=row.pk,
        organization_id=row.organization_id,
        facts={
            "document": row.document.reference,
            "state": row.state,
            "amount": str(row.amount),
            "currency": row.currency,
            "reason": reason,
        },
    )


_WRITE_OFFS: Final = """
SELECT 'write_off' AS event, 'write_off:' || w.id AS source_key, w.organization_id, w.currency,
       (w.decided_at AT TIME ZONE 'UTC')::date AS document_on,
       d.document ->> 'reference' AS reason, x.account, x.amount
  FROM billing_writeoff w JOIN billing_invoice d ON d.id = w.document_id
 CROSS JOIN LATERAL (VALUES ('bad_debt', w.amount), ('receivables', -w.amount))
   AS x(account, amount)
 WHERE w.id = ANY(%(ids)s)
"""
_REVERSALS: Final = """
SELECT 'write_off' AS event, 'write_off_reversal:' || w.id AS source_key, w.organization_id,
       w.currency, (w.reversed_at AT TIME ZONE 'UTC')::date AS document_on,
       'Reversed: ' || (d.document ->> 'reference') AS reason, x.account, x.amount
  FROM billing_writeoff w JOIN billing_invoice d ON d.id = w.document_id
 CROSS JOIN LATERAL (VALUES ('receivables', w.amount), ('bad_debt', -w.amount))
   AS x(account, amount)
 WHERE w.id = ANY(%(ids)s)
"""

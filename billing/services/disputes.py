"""Disputes of final documents: opened, discussed, and withdrawn, rejected or accepted.

An accepted dispute drafts the credit note in its own transaction; under four eyes another person
finalizes it. Whatever changes a dispute locks the organization first, as crediting does.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from django.db import transaction

from billing.domain.documents.document import InvoiceTerms
from billing.domain.documents.invoicing import OWED_KINDS, InvoiceState
from billing.domain.errors import required_reason
from billing.domain.ledger.disputes import DisputeMove, DisputeState, require_within, state_after
from billing.domain.ledger.errors import DisputeMessageInvalidError, NotDisputableError
from billing.models import Dispute, DisputedLine, DisputeMessage, Invoice
from billing.selectors.documents.corrections import asked_of_left, corrected, left_of_lines
from billing.selectors.locks import lock_dispute, lock_invoice, lock_organization, lock_period
from billing.services.crediting import REASON_LENGTH_MAX, draft_credit
from tenants.domain.actors import Actor
from tenants.services.audit import record

MESSAGE_LENGTH_MAX: Final = 2_000


def open_dispute(
    *,
    document_id: UUID,
    amounts: Mapping[UUID, Decimal],
    reason: str,
    actor: Actor,
    at: datetime,
) -> Dispute:
    """Return a new dispute of a final document.

    Args:
        document_id: The invoice or debit note.
        amounts: By line, what is disputed, above zero; empty for all that is left.
        reason: Why; the customer reads it.
        actor: The account that disputes.
        at: When.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        NotDisputableError: The document is not final, nothing is left of it, or it has an open
            dispute.
        CreditInvalidError: A line is not of this document, or an amount is no amount above zero.
        CreditTooLargeError: More is disputed than is left of a line.
        Invoice.DoesNotExist: There is none.
    """
    why = required_reason(reason, length_max=REASON_LENGTH_MAX)
    with transaction.atomic():
        document = _lock_disputable(document_id)
        asked = asked_of_left(document, amounts) if amounts else []
        left = document.total + corrected(document).net.amount
        total = sum((amount.amount for _, amount in asked), Decimal(0)) if asked else left
        if not 0 < total <= left:
            raise NotDisputableError(
                "No more can be disputed than is left of the document.",
                field="lines",
                facts={"left": str(left)},
            )
        dispute = Dispute.objects.create(
            organization_id=document.organization_id,
            document=document,
            is_whole=not asked,
            currency=document.currency,
            amount=total,
            reason=why,
            opened_by=actor.label,
            opened_by_id=actor.id,
            opened_at=at,
        )
        DisputedLine.objects.bulk_create(
            [DisputedLine(dispute=dispute, line=row, amount=part.amount) for row, part in asked]
        )
        _audit(dispute, action="open", reason=why, actor=actor, at=at)
    return dispute


def write_message(*, dispute_id: UUID, text: str, actor: Actor, at: datetime) -> DisputeMessage:
    """Return a new message of an open dispute.

    Raises:
        DisputeMessageInvalidError: It is empty or too long.
        DisputeDecidedError: The dispute is not open.
        Dispute.DoesNotExist: There is none.
    """
    said = text.strip()
    if not 1 <= len(said) <= MESSAGE_LENGTH_MAX:
        raise DisputeMessageInvalidError("The message is empty or too long.", field="text")
    with transaction.atomic():
        dispute = lock_dispute(dispute_id)
        state_after(dispute.state, DisputeMove.REPLY)
        message = DisputeMessage.objects.create(
            dispute=dispute,
            text=said,
            written_by=actor.label,
            written_by_id=actor.id,
            written_at=at,
        )
        _audit(dispute, action="reply", reason=said, actor=actor, at=at)
    return message


def withdraw_dispute(*, dispute_id: UUID, reason: str, actor: Actor, at: datetime) -> Dispute:
    """End an open dispute that the customer no longer holds.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        DisputeDecidedError: The dispute is not open.
        Dispute.DoesNotExist: There is none.
    """
    return _end(dispute_id, DisputeMove.WITHDRAW, reason=reason, actor=actor, at=at)


def reject_dispute(*, dispute_id: UUID, reason: str, actor: Actor, at: datetime) -> Dispute:
    """Reject an open dispute: the document stays owed as it is.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        DisputeDecidedError: The dispute is not open.
        Dispute.DoesNotExist: There is none.
    """
    return _end(dispute_id, DisputeMove.REJECT, reason=reason, actor=actor, at=at)


def accept_dispute(
    *,
    dispute_id: UUID,
    amounts: Mapping[UUID, Decimal],
    reason: str,
    actor: Actor,
    at: datetime,
    terms: InvoiceTerms,
) -> Dispute:
    """Accept an open dispute, whole or in part, and draft the credit note.

    Args:
        dispute_id: The dispute.
        amounts: By line, what is credited, at most what is disputed; empty for all of it.
        reason: Why; it is the reason of the credit note too.
        actor: The account that accepts; under four eyes another person finalizes the credit note.
        at: When.
        terms: Number series of the site.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        DisputeDecidedError: The dispute is not open.
        DisputeTooLargeError: More is accepted than is disputed.
        NotCreditableError: The document was replaced, or has a run in the making.
        CreditInvalidError: A line is not of this document, or an amount is no amount above zero.
        CreditTooLargeError: More is accepted than is left of a line, or of the document.
        Dispute.DoesNotExist: There is none.
    """
    why = required_reason(reason, length_max=REASON_LENGTH_MAX)
    with transaction.atomic():
        dispute = lock_dispute(dispute_id)
        state = state_after(dispute.state, DisputeMove.ACCEPT)
        disputed = dict(dispute.lines.values_list("line", "amount"))
        accepted = amounts or disputed or _all_left(dispute.document, most=dispute.amount)
        require_within(accepted, disputed=disputed, total=dispute.amount)
        dispute.credit_note = draft_credit(
            invoice_id=dispute.document_id,
            amounts=accepted,
            reason=why,
            actor=actor,
            at=at,
            terms=terms,
        )
        _decide(dispute, state, reason=why, actor=actor, at=at)
        _audit(dispute, action="accept", reason=why, actor=actor, at=at)
    return dispute


def _lock_disputable(document_id: UUID) -> Invoice:
    period = lock_period(Invoice.objects.values_list("period", flat=True).get(pk=document_id))
    lock_organization(period.organization_id)
    document = lock_invoice(document_id)
    document.period = period
    is_final = document.state == InvoiceState.FINAL.value and document.kind in OWED_KINDS
    if not is_final or document.disputes.filter(state=DisputeState.OPEN.value).exists():
        raise NotDisputableError(
            "The document is not final, is a credit note, or has an open dispute.",
            field="document",
            facts={"reference": document.reference, "state": document.state},
        )
    return document


def _all_left(document: Invoice, *, most: Decimal) -> dict[UUID, Decimal]:
    """Return what is left of a document as amounts of its lines above zero, in printed order.

    A line below zero lowers what is left of the document, so the last of the others may be
    credited in part only.

    Args:
        document: What is disputed as a whole.
        most: How much of it is disputed.
    """
    left = left_of_lines(document, {line.pk: line for line in document.lines.order_by("position")})
    rest = min(most, document.total + corrected(document).net.amount)
    amounts = {}
    for key, of_line in left.items():
        amount = min(of_line, rest)
        if amount > 0:
            amounts[key] = amount
            rest -= amount
    return amounts


def _end(
    dispute_id: UUID, move: DisputeMove, *, reason: str, actor: Actor, at: datetime
) -> Dispute:
    why = required_reason(reason, length_max=REASON_LENGTH_MAX)
    with transaction.atomic():
        dispute = lock_dispute(dispute_id)
        _decide(dispute, state_after(dispute.state, move), reason=why, actor=actor, at=at)
        _audit(dispute, action=move.value, reason=why, actor=actor, at=at)
    return dispute


def _decide(
    dispute: Dispute, state: DisputeState, *, reason: str, actor: Actor, at: datetime
) -> None:
    dispute.state, dispute.decision_reason = state.value, reason
    dispute.decided_by, dispute.decided_by_id, dispute.decided_at = actor.label, actor.id, at
    dispute.save(
        update_fields=[
            "state",
            "decision_reason",
            "decided_by",
            "decided_by_id",
            "decided_at",
            "credit_note",
        ]
    )


def _audit(dispute: Dispute, *, action: str, reason: str, actor: Actor, at: datetime) -> None:
    note = dispute.credit_note
    record(
        actor=actor,
        at=at,
        action=f"billing:dispute:{action}",
        object_kind="dispute",
        object_id=dispute.pk,
        organization_id=dispute.organization_id,
        facts={
            "document": dispute.document.reference,
            "state": dispute.state,
            "amount": str(dispute.amount),
            "currency": dispute.currency,
            "reason": reason,
            **({"credited": str(note.total)} if note else {}),
        },
    )

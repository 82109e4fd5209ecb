"""Closing months: reviewed, approved and closed; back to open with a reason; nil without use.

Only an open month takes charges, so sending one to review is the cut-off: what was reviewed is what
closes. Whatever comes later is charged to the next open month.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction

from billing.domain.closing import PeriodMove, require_period_move, require_usual
from billing.domain.documents.document import InvoiceTerms, amount_text
from billing.domain.errors import FourEyesError, PeriodHasChargesError, ReasonMissingError
from billing.domain.money import Money
from billing.models import BillingPeriod, Charge, Invoice, PeriodState
from billing.selectors.documents.invoices import documents_of_run, usual_totals
from billing.selectors.documents.minimums import has_minimum
from billing.selectors.documents.previews import MonthReading
from billing.selectors.locks import lock_organization, lock_period
from billing.services.invoicing import draft_invoice, require_ready
from billing.services.routing import drop_routes, freeze_routes
from tenants.domain.actors import Actor, ActorKind
from tenants.services.audit import record

REASON_LENGTH_MAX = 500


def review_period(
    *,
    period_id: UUID,
    actor: Actor,
    at: datetime,
    terms: InvoiceTerms,
    acknowledgement: str = "",
    reading: MonthReading | None = None,
) -> BillingPeriod:
    """Return the month, drafted anew and sent to review: it takes no more charges.

    The routes of its projects are frozen with it.

    Args:
        period_id: An open month that is over, sealed, accrued and free of exceptions.
        actor: The account that sends it; under four eyes another person approves it.
        at: When.
        terms: Issuer and number series of the site.
        acknowledgement: Why the cost is right; required where it is many times the usual.
        reading: The month as it was read a moment ago, together with others.

    Raises:
        PeriodStateError: It is not open.
        PeriodNotReadyError: Something is missing; every reason is under `problems`.
        NothingToInvoiceError: It has no charges.
        UnusualCostError: It costs many times the usual, and there is no acknowledgement.
        ReasonMissingError: The acknowledgement is too long.
    """
    acknowledgement = acknowledgement.strip()
    if len(acknowledgement) > REASON_LENGTH_MAX:
        raise ReasonMissingError("The acknowledgement is too long.", field="acknowledgement")
    with transaction.atomic():
        period = _locked(period_id, PeriodMove.REVIEW)
        invoice = draft_invoice(
            period_id=period_id, actor=actor, at=at, terms=terms, reading=reading
        )
        freeze_routes(period, run=1)
        run = documents_of_run(invoice)
        usual = usual_totals([invoice.organization_id], label=period.label)
        require_usual_cost(
            run,
            usual=usual.get((invoice.organization_id, invoice.currency)),
            acknowledgement=acknowledgement,
        )
        period.state, period.acknowledgement = PeriodState.REVIEW.value, acknowledgement
        period.reviewed_by, period.reviewed_by_id = actor.label, actor.id
        period.reviewed_by_kind, period.reviewed_at = actor.kind.value, at
        period.save(update_fields=["state", *_REVIEW])
        _record(
            period,
            "review",
            {
                "total": amount_text(net_of(run)),
                "currency": invoice.currency,
                **({"acknowledgement": acknowledgement} if acknowledgement else {}),
            },
            actor=actor,
            at=at,
        )
    return period


def approve_period(
    *, period_id: UUID, actor: Actor, at: datetime, terms: InvoiceTerms
) -> BillingPeriod:
    """Return the month, approved: its invoice can be finalized.

    Args:
        period_id: A month in review.
        actor: The account that approves it.
        at: When.
        terms: Whether the four-eyes rule applies.

    Raises:
        PeriodStateError: It is not in review.
        FourEyesError: The four-eyes rule applies, and not two people review and approve it.
    """
    with transaction.atomic():
        period = _locked(period_id, PeriodMove.APPROVE)
        require_another_person(period, actor=actor, terms=terms)
        mark_approved(period, actor=actor, at=at)
        _record(period, "approve", {"reviewed_by": period.reviewed_by}, actor=actor, at=at)
    return period


def reopen_period(*, period_id: UUID, reason: str, actor: Actor, at: datetime) -> BillingPeriod:
    """Return the month, open again: it takes charges, and its review and approval are dropped.

    Args:
        period_id: A month in review, or approved.
        reason: Why; people read it in the audit trail.
        actor: The account that opens it again.
        at: When.

    Raises:
        PeriodStateError: It is open already, or closed for good.
        ReasonMissingError: There is no reason, or one too long.
    """
    if not 1 <= len(reason.strip()) <= REASON_LENGTH_MAX:
        raise ReasonMissingError("The reason is missing or too long.", field="reason")
    with transaction.atomic():
        period = _locked(period_id, PeriodMove.REOPEN)
        dropped = {
            "reason": reason.strip(),
            "was": period.state,
            "reviewed_by": period.reviewed_by,
            "approved_by": period.approved_by,
        }
        drop_routes(period, run=1)
        period.state = PeriodState.OPEN.value
        period.reviewed_by = period.reviewed_by_id = period.reviewed_by_kind = ""
        period.approved_by = period.acknowledgement = ""
        period.reviewed_at = period.approved_at = None
        period.save(update_fields=["state", *_REVIEW, *_APPROVAL])
        _record(period, "reopen", dropped, actor=actor, at=at)
    return period


def close_nil_period(*, period_id: UUID, actor: Actor, at: datetime) -> BillingPeriod:
    """Return the month, closed without a document: it had no use, and takes none later.

    Args:
        period_id: An open month that is over, sealed and accrued.
        actor: The account that closes it.
        at: When.

    Raises:
        PeriodStateError: It is not open.
        PeriodNotReadyError: Something is missing; every reason is under `problems`.
        PeriodHasChargesError: It has charges, or a minimum charge.
    """
    with transaction.atomic():
        period = _locked(period_id, PeriodMove.CLOSE_NIL)
        require_ready(period, at=at)
        has_draft = Invoice.objects.filter(period=period).exists()
        has_charges = Charge.objects.filter(period=period).exists()
        if has_draft or has_charges or has_minimum(period):
            raise PeriodHasChargesError(
                "The month has charges, or a minimum charge.", field="period"
            )
        period.state, period.closed_at = PeriodState.CLOSED.value, at
        period.save(update_fields=["state", "closed_at"])
        _record(period, "close_nil", {}, actor=actor, at=at)
    return period


def require_another_person(period: BillingPeriod, *, actor: Actor, terms: InvoiceTerms) -> None:
    """Refuse unless the month was sent to review by a person, and another one acts now."""
    if not terms.is_four_eyes:
        return
    person = ActorKind.PERSON.value
    if period.reviewed_by_kind == person == actor.kind.value and period.reviewed_by_id != actor.id:
        return
    raise FourEyesError(
        "A month is sent to review by one person and approved by another.",
        facts={"reviewed_by": period.reviewed_by, "approved_by": actor.label},
    )


def require_usual_cost(
    run: Sequence[Invoice], *, usual: Decimal | None, acknowledgement: str
) -> None:
    """Refuse a month that costs many times the usual, unless a person says why.

    Args:
        run: Its documents.
        usual: What the organization pays for a month; None without one to compare.
        acknowledgement: The person's reason.
    """
    require_usual(
        net_of(run).amount,
        usual=usual,
        acknowledgement=acknowledgement,
        currency=run[0].currency,
    )


def net_of(run: Sequence[Invoice]) -> Money:
    """Return the net sum of the documents of a billing run."""
    return Money(sum((document.total for document in run), start=Decimal()), run[0].currency)


def mark_approved(period: BillingPeriod, *, actor: Actor, at: datetime) -> None:
    """Note the approval of a month, in the caller's transaction."""
    period.state = PeriodState.APPROVED.value
    period.approved_by, period.approved_at = actor.label, at
    period.save(update_fields=["state", *_APPROVAL])


def _locked(period_id: UUID, move: PeriodMove) -> BillingPeriod:
    period = lock_period(period_id)
    lock_organization(period.organization_id)
    require_period_move(period.state, move, label=period.label)
    return period


def _record(
    period: BillingPeriod, verb: str, facts: Mapping[str, Any], *, actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:period:{verb}",
        object_kind="billing_period",
        object_id=period.pk,
        organization_id=period.organization_id,
        facts={"period": period.label, **facts},
    )


_REVIEW = ("reviewed_by", "reviewed_by_id", "reviewed_by_kind", "reviewed_at", "acknowledgement")
_APPROVAL = ("approved_by", "approved_at")

"""Correcting final invoices: less or more for a line, or all of it with a replacement.

A final invoice is never changed. A further billing run of its period holds the credit or debit note
that names it, and when the invoice is void, the invoice that replaces it. Both are drafts first,
which are the preview; finalizing one finalizes the run, under four eyes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Max

from billing.domain.documents.carrying import carry_correction, gross_of
from billing.domain.documents.document import InvoiceTerms, correction_document
from billing.domain.documents.invoicing import (
    OWED_KINDS,
    InvoiceKind,
    InvoiceState,
    Line,
    LineKind,
    TierShare,
    compose_lines,
    total_of,
)
from billing.domain.errors import (
    CreditTooLargeError,
    NotCreditableError,
    required_reason,
)
from billing.domain.ledger.write_offs import WriteOffState
from billing.domain.money import Money
from billing.models import Invoice, InvoiceLine
from billing.selectors.documents.corrections import (
    asked_amounts,
    asked_of_left,
    corrected,
    credits_of,
)
from billing.selectors.documents.invoices import charge_sums
from billing.selectors.documents.payers import payer_facts_of
from billing.selectors.documents.routing import route_of
from billing.selectors.locks import lock_invoice, lock_organization, lock_period
from billing.services.carrying import with_note
from billing.services.composing import (
    ComposedDocument,
    compose_run,
    issuing_terms,
)
from billing.services.invoicing import add_terms, fill_draft
from billing.services.routing import freeze_routes
from tenants.domain.actors import Actor

REASON_LENGTH_MAX: Final = 500


def draft_credit(
    *,
    invoice_id: UUID,
    amounts: Mapping[UUID, Decimal],
    reason: str,
    actor: Actor,
    at: datetime,
    terms: InvoiceTerms,
) -> Invoice:
    """Return the draft of a credit note that gives back part of some lines of a final document.

    Args:
        invoice_id: The invoice or debit note.
        amounts: By line, what is given back, above zero.
        reason: Why; it is printed on the note and stands in the audit trail.
        actor: The account that drafts; under four eyes another person finalizes.
        at: When.
        terms: Number series of the site.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        NotCreditableError: The invoice is not final, was replaced, or has a run in the making.
        CreditInvalidError: A line is not of this invoice, or an amount is no amount above zero.
        CreditTooLargeError: More would be given back than is left of a line, or of the invoice.
        Invoice.DoesNotExist: There is none.
    """
    required_reason(reason, length_max=REASON_LENGTH_MAX)
    with transaction.atomic():
        invoice = _correctable(invoice_id, kinds=OWED_KINDS)
        lines = [
            _money_line(invoice, row, -amount, position=position)
            for position, (row, amount) in enumerate(asked_of_left(invoice, amounts), 1)
        ]
        _require_left(invoice, lines)
        return _draft_note(invoice, lines, reason=reason, actor=actor, at=at, terms=terms)


def draft_debit(
    *,
    invoice_id: UUID,
    amounts: Mapping[UUID, Decimal],
    reason: str,
    actor: Actor,
    at: datetime,
    terms: InvoiceTerms,
) -> Invoice:
    """Return the draft of a debit note that asks for more on some lines of a final invoice.

    Args:
        invoice_id: The invoice.
        amounts: By line of use, what is asked for, above zero.
        reason: Why; it is printed on the note and stands in the audit trail.
        actor: The account that drafts; under four eyes another person finalizes.
        at: When.
        terms: Number series of the site.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        NotCreditableError: The invoice is not final, was replaced, or has a run in the making.
        CreditInvalidError: A line is no line of use of this invoice, or an amount is no amount
            above zero.
        AmountTooLargeError: A line or the total has more digits than the ledger keeps.
        Invoice.DoesNotExist: There is none.
    """
    required_reason(reason, length_max=REASON_LENGTH_MAX)
    with transaction.atomic():
        invoice = _correctable(invoice_id)
        rows = {line.pk: line for line in invoice.lines.filter(kind=LineKind.USAGE.value)}
        lines = [
            _money_line(invoice, row, amount, position=position)
            for position, (row, amount) in enumerate(
                asked_amounts(amounts, rows, currency=invoice.currency), 1
            )
        ]
        return _draft_note(invoice, lines, reason=reason, actor=actor, at=at, terms=terms)


def void_invoice(
    *,
    invoice_id: UUID,
    reason: str,
    actor: Actor,
    at: datetime,
    terms: InvoiceTerms,
) -> tuple[Invoice, Invoice]:
    """Return the drafts of a credit note in full and of the invoice that replaces a final one.

    The replacement is made from the same charges, for the customer as it is now. Where the routes
    of its projects differ now, there are several, of which the first is returned; other documents
    of the month stay as they are.

    Args:
        invoice_id: The invoice.
        reason: Why; it is printed on the note and stands in the audit trail.
        actor: The account that drafts; under four eyes another person finalizes.
        at: When.
        terms: Issuer and number series of the site.

    Raises:
        ReasonMissingError: There is no reason, or one too long.
        NotCreditableError: The invoice is not final, was replaced, was corrected in part, or has a
            run in the making.
        Invoice.DoesNotExist: There is none.
    """
    required_reason(reason, length_max=REASON_LENGTH_MAX)
    with transaction.atomic():
        invoice = _correctable(invoice_id)
        if invoice.corrections.exists():
            raise NotCreditableError("The invoice was credited or debited in part already.")
        period, organization = invoice.period, invoice.organization
        rows = list(invoice.lines.order_by("position"))
        lines = [_negated(_printed(invoice, row)) for row in rows]
        note = _draft_note(invoice, lines, reason=reason, actor=actor, at=at, terms=terms)
        only = {str(row.project_id) for row in rows}
        sums = charge_sums(period, replaced_id=invoice.pk)
        usage = compose_lines(
            (part for part in sums if part.project_id in only), currency=invoice.currency
        )
        anew = add_terms(
            usage, period, currency=invoice.currency, replaced_id=invoice.pk, only=only
        )
        freeze_routes(period, run=note.run)
        currencies = {organization.pk: organization.billing_currency}
        payer = payer_facts_of(currencies, label=period.label)[organization.pk]
        payer = replace(payer, balances=with_note(payer.balances, note))
        replacements = [
            fill_draft(
                Invoice(
                    organization=organization,
                    period=period,
                    run=note.run,
                    run_reason=note.run_reason,
                    version=0,
                    **asdict(part.route),
                ),
                part,
                actor=actor,
                at=at,
            )
            for part in compose_run(period, organization, anew, payer=payer, terms=terms, at=at)
        ]
    return note, replacements[0]


def _correctable(
    invoice_id: UUID, *, kinds: Collection[str] = (InvoiceKind.INVOICE.value,)
) -> Invoice:
    """Return the invoice, locked with its period and organization."""
    period = lock_period(Invoice.objects.values_list("period", flat=True).get(pk=invoice_id))
    organization = lock_organization(period.organization_id)
    invoice = lock_invoice(invoice_id)
    invoice.period, invoice.organization = period, organization
    of_month = Invoice.objects.filter(period=period)
    notes = of_month.filter(corrects=invoice).order_by().values("run")
    is_last = not of_month.filter(run__in=notes, corrects=None).exists()
    is_settled = not of_month.filter(state=InvoiceState.DRAFT.value).exists()
    is_written_off = invoice.write_offs.filter(state=WriteOffState.POSTED.value).exists()
    if is_written_off or not (invoice.kind in kinds and is_last and is_settled):
        raise NotCreditableError(
            "The invoice is not final, was replaced or written off, or has a run in the making.",
            facts={"reference": invoice.reference, "state": invoice.state},
        )
    return invoice


def _money_line(invoice: Invoice, row: InvoiceLine, amount: Money, *, position: int) -> Line:
    """Return a line of money without quantity about a line that was printed."""
    return replace(_printed(invoice, row), position=position, unit_seconds=0, amount=amount)


def _require_left(invoice: Invoice, lines: Sequence[Line]) -> None:
    """Refuse to give back more than tier lines and earlier credit notes left of the total."""
    left = invoice.total + corrected(invoice).net.amount
    if total_of(lines, currency=invoice.currency).amount + left < 0:
        raise CreditTooLargeError(
            "More would be given back than is left of the invoice.",
            field="lines",
            facts={"left": str(left)},
        )


def _printed(invoice: Invoice, row: InvoiceLine) -> Line:
    """Return a line of a final invoice as it was printed."""
    printed = invoice.document["lines"][row.position - 1]
    amount = Money(row.amount, invoice.currency)
    tier = _printed_tier(row, printed, amount)
    return Line(
        position=row.position,
        project_id=str(row.project_id),
        project=printed["project"],
        project_name=printed["project_name"],
        cost_center=printed["cost_center"],
        size=row.size,
        price_group=row.price_group,
        description=row.description,
        unit_seconds=row.unit_seconds,
        unit_price=row.unit_price.normalize(),
        amount=amount,
        service_month=printed["service_month"] if row.service_period_id or tier else "",
        service_period_id=str(row.service_period_id or ""),
        kind=row.kind,
        tier=tier,
        minimum=printed.get("minimum"),
        credit=printed.get("credit"),
    )


def _printed_tier(row: InvoiceLine, printed: Mapping[str, Any], amount: Money) -> TierShare | None:
    if row.kind != LineKind.TIER.value:
        return None
    return TierShare(
        schedule_id=str(row.tier_schedule_id),
        span=row.tier_span,
        band=row.tier_band,
        amount=amount,
        shown=printed["tier"],
    )


def _negated(line: Line) -> Line:
    return replace(line, unit_seconds=-line.unit_seconds, amount=-line.amount)


def _draft_note(
    invoice: Invoice,
    lines: Sequence[Line],
    *,
    reason: str,
    actor: Actor,
    at: datetime,
    terms: InvoiceTerms,
) -> Invoice:
    last = Invoice.objects.filter(period=invoice.period).aggregate(last=Max("run"))["last"]
    note = Invoice(
        organization=invoice.organization,
        period=invoice.period,
        run=last + 1,
        run_reason=reason.strip(),
        corrects=invoice,
        currency=invoice.currency,
        version=0,
        **asdict(route_of(invoice)),
    )
    is_debit = total_of(lines, currency=invoice.currency).amount > 0
    document = correction_document(
        invoice.document,
        kind=InvoiceKind.DEBIT_NOTE if is_debit else InvoiceKind.CREDIT_NOTE,
        lines=lines,
        reason=reason,
        drafted_at=at,
        before=None if is_debit else corrected(invoice),
    )
    if not is_debit:
        notes = [note.document for note in credits_of(invoice)]
        document |= carry_correction(invoice.document, notes, gross_of(document)).text()
    issued = issuing_terms(invoice.issuer_id, terms=terms)
    composed = ComposedDocument(route_of(invoice), document, tuple(lines), issued)
    return fill_draft(note, composed, actor=actor, at=at)

"""Drafting invoices: composed from the charges of a period; made again or discarded at any time.

A draft has no number and links no charge, so that looking at one costs and blocks nothing.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction

from billing.domain.closing import PeriodMove, require_period_move
from billing.domain.documents.composing import with_terms
from billing.domain.documents.document import (
    Document,
    InvoiceTerms,
)
from billing.domain.documents.invoicing import (
    InvoiceKind,
    InvoiceMove,
    InvoiceState,
    Line,
    TierShare,
    require_amount,
    require_amounts,
    require_move,
)
from billing.domain.documents.routing import Route
from billing.domain.errors import NothingToInvoiceError, PeriodNotReadyError
from billing.domain.money import Money
from billing.models import BillingPeriod, Invoice, InvoiceLine
from billing.selectors.closing import readiness_of, reasons_against
from billing.selectors.documents.previews import MonthReading, read_month
from billing.selectors.documents.routing import route_of
from billing.selectors.documents.terms import term_facts_of
from billing.selectors.locks import lock_invoice, lock_organization, lock_period, lock_run
from billing.services.composing import ComposedDocument, compose_run
from billing.services.routing import drop_routes
from metering.selectors.collection.plans import prefer_hash_joins
from tenants.domain.actors import Actor
from tenants.domain.errors import FieldProblem
from tenants.services.audit import record
from tenants.services.changing import require_version


def draft_invoice(
    *,
    period_id: UUID,
    actor: Actor,
    at: datetime,
    terms: InvoiceTerms,
    is_kept_if_same: bool = False,
    reading: MonthReading | None = None,
) -> Invoice:
    """Draft the documents of a period from its charges as they are now, and return the first.

    There is one for each issuer, recipient and purchase order that projects are routed to. An
    earlier draft of the period is replaced and keeps its identity.

    Args:
        period_id: The period; it must be over, sealed, accrued and free of exceptions.
        actor: The account that drafts; a person, for another one to finalize under four eyes.
        at: When.
        terms: Issuer and number series of the site.
        is_kept_if_same: Whether earlier drafts that show the same stay, with their drafter.
        reading: The period as it was read a moment ago, together with others; one that is older
            than a draft of the period is not used. What is charged after it comes into the next
            draft, and a draft that lacks it is not finalized.

    Raises:
        InvoiceFinalError: The period is invoiced already.
        PeriodStateError: The period is in review, approved or closed.
        PeriodNotReadyError: Something is missing; every reason is under `problems`.
        NothingToInvoiceError: The period has no charges.
        AmountTooLargeError: A line or the total has more digits than the ledger keeps.
        TaxRateMissingError: A tax treatment has no rate at the tax point.
    """
    with transaction.atomic():
        period = lock_period(period_id)
        organization = lock_organization(period.organization_id)
        earlier = {route_of(row): row for row in lock_run(period, run=1)}
        for row in earlier.values():
            require_move(row.state, InvoiceMove.REDRAFT, reference=row.reference)
        require_period_move(period.state, PeriodMove.DRAFT, label=period.label)
        if reading is None or any(row.drafted_at > reading.at for row in earlier.values()):
            prefer_hash_joins()
            period.organization = organization
            reading = read_month(period, at=at)
        refuse_problems(reading.problems)
        if not reading.lines:
            raise NothingToInvoiceError("The period has nothing to invoice.", field="period")
        composed = compose_run(
            period, organization, reading.lines, payer=reading.payer, terms=terms, at=at
        )
        first = composed[0].route
        if is_kept_if_same and _is_same_run(earlier, composed):
            return earlier[first]
        _discard_others(earlier, composed, actor=actor, at=at)
        drafted = [
            fill_draft(
                earlier.get(part.route)
                or Invoice(
                    organization=organization, period=period, version=0, **asdict(part.route)
                ),
                part,
                actor=actor,
                at=at,
            )
            for part in composed
        ]
    return drafted[0]


def discard_draft(
    *, invoice_id: UUID, actor: Actor, at: datetime, expected_version: int | None = None
) -> None:
    """Delete a draft, with the others of its run; its charges stay unbilled.

    Args:
        invoice_id: The draft.
        actor: The account that discards.
        at: When.
        expected_version: The version the caller saw; None when it does not matter.

    Raises:
        StaleVersionError: It was drafted again since.
        InvoiceFinalError: The invoice is final.
        PeriodStateError: Its period is in review or approved.
        Invoice.DoesNotExist: There is none.
    """
    with transaction.atomic():
        period = lock_period(Invoice.objects.values_list("period", flat=True).get(pk=invoice_id))
        lock_organization(period.organization_id)
        invoice = lock_invoice(invoice_id)
        require_move(invoice.state, InvoiceMove.DISCARD, reference=invoice.reference)
        if invoice.run == 1:
            require_period_move(period.state, PeriodMove.DRAFT, label=period.label)
        require_version(row=invoice, expected_version=expected_version, actor=actor)
        _record_discard(invoice, actor=actor, at=at)
        Invoice.objects.filter(period=period, run=invoice.run).delete()
        drop_routes(period, run=invoice.run)


def require_ready(period: BillingPeriod, *, at: datetime) -> None:
    """Refuse a period that cannot be invoiced yet, with every reason.

    Raises:
        PeriodNotReadyError: At least one reason applies.
    """
    refuse_problems(reasons_against(period, readiness_of(period, at=at), at=at))


def refuse_problems(problems: tuple[FieldProblem, ...]) -> None:
    """Refuse a period that something holds up.

    Raises:
        PeriodNotReadyError: At least one reason applies.
    """
    if problems:
        raise PeriodNotReadyError(
            "The period cannot be invoiced yet.", field="period", problems=problems
        )


def add_terms(
    lines: Sequence[Line],
    period: BillingPeriod,
    *,
    currency: str,
    replaced_id: UUID | None = None,
    only: AbstractSet[str] | None = None,
) -> tuple[Line, ...]:
    """Return a month's lines of use with those of tiers, minimum charges and credits.

    Args:
        lines: Of use.
        period: The month.
        currency: Of the document.
        replaced_id: A final invoice that counts for nothing: it is credited in full.
        only: Projects that the run is about; None for all.
    """
    payer = period.organization_id
    facts = term_facts_of({payer: currency}, replaced_id=replaced_id)[payer]
    return with_terms(lines, facts, month=period.label, currency=currency, only=only)


def _is_same(one: Document, other: Document) -> bool:
    """Whether two drafts show the same, whenever they were made."""
    return {**one, "drafted_at": None} == {**other, "drafted_at": None}


def _is_same_run(earlier: Mapping[Route, Invoice], composed: Sequence[ComposedDocument]) -> bool:
    return earlier.keys() == {part.route for part in composed} and all(
        _is_same(earlier[part.route].document, part.document) for part in composed
    )


def _discard_others(
    earlier: Mapping[Route, Invoice],
    composed: Sequence[ComposedDocument],
    *,
    actor: Actor,
    at: datetime,
) -> None:
    """Discard drafts that nothing is routed to any more."""
    kept = {part.route for part in composed}
    for route, row in earlier.items():
        if route not in kept:
            _record_discard(row, actor=actor, at=at)
            row.delete()


def _record_discard(invoice: Invoice, *, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action="billing:invoice:discard",
        object_kind="invoice",
        object_id=invoice.pk,
        organization_id=invoice.organization_id,
        facts={"period": invoice.period.label, "version": invoice.version},
    )


def fill_draft(
    invoice: Invoice, composed: ComposedDocument, *, actor: Actor, at: datetime
) -> Invoice:
    """Return a draft, written with its lines and the audit entry of it."""
    document, lines = composed.document, composed.lines
    currency = document["currency"]
    invoice.state = InvoiceState.DRAFT.value
    invoice.kind = document.get("kind", InvoiceKind.INVOICE.value)
    invoice.series = composed.terms.series_of(invoice.kind)
    invoice.currency = currency
    invoice.total = require_amounts(lines, currency=currency).amount
    invoice.tax_total = Decimal(document.get("tax_total", 0))
    carried = document.get("carried", {})
    invoice.brought_forward = Decimal(carried.get("brought_forward", 0))
    invoice.carried_forward = Decimal(carried.get("carried_forward", 0))
    for what, amount in (("payable", invoice.payable), ("due", invoice.amount_due)):
        require_amount(Money(amount, currency), what=f"The amount {what}", field="total")
    invoice.unit_seconds = sum(line.unit_seconds for line in lines)
    invoice.document = document
    invoice.drafted_by, invoice.drafted_by_id, invoice.drafted_at = actor.label, actor.id, at
    invoice.drafted_by_kind = actor.kind.value
    if invoice.version:
        InvoiceLine.objects.filter(invoice=invoice).delete()
    invoice.version += 1
    invoice.save()
    InvoiceLine.objects.bulk_create([_row(invoice, line) for line in lines])
    record(
        actor=actor,
        at=at,
        action="billing:invoice:draft",
        object_kind="invoice",
        object_id=invoice.pk,
        organization_id=invoice.organization_id,
        facts={
            "period": invoice.period.label,
            "total": invoice.document["total"]["amount"],
            "currency": invoice.currency,
            "lines": len(lines),
            "version": invoice.version,
            **({"run": invoice.run, "reason": invoice.run_reason} if invoice.run > 1 else {}),
        },
    )
    return invoice


def _row(invoice: Invoice, line: Line) -> InvoiceLine:
    return InvoiceLine(
        invoice=invoice,
        position=line.position,
        project_id=UUID(line.project_id),
        size=line.size,
        price_group=line.price_group,
        service_period_id=UUID(line.service_period_id) if line.service_period_id else None,
        description=line.description,
        unit_seconds=line.unit_seconds,
        billed_unit_seconds=line.billed_unit_seconds,
        unit_price=line.unit_price,
        amount=line.amount.amount,
        kind=line.kind,
        **_tier(line.tier),
    )


def _tier(share: TierShare | None) -> dict[str, Any]:
    if share is None:
        return {}
    return {
        "tier_schedule_id": UUID(share.schedule_id),
        "tier_band": share.band,
        "tier_span": share.span,
    }

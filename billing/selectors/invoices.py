"""Invoices as frozen facts, for dashboards and sweeps."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet

from billing.domain.money import Money
from billing.models import BillingPeriod, Charge, Invoice, PeriodState


@dataclass(frozen=True)
class InvoiceFact:
    """One invoice; `reference` is "draft" before it has a number."""

    id: UUID
    organization_id: UUID
    organization: str
    period: str
    state: str
    reference: str
    total: Money
    unit_seconds: int
    drafted_at: datetime
    finalized_at: datetime | None


def invoices_of_month(label: str) -> tuple[InvoiceFact, ...]:
    """Return the invoices of a month such as "2026-10", by organization."""
    return tuple(
        _fact(invoice)
        for invoice in _invoices().filter(period__label=label).order_by("organization__slug")
    )


def latest_invoices(limit: int) -> tuple[InvoiceFact, ...]:
    """Return the newest invoices, newest first."""
    return tuple(_fact(invoice) for invoice in _invoices().order_by("-drafted_at", "-pk")[:limit])


def undrafted_period_ids(*, ended_before: datetime, limit: int) -> list[UUID]:
    """Return open periods that are over, have charges and no invoice yet, oldest first.

    Args:
        ended_before: A period counts as over when it ended by then.
        limit: At most so many.
    """
    periods = (
        BillingPeriod.objects.filter(
            Exists(Charge.objects.filter(period=OuterRef("pk"), line__isnull=True)),
            state=PeriodState.OPEN,
            hours__endswith__lte=ended_before,
        )
        .exclude(Exists(Invoice.objects.filter(period=OuterRef("pk"))))
        .order_by("hours", "pk")
    )
    return list(periods.values_list("pk", flat=True)[:limit])


def _invoices() -> QuerySet[Invoice]:
    return Invoice.objects.select_related("organization", "period").defer("document")


def _fact(invoice: Invoice) -> InvoiceFact:
    return InvoiceFact(
        id=invoice.pk,
        organization_id=invoice.organization_id,
        organization=invoice.organization.slug,
        period=invoice.period.label,
        state=invoice.state,
        reference=invoice.reference,
        total=Money(invoice.total, invoice.currency),
        unit_seconds=invoice.unit_seconds,
        drafted_at=invoice.drafted_at,
        finalized_at=invoice.finalized_at,
    )

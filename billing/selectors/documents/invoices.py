"""Invoices as frozen facts, and the sums of charges that lines are made from."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from billing.domain.closing import USUAL_MONTHS
from billing.domain.documents.invoicing import ChargeSum
from billing.domain.money import Money
from billing.models import BillingPeriod, Invoice
from billing.selectors.documents.membership import BILLED, KEYED


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


def others_of_run(invoice: Invoice) -> QuerySet[Invoice]:
    """Return the other documents of an invoice's billing run, with their periods."""
    run = Invoice.objects.filter(period=invoice.period_id, run=invoice.run)
    return run.exclude(pk=invoice.pk).select_related("period")


def usual_totals(
    organization_ids: Iterable[UUID], *, label: str
) -> dict[tuple[UUID, str], Decimal]:
    """Return what organizations pay for a month, by organization and currency; one statement.

    It is the mean of the last USUAL_MONTHS months before `label` that are closed with documents,
    credit notes taken off; an organization without any has none.
    """
    given: dict[str, Any] = {"ids": list(organization_ids), "label": label, "months": USUAL_MONTHS}
    with connection.cursor() as cursor:
        cursor.execute(_USUAL, given)
        return {(key, currency): total for key, currency, total in cursor.fetchall()}


_USUAL = """
SELECT o.id, usual.currency, avg(usual.total)
  FROM unnest(%(ids)s::uuid[]) AS o(id)
 CROSS JOIN LATERAL (
   SELECT i.currency, sum(i.total) AS total
     FROM billing_billingperiod p JOIN billing_invoice i ON i.period_id = p.id
    WHERE p.organization_id = o.id AND p.state = 'closed' AND p.label < %(label)s
      AND i.organization_id = o.id AND i.state = 'final'
    GROUP BY p.label, i.currency ORDER BY p.label DESC LIMIT %(months)s) usual
 GROUP BY 1, 2
"""


def charge_sums(period: BillingPeriod, *, replaced_id: UUID | None = None) -> tuple[ChargeSum, ...]:
    """Return the unit-seconds charged to a period, by project, month, size, group and price.

    Charges of hours before the period are grouped by their month. Each sum has the unit-seconds
    that final documents billed for the same key. One statement.

    Args:
        period: The period.
        replaced_id: A final invoice that counts for nothing: it is credited in full.
    """
    given = {
        "period": period.pk,
        "organization": period.organization_id,
        "replaced": replaced_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(_SUMS, given)
        rows = cursor.fetchall()
    return tuple(
        ChargeSum(
            project_id=str(project_id),
            project=slug,
            project_name=name,
            cost_center=cost_center,
            size=size,
            price_group=price_group,
            unit_price=unit_price,
            unit_seconds=int(total),
            service_month=month,
            service_period_id=str(month_id) if month_id else "",
            billed_unit_seconds=int(billed),
        )
        for (
            project_id,
            slug,
            name,
            cost_center,
            size,
            price_group,
            unit_price,
            month_id,
            month,
            total,
            billed,
        ) in rows
    )


_SUMS = f"""
WITH {KEYED},
{BILLED}
SELECT t.project_id, p.slug, p.name, p.cost_center, t.size, t.price_group, t.unit_price,
       t.month_id, t.month, t.unit_seconds, coalesce(b.unit_seconds, 0)
  FROM keyed t
  JOIN tenants_project p ON p.id = t.project_id
  LEFT JOIN billed b
    ON (b.project_id, b.size, b.price_group, b.unit_price, b.period_id)
       = (t.project_id, t.size, t.price_group, t.unit_price, coalesce(t.month_id, %(period)s))
 ORDER BY p.slug, t.project_id, t.month, t.size, t.price_group, t.unit_price
"""  # noqa: S608 - Put together from constants only.

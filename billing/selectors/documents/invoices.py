"""Invoices as frozen facts, and the sums of charges that lines are made from."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum

from billing.domain.closing import USUAL_MONTHS
from billing.domain.documents.invoicing import ChargeSum
from billing.domain.documents.money_notes import MoneyNote
from billing.domain.money import Money
from billing.models import BillingPeriod, Invoice, InvoiceLine
from billing.selectors.documents.membership import BILLED, KEYED


@dataclass(frozen=True)
class InvoiceFact:
    """One document; `reference` is "draft" before it has a number."""

    id: UUID
    organization_id: UUID
    reference: str
    total: Money


def invoices_of_month(label: str, *, organization_ids: Collection[UUID]) -> tuple[InvoiceFact, ...]:
    """Return the documents of some organizations for a month such as "2026-10", oldest first."""
    columns = "organization", "period__label", "total", "currency", "number", "series", "issue_year"
    return tuple(
        InvoiceFact(
            id=invoice.pk,
            organization_id=invoice.organization_id,
            reference=invoice.reference,
            total=Money(invoice.total, invoice.currency),
        )
        for invoice in Invoice.objects.select_related("period")
        .filter(period__label=label, organization_id__in=organization_ids)
        .only(*columns)
        .order_by("drafted_at", "pk")
    )


@dataclass(frozen=True)
class ProjectPart:
    """What a project has of a document.

    Attributes:
        lines: How many.
        amount: Their sum, net of any tax.
    """

    invoice: Invoice
    project_id: UUID
    project: str
    lines: int
    amount: Money


def first_lines_of_parts(lines: QuerySet[InvoiceLine]) -> QuerySet[InvoiceLine]:
    """Return one line of each part that some lines make up."""
    first = lines.order_by("invoice_id", "project_id", "position")
    chosen = first.distinct("invoice_id", "project_id").values("pk")
    return InvoiceLine.objects.filter(pk__in=chosen)


def project_parts(
    lines: QuerySet[InvoiceLine], *, limit: int | None = None
) -> tuple[ProjectPart, ...]:
    """Return the parts that some lines make up, of the newest documents first; two statements.

    Args:
        lines: Those that the caller reads.
        limit: The most parts that are returned; None for all.
    """
    sums = (
        lines.order_by("-invoice_id", "project__name", "project_id")
        .values_list("invoice_id", "project_id", "project__name")
        .annotate(lines=Count("pk"), amount=Sum("amount"))[:limit]
    )
    found = list(sums)
    rows = Invoice.objects.select_related("organization", "period").defer("document")
    invoices = rows.in_bulk({invoice_id for invoice_id, *_ in found})
    return tuple(
        ProjectPart(
            invoice=invoices[invoice_id],
            project_id=project_id,
            project=name,
            lines=count,
            amount=Money(amount, invoices[invoice_id].currency),
        )
        for invoice_id, project_id, name, count, amount in found
    )


def document_of(document_id: UUID) -> Invoice | None:
    """Return a document by its id."""
    return Invoice.objects.filter(pk=document_id).first()


def others_of_run(invoice: Invoice) -> QuerySet[Invoice]:
    """Return the other documents of an invoice's billing run, with their periods."""
    run = Invoice.objects.filter(period=invoice.period_id, run=invoice.run)
    return run.exclude(pk=invoice.pk).select_related("period")


def documents_of_run(invoice: Invoice) -> list[Invoice]:
    """Return the documents of an invoice's billing run."""
    return list(Invoice.objects.filter(period=invoice.period_id, run=invoice.run).order_by())


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
    """Return what is charged to a period; see `sums_of_periods`.

    Args:
        period: The period.
        replaced_id: A final invoice that counts for nothing: it is credited in full.
    """
    return sums_of_periods([period], replaced_id=replaced_id)[period.pk]


def sums_of_periods(
    periods: Collection[BillingPeriod], *, replaced_id: UUID | None = None
) -> dict[UUID, tuple[ChargeSum, ...]]:
    """Return the unit-seconds charged to periods, by project, month, size, group and price.

    Charges of hours before a period are grouped by their month. Each sum has what
    final documents billed for the same key. Each charge is read once, by a statement for the
    periods that begin together: as many as there are time zones.

    Args:
        periods: At most one of each organization.
        replaced_id: As above.
    """
    sums: dict[UUID, list[ChargeSum]] = {period.pk: [] for period in periods}
    together: defaultdict[datetime, list[BillingPeriod]] = defaultdict(list)
    for period in periods:
        together[period.hours.lower].append(period)
    for begin_at, begun in together.items():
        given: dict[str, Any] = {
            "periods": [period.pk for period in begun],
            "begin_at": begin_at,
            "organizations": [period.organization_id for period in begun],
            "replaced": replaced_id,
        }
        with connection.cursor() as cursor:
            cursor.execute(_SUMS, given)
            for row in cursor.fetchall():
                sums[row[0]].append(_sum(*row[1:]))
    return {key: tuple(found) for key, found in sums.items()}


def _sum(  # noqa: PLR0913, PLR0917 - The columns of the statement.
    project_id: UUID,
    slug: str,
    name: str,
    cost_center: str,
    size: str,
    price_group: str,
    unit_price: Decimal,
    month_id: UUID | None,
    month: str,
    total: Decimal,
    billed: Decimal,
    billed_amount: Decimal,
    notes: str | None,
) -> ChargeSum:
    return ChargeSum(
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
        billed_amount=billed_amount,
        notes=_notes(notes),
    )


def _notes(stored: str | None) -> tuple[MoneyNote, ...]:
    """Return notes of money; what credit notes gave back of a debit note is taken off it."""
    notes: dict[str, MoneyNote] = {}
    for note_id, level, amount in json.loads(stored or "[]"):
        before = notes.get(note_id, MoneyNote(level, Decimal()))
        notes[note_id] = replace(before, amount=before.amount + Decimal(amount))
    return tuple(notes.values())


_SUMS = f"""
WITH {KEYED},
{BILLED}
SELECT t.period_id, t.project_id, p.slug, p.name, p.cost_center, t.size, t.price_group,
       t.unit_price, t.month_id, t.month, t.unit_seconds, coalesce(b.unit_seconds, 0),
       coalesce(b.amount, 0), b.notes
  FROM keyed t
  JOIN tenants_project p ON p.id = t.project_id
  LEFT JOIN billed b
    ON (b.project_id, b.size, b.price_group, b.unit_price, b.period_id)
       = (t.project_id, t.size, t.price_group, t.unit_price, coalesce(t.month_id, t.period_id))
 ORDER BY t.period_id, p.slug, t.project_id, t.month, t.size, t.price_group, t.unit_price
"""  # noqa: S608 - Put together from constants only.


_PRINTED: Final = re.compile(r"(?P<series>.+)-(?P<year>\d{4})-(?P<number>\d{1,18})")


def numbered(rows: QuerySet[Invoice], text: str) -> QuerySet[Invoice] | None:
    """Return the documents with a printed number such as "GL-2026-000012"; None for other text."""
    printed = _PRINTED.fullmatch(text.strip().upper())
    if printed is None:
        return None
    series, year = printed["series"], printed["year"]
    old = Q(series=series, issue_year=0, period__label__startswith=f"{year}-")
    return rows.filter(Q(series=f"{series}-{year}") | old, number=int(printed["number"]))

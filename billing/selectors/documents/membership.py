"""Which charges a line is about: those of its invoice's period that have its key.

A line has the whole key: project, size, price group, price and month of service. A charge belongs
to the line with its key on the last final invoice of its period, so that no charge is ever written
again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import OuterRef, Q, QuerySet, Subquery

from billing.domain.documents.invoicing import InvoiceState, LineKind
from billing.models import Charge, Invoice, InvoiceLine, PeriodState

KEYED: Final = """
due AS MATERIALIZED (
  SELECT project_id, size, price_group, unit_price, NULL::timestamptz AS late_hour,
         sum(unit_seconds) AS unit_seconds
    FROM billing_charge
   WHERE period_id = ANY (%(periods)s) AND window_start >= %(begin_at)s
   GROUP BY 1, 2, 3, 4
   UNION ALL
  SELECT project_id, size, price_group, unit_price, window_start, sum(unit_seconds)
    FROM billing_charge
   WHERE period_id = ANY (%(periods)s) AND window_start < %(begin_at)s
   GROUP BY 1, 2, 3, 4, 5
),
keyed AS MATERIALIZED (
  SELECT p.id AS period_id, d.project_id, d.size, d.price_group, d.unit_price, s.id AS month_id,
         coalesce(s.label, '') AS month, sum(d.unit_seconds) AS unit_seconds
    FROM due d
    JOIN tenants_project j ON j.id = d.project_id AND j.organization_id = ANY (%(organizations)s)
    JOIN billing_billingperiod p
      ON p.organization_id = j.organization_id AND p.id = ANY (%(periods)s)
    LEFT JOIN billing_billingperiod s
      ON s.organization_id = j.organization_id AND s.organization_id = ANY (%(organizations)s)
     AND s.hours @> d.late_hour
   GROUP BY 1, 2, 3, 4, 5, 6, 7
)"""
"""Charges of periods that begin together, added up by key; only earlier hours are looked up.

Each period is of another organization, so that the project says which one a charge is of: the
planner then knows how few keys there are.
"""

BILLED: Final = """
of_months AS MATERIALIZED (
  SELECT l.project_id, l.size, l.price_group, l.unit_price,
         coalesce(l.service_period_id, i.period_id) AS period_id,
         l.unit_seconds, l.amount, i.finalized_at, i.id IS DISTINCT FROM %(replaced)s AS counts,
         CASE WHEN i.corrects_id IS NOT NULL AND NOT EXISTS (
           SELECT FROM billing_invoice r
            WHERE (r.period_id, r.run) = (i.period_id, i.run) AND r.corrects_id IS NULL
              AND r.organization_id = ANY (%(organizations)s))
           THEN coalesce((
             SELECT d.id FROM billing_invoice d
              WHERE d.id = i.corrects_id AND d.kind = 'debit_note'), i.id) END AS note_id
    FROM billing_invoiceline l JOIN billing_invoice i ON i.id = l.invoice_id
   WHERE i.organization_id = ANY (%(organizations)s) AND i.state = 'final' AND l.kind = 'usage'
     AND l.invoice_id = ANY (ARRAY(
       SELECT id FROM billing_invoice WHERE organization_id = ANY (%(organizations)s)))
     AND coalesce(l.service_period_id, i.period_id)
         IN (SELECT coalesce(month_id, period_id) FROM keyed)
),
leveled AS MATERIALIZED (
  SELECT *, CASE WHEN count(note_id) OVER of_key > 0 THEN sum(unit_seconds) OVER so_far END AS level
    FROM of_months
  WINDOW of_key AS (PARTITION BY project_id, size, price_group, unit_price, period_id),
         so_far AS (of_key ORDER BY finalized_at)
),
billed AS MATERIALIZED (
  SELECT project_id, size, price_group, unit_price, period_id,
         coalesce(sum(unit_seconds) FILTER (WHERE counts), 0) AS unit_seconds,
         coalesce(sum(amount) FILTER (WHERE counts), 0) AS amount,
         jsonb_agg(jsonb_build_array(note_id, level::bigint, amount::text) ORDER BY finalized_at)
           FILTER (WHERE note_id IS NOT NULL) AS notes
    FROM leveled
   GROUP BY 1, 2, 3, 4, 5
)"""
"""What final documents billed of the months in `keyed`, by key, but for one that is replaced.

Notes of money alone are listed with what was billed of the key at their time; a credit note that
names a debit note has its id. A credit note in full is none of them: its run replaces the invoice.

The array has lines read by their invoice also where nested loops are ruled out.
"""

STANDING: Final = """
documents AS MATERIALIZED (
  SELECT i.id, i.organization_id, i.period_id, i.id = ANY (%(own)s::uuid[]) AS is_own
    FROM billing_invoice i JOIN asked a USING (organization_id, currency)
   WHERE i.organization_id = ANY (ARRAY(SELECT organization_id FROM asked))
     AND i.corrects_id IS NULL
     AND (i.id = ANY (%(own)s::uuid[])
       OR i.state = 'final' AND i.id IS DISTINCT FROM %(replaced)s::uuid AND NOT EXISTS (
         SELECT FROM billing_invoice n
           JOIN billing_invoice r
             ON (r.period_id, r.run) = (n.period_id, n.run) AND r.corrects_id IS NULL
            AND (r.state = 'final' OR r.id = ANY (%(own)s::uuid[]))
          WHERE n.corrects_id = i.id AND n.state = 'final' AND n.kind = 'credit_note'))
)"""
"""Documents of organizations in `asked` that stand, and those that are `own`.

An invoice that was voided counts for nothing, and neither does the credit note in full; what credit
notes in part give back is not taken off.
"""


def read_standing(
    statement: str,
    currencies: Mapping[UUID, str],
    *,
    own_ids: Sequence[UUID] = (),
    replaced_id: UUID | None = None,
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement that begins with `asked` and STANDING.

    Args:
        statement: With a row for each organization that it knows something of.
        currencies: Of the documents, by organization.
        own_ids: Drafts of a run that are read, too.
        replaced_id: A final invoice that counts for nothing: it is credited in full.
    """
    values: dict[str, Any] = {
        "organizations": list(currencies),
        "currencies": list(currencies.values()),
        "own": list(own_ids),
        "replaced": replaced_id,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def with_line(charges: QuerySet[Charge], *, of_drafts: bool = False) -> QuerySet[Any]:
    """Return charges with `line_id`, the line of the final invoice they belong to, or None.

    Args:
        charges: Any.
        of_drafts: Whether a line of a draft is taken where no final one is there.
    """
    states = [InvoiceState.FINAL.value, *([InvoiceState.DRAFT.value] if of_drafts else [])]
    lines = InvoiceLine.objects.filter(
        Q(service_period__isnull=True, invoice__period__hours__contains=OuterRef("window_start"))
        | Q(service_period__hours__contains=OuterRef("window_start")),
        invoice__period=OuterRef("period"),
        invoice__corrects__isnull=True,
        invoice__state__in=states,
        kind=LineKind.USAGE.value,
        project=OuterRef("project"),
        size=OuterRef("size"),
        price_group=OuterRef("price_group"),
        unit_price=OuterRef("unit_price"),
    )
    last = lines.order_by("-invoice__state", "-invoice__run")
    return charges.annotate(line_id=Subquery(last.values("pk")[:1]))


def charges_of_line(charges: QuerySet[Charge], line_id: UUID) -> QuerySet[Charge]:
    """Return the charges that belong to a line of a final invoice; none of any other."""
    line = (
        InvoiceLine.objects.filter(
            pk=line_id,
            kind=LineKind.USAGE.value,
            invoice__state=InvoiceState.FINAL.value,
            invoice__corrects=None,
        )
        .select_related("service_period", "invoice__period")
        .first()
    )
    return charges.none() if line is None else charges_with_key(charges, line)


def charges_with_key(charges: QuerySet[Charge], line: InvoiceLine) -> QuerySet[Charge]:
    """Return the charges of the month of a line of use that have its key, of a draft too.

    Those of a draft are what is charged now, which may be more than when it was drafted.
    """
    return charges_at_any_price(charges, line).filter(unit_price=line.unit_price)


def charges_at_any_price(charges: QuerySet[Charge], line: InvoiceLine) -> QuerySet[Charge]:
    """Return the charges of the month of a line that have its key but for the price."""
    month = line.service_period or line.invoice.period
    return charges.filter(
        organization=line.invoice.organization_id,
        period=line.invoice.period_id,
        project=line.project_id,
        size=line.size,
        price_group=line.price_group,
        window_start__gte=month.hours.lower,
        window_start__lt=month.hours.upper,
    )


def charges_of_invoice(charges: QuerySet[Charge], invoice_id: UUID) -> QuerySet[Charge]:
    """Return the charges of a final invoice: those of its month and projects; none of a draft."""
    final = Invoice.objects.filter(
        pk=invoice_id, state=InvoiceState.FINAL.value, corrects=None
    ).order_by()
    lines = InvoiceLine.objects.filter(invoice=invoice_id).order_by()
    return charges.filter(period__in=final.values("period"), project__in=lines.values("project"))


def billed_charges(charges: QuerySet[Charge]) -> QuerySet[Charge]:
    """Return the charges on final invoices: those of closed periods."""
    return charges.filter(period__state=PeriodState.CLOSED)


def unbilled_charges(charges: QuerySet[Charge]) -> QuerySet[Charge]:
    """Return the charges that are on no final invoice."""
    return charges.exclude(period__state=PeriodState.CLOSED)

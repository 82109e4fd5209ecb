"""Rows of FOCUS datasets: one statement for each dataset, which COPY streams.

A month's use is a row for each hour, project, user, cluster, size, price group and price: what
corrects it within the open month is in its quantity. Rows keep their whole precision, so that price
times quantity is the cost, and a row for each line has the rest to the amount of the line. Each
document is in one month: that of its first billing run, or that in which a later run was issued. So
the rows and amounts of a closed month never change; names are those of the day of the export.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connection

from billing.domain.exports.focus import (
    COST_DECIMALS,
    QUANTITY_DECIMALS,
    FocusDataset,
    FocusEncoder,
    FocusFile,
    FocusFormat,
    written_in,
)
from billing.domain.exports.focus_tables import FOCUS_COLUMNS
from billing.selectors.exports.months import Guard, guarded, months, plain, snapshot, stamp

PLANNING: Final = """
SET LOCAL enable_nestloop = off; SET LOCAL enable_mergejoin = off; SET LOCAL work_mem = '64MB'"""
"""A million rows took 70 s without: all that they look up is small, and hashed in memory."""


@dataclass(frozen=True)
class FocusScope:
    """Whose rows a file has.

    Attributes:
        organization_ids: Whose.
        issuer: Who bills what is on no document yet.
    """

    organization_ids: Collection[UUID]
    issuer: str


def stream_focus(file: FocusFile, scope: FocusScope, *, encode: FocusEncoder) -> Iterator[bytes]:
    """Yield a file in blocks, of one snapshot of the database; memory does not grow with it.

    Text that a spreadsheet would take for a formula begins with an apostrophe in CSV.
    """
    columns = written_in(FOCUS_COLUMNS[file.dataset], file.version)
    statement = focus_statement(
        file.dataset, version=file.version, is_guarded=file.format is FocusFormat.CSV
    )
    values: dict[str, Any] = {
        "label": file.month.label,
        "organizations": list(scope.organization_ids),
        "issuer": scope.issuer,
    }
    with snapshot(), connection.cursor() as cursor:
        cursor.execute(PLANNING)
        copying = f"COPY ({statement}) TO STDOUT (FORMAT csv, HEADER)"
        with cursor.copy(copying, values) as copy:
            yield from encode(iter(copy.read, b""), columns)


def focus_statement(dataset: FocusDataset, *, version: str, is_guarded: bool) -> str:
    """Return the statement of a dataset; its parameters are label, organizations and issuer."""
    guard = guarded if is_guarded else plain
    chosen = ",\n       ".join(
        f'{column.sql} AS "{column.name}"' for column in written_in(FOCUS_COLUMNS[dataset], version)
    )
    return _SOURCES[dataset](guard).replace("@columns", chosen)


_CATEGORY: Final = """
CASE l.kind WHEN 'usage' THEN 'Usage' WHEN 'minimum' THEN 'Adjustment' ELSE 'Credit' END"""
# Each charge is added to its hour; the hour finds its line by the key of lines. Texts that many
# rows share are made once. Left joins, because the planner knows nothing of what is made here: it
# takes the rows of use for few otherwise, and hashes them instead of what they look up.
_COSTS: Final = """
WITH {months},
lines AS MATERIALIZED (
  SELECT l.*, coalesce(l.service_period_id, d.period_id) AS month_id, d.run,
         'gpu-unit-' || l.size || '/' || l.price_group AS sku_price_id,
         d.run > 1 OR l.service_period_id IS NOT NULL AS is_correction
    FROM documents d JOIN billing_invoiceline l ON l.invoice_id = d.id
),
used AS MATERIALIZED (
  SELECT u.*, l.id AS line_id, l.invoice_id
    FROM (
      SELECT c.*, 'gpu-unit-' || c.size || '/' || c.price_group AS sku_price_id,
             a.organization_id, c.window_start < a.begin_at AS is_correction,
             round(c.unit_seconds / 3600, {quantity_decimals}) AS quantity,
             CASE WHEN c.window_start < a.begin_at
                  THEN (SELECT s.id FROM billing_billingperiod s
                         WHERE s.organization_id = a.organization_id
                           AND s.hours @> c.window_start)
                  ELSE c.period_id END AS month_id
        FROM (
          SELECT c.period_id, c.window_start, c.cluster_id, c.project_id, c.owner, c.size,
                 c.price_group, c.unit_price, coalesce(c.base_unit_price, c.unit_price)
                   AS list_unit_price, c.currency, sum(c.unit_seconds) AS unit_seconds
            FROM billing_charge c
           WHERE c.period_id = ANY (ARRAY(SELECT period_id FROM asked))
           GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
          HAVING sum(c.unit_seconds) <> 0) c
        LEFT JOIN asked a ON a.period_id = c.period_id
      OFFSET 0) u
    LEFT JOIN lines l
      ON l.project_id = u.project_id AND l.size = u.size AND l.price_group = u.price_group
     AND l.unit_price = u.unit_price AND l.month_id = u.month_id AND l.run = 1
     AND l.kind = 'usage'
),
hours AS MATERIALIZED (
  SELECT window_start, {stamp_start} AS charge_begin, {stamp_stop} AS charge_end
    FROM (SELECT DISTINCT window_start FROM used) h
),
skus AS MATERIALIZED (
  SELECT sku_price_id, 'gpu-unit-' || size AS sku_id,
         CASE WHEN price_group LIKE '%%/burst' THEN 'Dynamic' ELSE 'Standard' END
           AS pricing_category,
         initcap(size) || ' units of ' || price_group AS description,
         jsonb_build_object('InstanceSeries', split_part(price_group, '/', 1), 'x_Size', size,
                            'x_PriceGroup', price_group)::text AS sku_details
    FROM (SELECT sku_price_id, min(size) AS size, min(price_group) AS price_group
            FROM (SELECT sku_price_id, size, price_group FROM used
                   UNION ALL SELECT sku_price_id, size, price_group FROM lines) u
           GROUP BY 1) s
),
projects AS MATERIALIZED (
  SELECT p.id, {project_name} AS project_name,
         jsonb_build_object('gpu-ledger/project', p.slug)
         || CASE WHEN p.cost_center = '' THEN '{{}}'::jsonb
                 ELSE jsonb_build_object('gpu-ledger/cost-center', p.cost_center) END AS tags
    FROM tenants_project p WHERE p.organization_id = ANY (%(organizations)s)
),
owners AS MATERIALIZED (
  SELECT o.project_id, o.owner, p.project_name,
         (p.tags || CASE WHEN o.owner = '' THEN '{{}}'::jsonb
                         ELSE jsonb_build_object('gpu-ledger/user', o.owner) END)::text AS tags
    FROM (SELECT DISTINCT project_id, owner FROM used) o JOIN projects p ON p.id = o.project_id
),
own_months AS MATERIALIZED (
  SELECT p.id, {stamp_lower} AS charge_begin, {stamp_upper} AS charge_end
    FROM billing_billingperiod p
   WHERE p.id IN (SELECT month_id FROM lines UNION SELECT period_id FROM documents)
),
exact AS MATERIALIZED (
  SELECT line_id, sum(unit_price * quantity) AS contracted,
         sum(list_unit_price * quantity) AS list_cost
    FROM used WHERE line_id IS NOT NULL GROUP BY line_id
),
taxed AS MATERIALIZED (
  SELECT l.invoice_id, sum(CASE WHEN l.run = 1 AND l.kind = 'usage'
                                THEN l.amount - coalesce(e.contracted, 0) + coalesce(e.list_cost, 0)
                                ELSE l.amount END) AS list_cost
    FROM lines l LEFT JOIN exact e ON e.line_id = l.id GROUP BY 1
)
SELECT @columns
  FROM (
    SELECT a.organization_id, a.organization_name, a.period_begin, a.period_end, u.project_id,
           o.project_name, u.currency, h.charge_begin, h.charge_end, 'Usage' AS category,
           CASE WHEN u.is_correction THEN 'Correction' END AS class, s.description,
           u.unit_price * u.quantity AS billed, u.list_unit_price * u.quantity AS list_cost,
           u.unit_price * u.quantity AS contracted, u.list_unit_price, u.unit_price, u.quantity,
           'Unit-Hours' AS unit, s.pricing_category, s.sku_id, s.sku_price_id, s.sku_details,
           coalesce(d.issuer, {issuer}) AS issuer, d.invoice, u.line_id::text AS detail_id,
           o.tags, c.slug AS cluster, u.price_group, u.unit_seconds
      FROM used u
      LEFT JOIN asked a ON a.organization_id = u.organization_id
      LEFT JOIN hours h ON h.window_start = u.window_start
      LEFT JOIN skus s ON s.sku_price_id = u.sku_price_id
      LEFT JOIN owners o ON o.project_id = u.project_id AND o.owner = u.owner
      LEFT JOIN tenants_cluster c ON c.id = u.cluster_id
      LEFT JOIN documents d ON d.id = u.invoice_id
     UNION ALL
    SELECT d.organization_id, d.organization_name, d.period_begin, d.period_end, l.project_id,
           p.project_name, d.currency, m.charge_begin, m.charge_end, 'Adjustment',
           CASE WHEN l.is_correction THEN 'Correction' END, 'Rounding of a line',
           l.rest, l.rest, l.rest, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           d.issuer, d.invoice, l.id::text, p.tags::text, NULL, NULL, NULL
      FROM (SELECT l.*, l.amount - coalesce(e.contracted, 0) AS rest
              FROM lines l LEFT JOIN exact e ON e.line_id = l.id
             WHERE l.run = 1 AND l.kind = 'usage') l
      JOIN documents d ON d.id = l.invoice_id
      JOIN projects p ON p.id = l.project_id
      JOIN own_months m ON m.id = l.month_id
     WHERE l.rest <> 0
     UNION ALL
    SELECT d.organization_id, d.organization_name, d.period_begin, d.period_end, l.project_id,
           p.project_name, d.currency, m.charge_begin, m.charge_end, {category},
           CASE WHEN l.is_correction THEN 'Correction' END, {description},
           l.amount, l.amount, l.amount, q.unit_price, q.unit_price, q.quantity,
           CASE WHEN q.quantity IS NOT NULL THEN 'Unit-Hours' END, s.pricing_category, s.sku_id,
           s.sku_price_id, s.sku_details, d.issuer, d.invoice, l.id::text, p.tags::text,
           NULL, nullif(l.price_group, ''), CASE WHEN q.quantity IS NOT NULL THEN l.unit_seconds END
      FROM lines l
      JOIN documents d ON d.id = l.invoice_id
      JOIN projects p ON p.id = l.project_id
      JOIN own_months m ON m.id = l.month_id
      LEFT JOIN skus s ON l.kind = 'usage' AND s.sku_price_id = l.sku_price_id
      LEFT JOIN LATERAL (
        SELECT round(l.unit_seconds::numeric / 3600, {quantity_decimals}) AS quantity, l.unit_price
         WHERE l.kind = 'usage' AND l.unit_seconds <> 0) q ON true
     WHERE l.run > 1 OR l.kind <> 'usage'
     UNION ALL
    SELECT d.organization_id, d.organization_name, d.period_begin, d.period_end, NULL,
           NULL, d.currency, m.charge_begin, m.charge_end, 'Tax',
           CASE WHEN d.run > 1 THEN 'Correction' END, 'Tax',
           d.tax_total, CASE WHEN d.total = 0 THEN d.tax_total
                             ELSE round(d.tax_total * t.list_cost / d.total, {cost_decimals}) END,
           d.tax_total, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
           d.issuer, d.invoice, d.id || ':tax', NULL, NULL, NULL, NULL
      FROM documents d
      JOIN own_months m ON m.id = d.period_id
      JOIN taxed t ON t.invoice_id = d.id
     WHERE d.tax_total <> 0) r
"""
_DETAILS: Final = """
WITH {months}
SELECT @columns
  FROM (
    SELECT d.organization_id, d.currency, d.period_begin, d.period_end, d.issuer, d.invoice,
           d.drafted AS drafted_at, d.issued_at, l.category, l.amount AS billed, l.description,
           l.detail_id, coalesce(c.document ->> 'reference', d.invoice) AS reference,
           {due_on} AS due_on, coalesce('Net ' || t.payment_days, 'Credit') AS payment_terms,
           nullif({purchase_order}, '') AS purchase_order
      FROM documents d
      JOIN LATERAL (
        SELECT {category} AS category, l.amount, {description} AS description,
               l.id::text AS detail_id
          FROM billing_invoiceline l WHERE l.invoice_id = d.id
         UNION ALL
        SELECT 'Tax', d.tax_total, 'Tax', d.id || ':tax' WHERE d.tax_total <> 0) l ON true
      LEFT JOIN billing_invoice c ON c.id = d.corrects_id
      LEFT JOIN billing_duedate t ON t.document_id = d.id) r
"""
_PERIODS: Final = """
WITH {months}
SELECT @columns
  FROM (
    SELECT a.period_begin, a.period_end, coalesce(d.issuer, {issuer}) AS issuer,
           {created} AS created_at, {updated} AS updated_at,
           CASE WHEN bool_and(a.state = 'closed') THEN 'Closed' ELSE 'Open' END AS status
      FROM asked a
      LEFT JOIN (SELECT DISTINCT organization_id, issuer FROM documents) d
        ON d.organization_id = a.organization_id
     WHERE a.period_id IS NOT NULL
     GROUP BY 1, 2, 3 ORDER BY 1, 2, 3) r
"""


def _costs(guard: Guard) -> str:
    return _COSTS.format(
        months=months(guard),
        quantity_decimals=QUANTITY_DECIMALS,
        cost_decimals=COST_DECIMALS,
        stamp_start=stamp("window_start"),
        stamp_stop=stamp("window_start + interval '1 hour'"),
        stamp_lower=stamp("lower(p.hours)"),
        stamp_upper=stamp("upper(p.hours)"),
        project_name=guard("p.name"),
        issuer=guard("%(issuer)s"),
        category=_CATEGORY,
        description=guard("l.description"),
    )


def _details(guard: Guard) -> str:
    return _DETAILS.format(
        months=months(guard),
        category=_CATEGORY,
        description=guard("l.description"),
        due_on=stamp("(t.due_on::timestamp AT TIME ZONE 'UTC')"),
        purchase_order=guard("d.purchase_order"),
    )


def _periods(guard: Guard) -> str:
    return _PERIODS.format(
        months=months(guard),
        issuer=guard("%(issuer)s"),
        created=stamp("min(a.created_at)"),
        updated=stamp("max(a.updated_at)"),
    )


_SOURCES: Final[dict[FocusDataset, Callable[[Guard], str]]] = {
    FocusDataset.COST_AND_USAGE: _costs,
    FocusDataset.INVOICE_DETAIL: _details,
    FocusDataset.BILLING_PERIOD: _periods,
}

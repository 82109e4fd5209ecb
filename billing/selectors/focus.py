"""Rows of FOCUS datasets: one statement for each dataset, which COPY streams.

A month's use is a row for each hour, project, user, cluster, size, price group and price: what
corrects it within the open month is in its quantity. Rows keep their whole precision, so that price
times quantity is the cost, and a row for each line has the rest to the amount of the line. Each
document is in one month: that of its first billing run, or that in which a later run was issued. So
the rows of a closed month never change.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from billing.domain.exports.focus import (
    COST_DECIMALS,
    QUANTITY_DECIMALS,
    FocusColumn,
    FocusDataset,
    FocusFile,
    FocusFormat,
    written_in,
)
from billing.domain.exports.focus_tables import FOCUS_COLUMNS

SECONDS_MAX: Final = 1800
"""Of one statement; a million rows take some 20 s on two busy cores."""


@dataclass(frozen=True)
class FocusScope:
    """Whose rows a file has.

    Attributes:
        organization_ids: Whose.
        issuer: Who bills what is on no document yet.
    """

    organization_ids: Collection[UUID]
    issuer: str


Encoder = Callable[[Iterator[bytes], Sequence[FocusColumn]], Iterator[bytes]]
"""Makes a file of CSV in blocks with a header."""


def stream_focus(file: FocusFile, scope: FocusScope, *, encode: Encoder) -> Iterator[bytes]:
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
        copying = f"COPY ({statement}) TO STDOUT (FORMAT csv, HEADER)"
        with cursor.copy(copying, values) as copy:
            yield from encode(iter(copy.read, b""), columns)


@contextmanager
def snapshot() -> Iterator[None]:
    """Read one state of the database until the end of the block.

    The transaction of a caller is left as it is.
    """
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute(f"SET LOCAL statement_timeout = '{SECONDS_MAX}s'")
        yield


def focus_statement(dataset: FocusDataset, *, version: str, is_guarded: bool) -> str:
    """Return the statement of a dataset; its parameters are label, organizations and issuer."""
    guard = _guarded if is_guarded else _plain
    chosen = ",\n       ".join(
        f'{column.sql} AS "{column.name}"' for column in written_in(FOCUS_COLUMNS[dataset], version)
    )
    return _SOURCES[dataset](guard).replace("@columns", chosen)


def _plain(expression: str) -> str:
    return expression


def _guarded(expression: str) -> str:
    """Return an expression whose text begins with an apostrophe where `guard_text` adds one."""
    return rf"regexp_replace({expression}, '^(''* *[-=+@\t\r\n＝＋－＠])', '''\1')"  # noqa: RUF001


_MONTHS: Final = """
asked AS MATERIALIZED (
  SELECT m.*, {stamp_begin} AS period_begin, {stamp_end} AS period_end
    FROM (
      SELECT o.id AS organization_id, {name} AS organization_name, p.id AS period_id, p.state,
             p.created_at,
             coalesce(p.closed_at, p.approved_at, p.reviewed_at, p.created_at) AS updated_at,
             coalesce(lower(p.hours), date_trunc('hour',
               to_date(%(label)s, 'YYYY-MM')::timestamp AT TIME ZONE o.time_zone)) AS begin_at,
             coalesce(upper(p.hours), date_trunc('hour',
               (to_date(%(label)s, 'YYYY-MM') + interval '1 month') AT TIME ZONE o.time_zone))
               AS end_at
        FROM tenants_organization o
        LEFT JOIN billing_billingperiod p ON p.organization_id = o.id AND p.label = %(label)s
       WHERE o.id = ANY (%(organizations)s)) m
),
documents AS MATERIALIZED (
  SELECT d.*, {stamp_issued} AS issued_at, {stamp_drafted} AS drafted
    FROM (
      SELECT i.id, i.organization_id, i.period_id, i.run, i.kind, i.currency, i.total, i.tax_total,
             i.corrects_id, i.purchase_order, i.drafted_at, i.finalized_at,
             i.document ->> 'reference' AS invoice, {issuer} AS issuer, a.organization_name,
             a.period_begin, a.period_end
        FROM asked a
        JOIN billing_invoice i
          ON i.organization_id = a.organization_id
         AND CASE WHEN i.run = 1 THEN i.period_id = a.period_id
                  ELSE i.finalized_at >= a.begin_at AND i.finalized_at < a.end_at END
       WHERE i.state = 'final') d
)"""


def _stamp(expression: str) -> str:
    return f"""to_char(({expression}) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""


def _months(guard: Callable[[str], str]) -> str:
    return _MONTHS.format(
        name=guard("o.name"),
        issuer=guard("i.document -> 'issuer' ->> 'name'"),
        stamp_begin=_stamp("m.begin_at"),
        stamp_end=_stamp("m.end_at"),
        stamp_issued=_stamp("d.finalized_at"),
        stamp_drafted=_stamp("d.drafted_at"),
    )


_CATEGORY: Final = """
CASE l.kind WHEN 'usage' THEN 'Usage' WHEN 'minimum' THEN 'Adjustment' ELSE 'Credit' END"""
# Each charge is added to its hour; the hour finds its line by the key of lines. Texts that many
# rows share are made once.
_COSTS: Final = """
WITH {months},
lines AS MATERIALIZED (
  SELECT l.*, coalesce(l.service_period_id, d.period_id) AS month_id, d.run,
         d.run > 1 OR l.service_period_id IS NOT NULL AS is_correction
    FROM documents d JOIN billing_invoiceline l ON l.invoice_id = d.id
),
used AS MATERIALIZED (
  SELECT u.*, a.organization_id, l.id AS line_id, l.invoice_id,
         u.window_start < a.begin_at AS is_correction,
         round(u.unit_seconds / 3600, {quantity_decimals}) AS quantity
    FROM (
      SELECT c.period_id, c.window_start, c.cluster_id, c.project_id, c.owner, c.size,
             c.price_group, c.unit_price, coalesce(c.base_unit_price, c.unit_price)
               AS list_unit_price, c.currency, sum(c.unit_seconds) AS unit_seconds
        FROM billing_charge c
       WHERE c.period_id = ANY (ARRAY(SELECT period_id FROM asked))
       GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
      HAVING sum(c.unit_seconds) <> 0) u
    JOIN asked a ON a.period_id = u.period_id
    LEFT JOIN LATERAL (
      SELECT s.id FROM billing_billingperiod s
       WHERE u.window_start < a.begin_at AND s.organization_id = a.organization_id
         AND s.hours @> u.window_start) late ON true
    LEFT JOIN lines l
      ON l.project_id = u.project_id AND l.size = u.size AND l.price_group = u.price_group
     AND l.unit_price = u.unit_price AND l.month_id = coalesce(late.id, u.period_id)
     AND l.run = 1 AND l.kind = 'usage'
),
hours AS MATERIALIZED (
  SELECT window_start, {stamp_start} AS charge_begin, {stamp_stop} AS charge_end
    FROM (SELECT DISTINCT window_start FROM used) h
),
skus AS MATERIALIZED (
  SELECT size, price_group, 'gpu-unit-' || size AS sku_id,
         'gpu-unit-' || size || '/' || price_group AS sku_price_id,
         CASE WHEN price_group LIKE '%%/burst' THEN 'Dynamic' ELSE 'Standard' END
           AS pricing_category,
         initcap(size) || ' units of ' || price_group AS description,
         jsonb_build_object('InstanceSeries', split_part(price_group, '/', 1), 'x_Size', size,
                            'x_PriceGroup', price_group)::text AS sku_details
    FROM (SELECT size, price_group FROM used UNION SELECT size, price_group FROM lines) s
   WHERE size <> ''
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
      JOIN asked a ON a.organization_id = u.organization_id
      JOIN hours h ON h.window_start = u.window_start
      JOIN skus s ON s.size = u.size AND s.price_group = u.price_group
      JOIN owners o ON o.project_id = u.project_id AND o.owner = u.owner
      JOIN tenants_cluster c ON c.id = u.cluster_id
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
      LEFT JOIN skus s ON l.kind = 'usage' AND s.size = l.size AND s.price_group = l.price_group
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


def _costs(guard: Callable[[str], str]) -> str:
    return _COSTS.format(
        months=_months(guard),
        quantity_decimals=QUANTITY_DECIMALS,
        cost_decimals=COST_DECIMALS,
        stamp_start=_stamp("window_start"),
        stamp_stop=_stamp("window_start + interval '1 hour'"),
        stamp_lower=_stamp("lower(p.hours)"),
        stamp_upper=_stamp("upper(p.hours)"),
        project_name=guard("p.name"),
        issuer=guard("%(issuer)s"),
        category=_CATEGORY,
        description=guard("l.description"),
    )


def _details(guard: Callable[[str], str]) -> str:
    return _DETAILS.format(
        months=_months(guard),
        category=_CATEGORY,
        description=guard("l.description"),
        due_on=_stamp("(t.due_on::timestamp AT TIME ZONE 'UTC')"),
        purchase_order=guard("d.purchase_order"),
    )


def _periods(guard: Callable[[str], str]) -> str:
    return _PERIODS.format(
        months=_months(guard),
        issuer=guard("%(issuer)s"),
        created=_stamp("min(a.created_at)"),
        updated=_stamp("max(a.updated_at)"),
    )


_SOURCES: Final[dict[FocusDataset, Callable[[Callable[[str], str]], str]]] = {
    FocusDataset.COST_AND_USAGE: _costs,
    FocusDataset.INVOICE_DETAIL: _details,
    FocusDataset.BILLING_PERIOD: _periods,
}

"""Checks of what billing froze: invoices, their lines and numbers, and charges with prices."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

from django.db import connection

from billing.domain.documents.document import canonical_text, digest_of
from billing.models import Invoice, InvoiceLine
from billing.selectors.assignment_verification import EVER_ASSIGNED, range_differences
from billing.selectors.documents.membership import KEYED
from tenants.domain.archives import ArchivedTable
from tenants.domain.verification import CheckedBatch, Cursor, differences_of
from tenants.models import AuditEntry
from tenants.selectors.archives import archived_hour
from tenants.selectors.verification import check_frozen_by_entries

INVOICES_PER_BATCH: Final = 100
"""A document has a line for each project, size and price."""
LINED_PER_BATCH: Final = 5
"""An invoice has up to some million charges, which are added up."""
DRAFTED: Final = "billing:invoice:draft"
FINALIZED: Final = "billing:invoice:finalize"
WINDOWS_PER_BATCH: Final = 50
"""Some ten thousand records, which are added up."""

_NUMBERS: Final = """
SELECT coalesce(s.code, i.series), coalesce(s.next_number, 1) - 1, coalesce(i.last, 0),
       coalesce(s.next_number, 1) - coalesce(s.first_number, 1), coalesce(i.final, 0)
  FROM billing_invoiceseries s
  FULL JOIN (SELECT series, max(number) AS last, count(*) AS final FROM billing_invoice
              WHERE state = 'final' GROUP BY series) i ON i.series = s.code
"""

_IS_FINAL: Final = """EXISTS (
  SELECT FROM billing_invoice i
   WHERE i.id = CASE WHEN e.object_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                     THEN e.object_id::uuid END
     AND i.state = 'final' AND i.content_sha256 = e.facts ->> 'content_sha256')"""
_CLOSED: Final = """
SELECT i.id, i.organization_id, i.period_id, i.run, lower(p.hours), i.series, i.number
  FROM billing_invoice i JOIN billing_billingperiod p ON p.id = i.period_id
 WHERE i.state = 'final' AND i.corrects_id IS NULL
   AND (%(after)s::uuid IS NULL OR i.id > %(after)s::uuid)
 ORDER BY i.id LIMIT %(most)s
"""
# A charge is looked for on each document of its run but those of other projects; a later run is
# about the projects of the invoice that it replaces.
_LINES: Final = f"""
WITH {KEYED},
elsewhere AS (
  SELECT l.project_id
    FROM billing_invoice i JOIN billing_invoiceline l ON l.invoice_id = i.id
   WHERE (i.period_id, i.run) = (%(period)s, %(run)s) AND i.corrects_id IS NULL
     AND i.id <> %(invoice)s
),
replaced AS (
  SELECT l.project_id
    FROM billing_invoice n JOIN billing_invoiceline l ON l.invoice_id = n.corrects_id
   WHERE (n.period_id, n.run) = (%(period)s, %(run)s)
)
SELECT l.position, coalesce(l.unit_seconds, 0), coalesce(k.unit_seconds, 0)
  FROM (SELECT * FROM keyed
         WHERE project_id NOT IN (SELECT project_id FROM elsewhere)
           AND (%(run)s = 1 OR project_id IN (SELECT project_id FROM replaced))) k
  FULL JOIN (SELECT * FROM billing_invoiceline
              WHERE invoice_id = %(invoice)s AND kind = 'usage') l
    ON (l.project_id, l.size, l.price_group, l.unit_price,
        coalesce(l.service_period_id, %(period)s))
       = (k.project_id, k.size, k.price_group, k.unit_price, coalesce(k.month_id, %(period)s))
 WHERE k.unit_seconds IS DISTINCT FROM l.unit_seconds
 ORDER BY 1, 3
"""  # noqa: S608 - Put together from constants only.
_PAGE: Final = f"""
SELECT id FROM metering_sealed_window
 WHERE id > %s AND NOT {archived_hour(ArchivedTable.USAGE, "start_at")}
   AND NOT {archived_hour(ArchivedTable.CHARGES, "start_at")}
 ORDER BY id LIMIT %s
"""  # noqa: S608 - Constants.
_KEY: Final = "window_id, correction_id, organization_id, project_id, owner, size, price_group"
_NO_CORRECTION: Final = "'00000000-0000-0000-0000-000000000000'::uuid"
_GROUPED: Final = f"""
SELECT r.window_id, coalesce(r.correction_id, {_NO_CORRECTION}) AS correction_id,
       r.organization_id, r.project_id, r.owner, r.size, r.price_group,
       sum(r.unit_seconds) AS unit_seconds"""
# Use that is not charged yet is nothing wrong; a charge of no use is, and one that is not the use.
# Prices of the same book that were known when the hour was charged, with a more specific key.
_ORDER: Final = """left({0}.price_group, 1) = '*', {0}.price_group <> c.price_group,
                      {0}.cluster_id IS NULL, {0}.band = '', NOT {0}.is_own"""
_BETTER: Final = f"""
               SELECT FROM billing_book_price o JOIN billing_price t ON t.id = o.id
                CROSS JOIN coalesce(substring(c.price_group FROM '/burst$'), '') AS ending
                WHERE (o.price_book_id, o.size) = (k.price_book_id, c.size)
                  AND o.valid @> c.window_start AND t.published_at < c.created_at
                  AND coalesce(t.superseded_at > c.created_at, true)
                  AND o.price_group IN (c.price_group,
                    split_part(c.price_group, '/', 1) || '/*' || ending, '*' || ending)
                  AND coalesce(o.cluster_id = c.cluster_id, true)
                  AND (o.band = '' OR o.band = billing_band(k.price_book_id, c.window_start))
                  AND ({_ORDER.format("o")}) < ({_ORDER.format("k")})"""  # noqa: S608 - Constants.
_CHARGES: Final = f"""
WITH used AS ({_GROUPED} FROM metering_sealed_usage r
  WHERE r.window_id = ANY(%(windows)s) AND r.window_start = ANY(ARRAY(
    SELECT start_at FROM metering_sealed_window WHERE id = ANY(%(windows)s)))
  GROUP BY 1, 2, 3, 4, 5, 6, 7),
charged AS ({_GROUPED} FROM billing_charge r WHERE r.window_id = ANY(%(windows)s)
  GROUP BY 1, 2, 3, 4, 5, 6, 7)
SELECT DISTINCT g.window_id, 'of its usage'
  FROM (SELECT window_id, correction_id, u.unit_seconds AS used, c.unit_seconds AS charged
          FROM used u FULL JOIN charged c USING ({_KEY})) g
  LEFT JOIN billing_accruedwindow w
    ON w.window_id = g.window_id AND g.correction_id = {_NO_CORRECTION}
  LEFT JOIN billing_accruedcorrection k ON k.correction_id = g.correction_id
 WHERE coalesce(g.used, 0) <> coalesce(g.charged, 0)
   AND (g.charged IS NOT NULL OR w.is_complete OR k.is_complete)
 UNION ALL
SELECT DISTINCT window_id, 'as accrual stored them'
  FROM (SELECT window_id, organization_id, sum(unit_seconds) AS used FROM used
         WHERE correction_id = {_NO_CORRECTION} GROUP BY 1, 2 HAVING sum(unit_seconds) <> 0) u
  FULL JOIN (SELECT * FROM billing_accruedusage WHERE window_id = ANY(%(windows)s)) a
       USING (window_id, organization_id)
  LEFT JOIN (SELECT window_id, organization_id, sum(unit_seconds) AS charged FROM charged
              WHERE correction_id = {_NO_CORRECTION} GROUP BY 1, 2) c
       USING (window_id, organization_id)
  JOIN billing_accruedwindow w USING (window_id)
 WHERE (coalesce(u.used, 0), coalesce(c.charged, 0))
       IS DISTINCT FROM (a.used_unit_seconds, a.charged_unit_seconds)
 UNION ALL
SELECT DISTINCT c.window_id, 'at the prices of its hour'
  FROM billing_charge c
  JOIN metering_sealed_window w ON w.id = c.window_id
  LEFT JOIN billing_price p ON p.id = c.price_id
  LEFT JOIN billing_pricebook b ON b.id = p.price_book_id
 WHERE c.window_id = ANY(%(windows)s)
   AND ((c.size, c.currency, c.window_start) IS DISTINCT FROM (p.size, b.currency, w.start_at)
     OR (p.valid @> c.window_start AND p.price_group IN
            (c.price_group, split_part(c.price_group, '/', 1) || '/*',
             split_part(c.price_group, '/', 1) || '/*/burst', '*', '*/burst')
         AND coalesce(p.cluster_id = c.cluster_id, true)
         AND (p.band = '' OR p.band = billing_band(b.id, c.window_start))) IS NOT TRUE
     OR NOT EXISTS (
          SELECT FROM ({EVER_ASSIGNED.format(organization="c.organization_id")}) a
            JOIN billing_book_price k ON k.price_book_id = a.price_book_id
           WHERE a.valid @> c.window_start
             AND (k.id, k.unit_price) = (p.id, c.unit_price)
             AND (k.is_own OR k.base_unit_price = c.base_unit_price)
             AND (c.correction_id IS NOT NULL OR c.repricing_id IS NOT NULL
               OR NOT EXISTS ({_BETTER}))))
 ORDER BY 1, 2
"""  # noqa: S608 - Constants.
_PRICES: Final = """
SELECT p.id, p.unit_price::text || ' for ' || p.size || '/' || p.price_group,
       e.facts ->> 'price_book' = b.slug AND e.facts ->> 'size' = p.size
       AND e.facts ->> 'price_group' = p.price_group
       AND e.facts ->> 'cluster_id' IS NOT DISTINCT FROM p.cluster_id::text
       AND coalesce(e.facts ->> 'band', '') = p.band
       AND CASE WHEN e.facts ->> 'unit_price' ~ '^[0-9]+([.][0-9]+)?([eE][+-]?[0-9]{1,2})?$'
                THEN (e.facts ->> 'unit_price')::numeric = p.unit_price END
       AND CASE WHEN e.facts ->> 'valid_from'
                     ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:00:00[+-][0-9]{2}:[0-9]{2}$'
                THEN (e.facts ->> 'valid_from')::timestamptz = lower(p.valid) END,
       p.superseded_at IS NOT NULL
       OR upper(p.valid) IS NOT DISTINCT FROM lead(lower(p.valid)) OVER (
         PARTITION BY p.price_book_id, p.size, p.price_group, p.cluster_id, p.band,
           p.superseded_at IS NULL
         ORDER BY lower(p.valid)),
       (p.superseded_at IS NULL) <> EXISTS (
         SELECT FROM tenants_auditentry s
          WHERE (s.object_kind, s.object_id) = ('price', p.id::text)
            AND s.action IN ('billing:price:supersede', 'billing:price:withdraw'))
  FROM billing_price p JOIN billing_pricebook b ON b.id = p.price_book_id
  LEFT JOIN LATERAL (SELECT facts FROM tenants_auditentry
     WHERE (object_kind, object_id, action) = ('price', p.id::text, 'billing:price:set')
     ORDER BY id LIMIT 1) e ON true
 ORDER BY p.id
"""
_IS_SET: Final = """EXISTS (
  SELECT FROM billing_price p
   WHERE p.id = CASE WHEN e.object_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                     THEN e.object_id::uuid END)"""


def check_invoices(cursor: Cursor) -> CheckedBatch:
    """Recompute digests and totals of final invoices, and compare them with the audit trail."""
    rows = Invoice.objects.filter(state="final").order_by("id")
    if cursor:
        rows = rows.filter(id__gt=cursor["id"])
    rows = rows.select_related("period").prefetch_related("lines")
    page = list(
        rows.only(
            "series",
            "number",
            "total",
            "tax_total",
            "document",
            "issue_year",
            "content",
            "content_sha256",
            "drafted_by",
            "finalized_by",
            "period__label",
        )[:INVOICES_PER_BATCH]
    )
    if not page:
        return CheckedBatch(0)
    entries = AuditEntry.objects.filter(
        action__in=[DRAFTED, FINALIZED],
        object_kind="invoice",
        object_id__in=[str(row.pk) for row in page],
    )
    audited = {(entry.object_id, entry.action): entry for entry in entries.order_by("id")}
    found = [
        sentence
        for row in page
        for sentence in differences_of(
            f"The invoice {row.reference}", partial(_differences, row, audited=audited)
        )
    ]
    return CheckedBatch(len(page), tuple(found), {"id": str(page[-1].pk)})


def check_finalizations(cursor: Cursor) -> CheckedBatch:
    """Compare every finalization of the audit trail with its invoice: there, final, the same."""
    return check_frozen_by_entries(
        cursor,
        actions=[FINALIZED],
        is_kept=_IS_FINAL,
        sentence="The invoice {} was finalized by the audit trail, and is not, or is another.",
    )


def check_lines(cursor: Cursor) -> CheckedBatch:
    """Add up the charges of every final invoice by key, and compare them with its lines."""
    found: list[str] = []
    with connection.cursor() as database:
        database.execute(_CLOSED, {"after": cursor.get("id"), "most": LINED_PER_BATCH})
        page = database.fetchall()
        for invoice_id, organization_id, period_id, run, begin_at, series, number in page:
            database.execute(
                _LINES,
                {
                    "invoice": invoice_id,
                    "period": period_id,
                    "run": run,
                    "periods": [period_id],
                    "begin_at": begin_at,
                    "organizations": [organization_id],
                },
            )
            found += [
                f"Invoice {series} {number} has no line for {there} unit-seconds of its charges."
                if position is None
                else f"Line {position} of invoice {series} {number} has {there} unit-seconds of its"
                f" own charges, and not {kept}."
                for position, kept, there in database.fetchall()
            ]
    return CheckedBatch(len(page), tuple(found), {"id": str(page[-1][0])} if page else None)


def check_charges(cursor: Cursor) -> CheckedBatch:
    """Compare the charges of every sealed hour with its usage, and with the prices they pinned."""
    with connection.cursor() as database:
        database.execute(_PAGE, [cursor.get("id", 0), WINDOWS_PER_BATCH])
        page = database.fetchall()
        if not page:
            return CheckedBatch(0)
        database.execute(_CHARGES, {"windows": [window_id for (window_id,) in page]})
        rows = database.fetchall()
    found = tuple(f"The charges of window {window_id} are not {what}." for window_id, what in rows)
    return CheckedBatch(len(page), found, {"id": page[-1][0]})


def check_prices(cursor: Cursor) -> CheckedBatch:
    """Compare every price with the audit entry that set it, and every such entry with its price."""
    batch = check_frozen_by_entries(
        cursor,
        actions=["billing:price:set"],
        is_kept=_IS_SET,
        sentence="The price {} was set by the audit trail, and is missing.",
    )
    if not batch.is_last:
        return batch
    with connection.cursor() as database:
        database.execute(_PRICES)
        rows = database.fetchall()
    found = [
        sentence
        for price_id, text, is_same, is_next, is_kept in rows
        for sentence in range_differences(
            f"The price {price_id} of {text}", is_same=is_same, is_next=is_next, is_kept=is_kept
        )
    ]
    return CheckedBatch(len(rows), tuple(found))


def check_numbers(_: Cursor) -> CheckedBatch:
    """Compare every series with the numbers of its final invoices, which have no gap."""
    with connection.cursor() as database:
        database.execute(_NUMBERS)
        rows = database.fetchall()
    found = tuple(
        f"The series {code} is at {at}; its final invoices are {final}, the last has {last}."
        for code, at, last, taken, final in rows
        if at != last or taken != final
    )
    return CheckedBatch(len(rows), found)


def _differences(invoice: Invoice, *, audited: Mapping[tuple[str, str], AuditEntry]) -> list[str]:
    """Return the end of the sentence about an invoice, for each difference.

    Args:
        invoice: A final one.
        audited: Its last entries, by its id and their action.
    """
    drafted = audited.get((str(invoice.pk), DRAFTED))
    finalized = audited.get((str(invoice.pk), FINALIZED))
    facts: Mapping[str, Any] = {} if finalized is None else finalized.facts
    found = _text_differences(invoice)
    if invoice.content_sha256 != facts.get("content_sha256"):
        found.append("has another digest than the audit entry of its finalization")
    if invoice.reference != facts.get("reference"):
        found.append("has another number than the audit entry of its finalization")
    if drafted is None or invoice.drafted_by != drafted.actor_label:
        found.append("names another drafter than the audit entry of its draft")
    if finalized is None or invoice.finalized_by != finalized.actor_label:
        found.append("names another finalizer than the audit entry of its finalization")
    lines = list(invoice.lines.all())
    added = sum(line.amount for line in lines)
    printed = Decimal(invoice.document["total"]["amount"])
    if not printed == invoice.total == added:
        found.append(f"shows {printed}, has the total {invoice.total} and lines of another sum")
    if Decimal(invoice.document.get("payable", printed)) != invoice.payable:
        found.append(f"shows another amount payable than {invoice.payable}")
    if not _are_printed(lines, invoice.document["lines"]):
        found.append("has other lines than its document")
    return found


def _text_differences(invoice: Invoice) -> list[str]:
    found = []
    if invoice.issue_year and canonical_text(invoice.document) != invoice.content:
        found.append("has another text than its document")
    if digest_of(invoice.document) != invoice.content_sha256:
        found.append("has another document than was issued")
    return found


def _are_printed(lines: Sequence[InvoiceLine], printed: Sequence[Mapping[str, Any]]) -> bool:
    kept = [(x.position, x.size, x.unit_seconds, x.unit_price, x.amount) for x in lines]
    return kept == [
        (
            line["position"],
            line["size"],
            line["unit_seconds"],
            Decimal(line["unit_price"]),
            Decimal(line["amount"]),
        )
        for line in printed
    ]

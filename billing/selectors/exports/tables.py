"""The tables of a month's bundle as CSV, its documents, and what the ledger has of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from django.db import connection

from billing.domain.exports.blocks import join_blocks
from billing.domain.exports.bundle import (
    CHARGES,
    DOCUMENTS,
    JOURNAL,
    LINES,
    BundleFacts,
    DocumentFacts,
)
from billing.domain.period import Month
from billing.models import DocumentFile, Invoice
from billing.models.invoice import FileKind
from billing.selectors.exports.months import guarded, months, plain, stamp
from tenants.models import Organization

T = TypeVar("T")
DOCUMENTS_AT_ONCE: Final = 50
"""With their PDFs some 3 MiB of memory."""


def month_table(path: str, month: Month, organization_ids: Sequence[UUID]) -> Iterator[bytes]:
    """Yield a table of a month's bundle in blocks; the caller has a snapshot."""
    with (
        connection.cursor() as cursor,
        cursor.copy(
            f"COPY ({TABLES[path]}) TO STDOUT ({_AS[path.rpartition('.')[2]]})",
            _values(month, organization_ids),
        ) as copy,
    ):
        yield from join_blocks(copy)


def month_documents(month: Month, organization_ids: Sequence[UUID]) -> Sequence[tuple[UUID, str]]:
    """Return the ids and numbers of the documents in a month, by number."""
    statement = f"WITH {months(plain)} SELECT id, invoice FROM documents ORDER BY invoice"  # noqa: S608 - Constants.
    with connection.cursor() as cursor:
        cursor.execute(statement, _values(month, organization_ids))
        found: list[tuple[UUID, str]] = cursor.fetchall()
    return found


def document_texts(document_ids: Sequence[UUID]) -> Iterator[bytes]:
    """Yield the canonical text of documents, a line each, in this order."""
    for part in in_parts(document_ids):
        rows = Invoice.objects.filter(pk__in=part).order_by()
        texts = dict(rows.values_list("pk", "content"))
        yield from (f"{texts[key]}\n".encode() for key in part)


def stored_files(document_ids: Sequence[UUID], kind: FileKind) -> Mapping[UUID, bytes]:
    """Return the stored files of documents, of one kind."""
    rows = DocumentFile.objects.filter(document__in=document_ids, kind=kind)
    stored = rows.order_by().values_list("document_id", "content")
    return {document_id: bytes(content) for document_id, content in stored}


def in_parts(documents: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield documents, so many at once as may be in memory."""
    for first in range(0, len(documents), DOCUMENTS_AT_ONCE):
        yield documents[first : first + DOCUMENTS_AT_ONCE]


def slugs_of(organization_ids: Sequence[UUID]) -> list[str]:
    """Return the slugs of organizations, sorted."""
    rows = Organization.objects.filter(pk__in=organization_ids)
    return list(rows.order_by("slug").values_list("slug", flat=True))


def all_ids() -> list[UUID]:
    """Return the ids of all organizations."""
    return list(Organization.objects.values_list("pk", flat=True))


def ids_of(slugs: Sequence[str]) -> list[UUID]:
    """Return the ids of organizations with these slugs."""
    return list(Organization.objects.filter(slug__in=slugs).values_list("pk", flat=True))


def ledger_facts(month: Month, organization_ids: Sequence[UUID]) -> BundleFacts:
    """Return what the ledger has of a month; two statements in the caller's snapshot."""
    with connection.cursor() as cursor:
        cursor.execute(_DOCUMENT_FACTS, _values(month, organization_ids))
        documents = {invoice: DocumentFacts(*facts) for invoice, *facts in cursor.fetchall()}
        cursor.execute(_CHARGE_FACTS, _values(month, organization_ids))
        charges = {slug: (count, int(seconds)) for slug, count, seconds in cursor.fetchall()}
    return BundleFacts(documents, charges)


def _values(month: Month, organization_ids: Sequence[UUID]) -> dict[str, Any]:
    return {"label": month.label, "organizations": list(organization_ids)}


def _amounts(*names: str) -> str:
    """Return columns with an amount in its currency's digits, as printed."""
    return ", ".join(
        f"round({name}, (d.document ->> 'minor_digits')::int) AS {name.rpartition('.')[2]}"
        for name in names
    )


# Numbers and dates are written bare; text of tenants is guarded.
_DOCUMENTS: Final = f"""
WITH {months(guarded)}
SELECT x.invoice AS document, d.kind, d.run, coalesce(c.document ->> 'reference', '') AS corrects,
       o.slug AS organization, x.organization_name, {guarded("d.document -> 'customer' ->> 'name'")}
         AS customer, x.issuer, {guarded("d.purchase_order")} AS purchase_order, p.label AS period,
       x.issued_at, t.due_on, d.currency,
       {_amounts("d.total", "d.tax_total")},
       round(d.total + d.tax_total, (d.document ->> 'minor_digits')::int) AS payable,
       {_amounts("d.brought_forward", "d.carried_forward")},
       d.unit_seconds, d.content_sha256
  FROM documents x
  JOIN billing_invoice d ON d.id = x.id
  JOIN billing_billingperiod p ON p.id = d.period_id
  JOIN tenants_organization o ON o.id = d.organization_id
  LEFT JOIN billing_invoice c ON c.id = d.corrects_id
  LEFT JOIN billing_duedate t ON t.document_id = d.id
 ORDER BY x.invoice
"""  # noqa: S608 - Put together from constants only.
_LINES: Final = f"""
WITH {months(guarded)}
SELECT x.invoice AS document, o.slug AS organization, (l ->> 'position')::int AS position,
       coalesce(l ->> 'kind', 'usage') AS kind, l ->> 'project' AS project,
       {guarded("l ->> 'project_name'")} AS project_name,
       {guarded("l ->> 'cost_center'")} AS cost_center, l ->> 'size' AS size,
       {guarded("l ->> 'price_group'")} AS price_group,
       {guarded("l ->> 'description'")} AS description, l ->> 'service_month' AS service_month,
       (l ->> 'unit_seconds')::numeric AS unit_seconds, (l ->> 'unit_hours')::numeric AS unit_hours,
       (l ->> 'unit_price')::numeric AS unit_price, (l ->> 'amount')::numeric AS amount, x.currency
  FROM documents x
  JOIN billing_invoice d ON d.id = x.id
  JOIN tenants_organization o ON o.id = d.organization_id
 CROSS JOIN LATERAL jsonb_array_elements(d.document -> 'lines') l
 ORDER BY x.invoice, (l ->> 'position')::int
"""  # noqa: S608 - As above.
_POSTINGS: Final = f"""
WITH {months(guarded)}
SELECT e.id AS entry, e.event, x.invoice AS document, o.slug AS organization, e.document_on,
       e.posting_on, a.code AS account, a.number AS account_number, a.name AS account_name,
       CASE WHEN p.amount > 0 THEN round(p.amount, (d.document ->> 'minor_digits')::int) END
         AS debit,
       CASE WHEN p.amount < 0 THEN round(-p.amount, (d.document ->> 'minor_digits')::int) END
         AS credit, e.currency
  FROM documents x
  JOIN billing_invoice d ON d.id = x.id
  JOIN tenants_organization o ON o.id = d.organization_id
  JOIN billing_journalentry e ON e.source_key = 'document:' || x.id
  JOIN billing_posting p ON p.entry_id = e.id
  JOIN billing_ledgeraccount a ON a.code = p.account_id
 ORDER BY x.invoice, a.number
"""  # noqa: S608 - As above.
_CHARGES: Final = f"""
WITH {months(plain)}
SELECT json_build_object(
         'id', c.id, 'organization', o.slug, 'project', p.slug, 'cluster', k.slug,
         'owner', c.owner, 'window_start', {stamp("c.window_start")}, 'size', c.size,
         'price_group', c.price_group, 'unit_seconds', c.unit_seconds,
         'unit_price', c.unit_price::text,
         'list_unit_price', coalesce(c.base_unit_price, c.unit_price)::text,
         'currency', c.currency, 'correction', c.correction_id, 'repricing', c.repricing_id)
  FROM billing_charge c
  JOIN tenants_organization o ON o.id = c.organization_id
  JOIN tenants_project p ON p.id = c.project_id
  JOIN tenants_cluster k ON k.id = c.cluster_id
 WHERE c.period_id = ANY (ARRAY(SELECT period_id FROM asked))
 ORDER BY c.window_start, c.id
"""  # noqa: S608 - As above.
TABLES: Final = {DOCUMENTS: _DOCUMENTS, LINES: _LINES, JOURNAL: _POSTINGS, CHARGES: _CHARGES}
_AS: Final = {
    "csv": "FORMAT csv, HEADER",
    "jsonl": r"FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'",
}
"""JSON has neither of these characters, so that no line of it is quoted."""
# In the order of the fields of `DocumentFacts`.
_DOCUMENT_FACTS: Final = f"""
WITH {months(plain)}
SELECT x.invoice, x.currency, x.total, x.tax_total, x.total + x.tax_total AS payable,
       coalesce(l.amount, 0) AS lines, x.total + x.tax_total AS costs,
       coalesce(j.earned, 0) AS earned, d.content_sha256, coalesce(f.pdf, '') AS pdf_sha256,
       coalesce(f.cii, '') AS cii_sha256, coalesce(f.ubl, '') AS ubl_sha256
  FROM documents x
  JOIN billing_invoice d ON d.id = x.id
  LEFT JOIN (SELECT document_id, max(sha256) FILTER (WHERE kind = 'pdf') AS pdf,
                    max(sha256) FILTER (WHERE kind = 'cii') AS cii,
                    max(sha256) FILTER (WHERE kind = 'ubl') AS ubl
               FROM billing_documentfile WHERE document_id IN (SELECT id FROM documents)
              GROUP BY 1) f ON f.document_id = x.id
  LEFT JOIN (SELECT invoice_id, sum(amount) AS amount FROM billing_invoiceline
              WHERE invoice_id IN (SELECT id FROM documents) GROUP BY 1) l ON l.invoice_id = x.id
  LEFT JOIN (SELECT e.source_key, -sum(p.amount) AS earned
               FROM billing_journalentry e JOIN billing_posting p ON p.entry_id = e.id
              WHERE e.source_key IN (SELECT 'document:' || id FROM documents)
                AND p.account_id IN ('revenue', 'tax_payable') GROUP BY 1) j
    ON j.source_key = 'document:' || x.id
"""  # noqa: S608 - As above.
_CHARGE_FACTS: Final = f"""
WITH {months(plain)}
SELECT o.slug, count(*), sum(c.unit_seconds)
  FROM billing_charge c
  JOIN tenants_organization o ON o.id = c.organization_id
 WHERE c.period_id = ANY (ARRAY(SELECT period_id FROM asked))
 GROUP BY 1
"""  # noqa: S608 - As above.

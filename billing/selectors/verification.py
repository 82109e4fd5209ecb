"""Checks of what billing froze: final invoices, their lines and digests, and their numbers."""

from decimal import Decimal
from typing import Any, Final

from django.db import connection
from django.db.models import Sum

from billing.domain.document import digest_of
from billing.models import Invoice
from tenants.domain.verification import Batch, Cursor
from tenants.models import AuditEntry

INVOICES_PER_BATCH: Final = 100
"""A document has a line for each project, size and price."""

_NUMBERS: Final = """
SELECT coalesce(s.code, i.series), coalesce(s.next_number, 1) - 1, coalesce(i.last, 0),
       coalesce(i.final, 0)
  FROM billing_invoiceseries s
  FULL JOIN (SELECT series, max(number) AS last, count(*) AS final FROM billing_invoice
              WHERE state = 'final' GROUP BY series) i ON i.series = s.code
"""


def check_invoices(cursor: Cursor) -> Batch:
    """Recompute digests and totals of final invoices, and compare them with the audit trail."""
    rows = Invoice.objects.filter(state="final").order_by("id")
    if cursor:
        rows = rows.filter(id__gt=cursor["id"])
    page = list(
        rows.select_related("period").annotate(added=Sum("lines__amount"))[:INVOICES_PER_BATCH]
    )
    if not page:
        return Batch(0)
    entries = AuditEntry.objects.filter(
        action="billing:invoice:finalize",
        object_kind="invoice",
        object_id__in=[str(row.pk) for row in page],
    )
    audited = {entry.object_id: entry.facts for entry in entries}
    found = [
        f"The invoice {row.reference} {sentence}."
        for row in page
        for sentence in _differences(row, audited.get(str(row.pk), {}))
    ]
    return Batch(len(page), tuple(found), {"id": str(page[-1].pk)})


def check_numbers(_: Cursor) -> Batch:
    """Compare every series with the numbers of its final invoices, which have no gap."""
    with connection.cursor() as database:
        database.execute(_NUMBERS)
        rows = database.fetchall()
    found = tuple(
        f"The series {code} is at {at}; its final invoices are {final}, the last has {last}."
        for code, at, last, final in rows
        if not at == last == final
    )
    return Batch(len(rows), found)


def _differences(invoice: Invoice, audited: dict[str, Any]) -> list[str]:
    found = []
    if digest_of(invoice.document) != invoice.content_sha256:
        found.append("has another document than was issued")
    if invoice.content_sha256 != audited.get("content_sha256"):
        found.append("has another digest than the audit entry of its finalization")
    printed = Decimal(invoice.document["total"]["amount"])
    if not printed == invoice.total == (invoice.added or 0):  # type: ignore[attr-defined]
        found.append(f"shows {printed}, has the total {invoice.total} and lines of another sum")
    return found

"""The e-invoices of documents: frozen with them, or why there is none."""

from collections.abc import Iterator

from billing.domain.documents.errors import EInvoiceMissingError
from billing.domain.documents.invoicing import InvoiceState
from billing.domain.e_invoices.invoice import EInvoiceSyntax, problems_of
from billing.domain.period import Month
from billing.models import DocumentFile, Invoice

_KINDS = [syntax.value for syntax in EInvoiceSyntax]


def e_invoice(document: Invoice, syntax: EInvoiceSyntax) -> bytes:
    """Return the e-invoice of a final document.

    Raises:
        EInvoiceMissingError: It has none; the sentence says why.
    """
    stored = DocumentFile.objects.filter(document=document, kind=syntax.value).first()
    if stored is None:
        raise EInvoiceMissingError(_reason(document), facts={"document": document.reference})
    return bytes(stored.content)


def why_no_e_invoice(document: Invoice) -> str:
    """Return why a document has no e-invoice; "" where it has one."""
    stored = DocumentFile.objects.filter(document=document, kind__in=_KINDS)
    return "" if stored.exists() else _reason(document)


def e_invoices_of_month(month: Month) -> Iterator[tuple[str, str, bytes]]:
    """Yield number, syntax and XML of each e-invoice that was issued for a month."""
    rows = DocumentFile.objects.filter(document__period__label=month.label, kind__in=_KINDS)
    for row in (
        rows.select_related("document__period")
        .order_by("document_id", "kind")
        .iterator(chunk_size=50)
    ):
        yield row.document.reference, row.kind, bytes(row.content)


def _reason(document: Invoice) -> str:
    if document.state != InvoiceState.FINAL.value:
        return "A draft has no e-invoice."
    problems = problems_of(document.document)
    return " ".join(problems) or "E-invoices were off when the document became final."

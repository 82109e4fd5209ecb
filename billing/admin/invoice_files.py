"""The files of a document in the admin: PDF, e-invoice, usage annex, and its lines as CSV."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.http import HttpResponse

from billing.access import READ_CHARGE, access_payer
from billing.adapters.documents import render_csv
from billing.adapters.terms import render_document, render_usage_annex
from billing.domain.documents.document import file_name_of
from billing.domain.documents.invoicing import InvoiceState
from billing.domain.e_invoices.invoice import EInvoiceSyntax
from billing.models import Invoice
from billing.models.invoice import FileKind
from billing.selectors.documents.e_invoices import e_invoice, why_no_e_invoice
from billing.selectors.documents.line_charges import usage_annex
from billing.services.finalizing import file_of
from tenants.domain.actors import Actor
from tenants.templatetags.texts import english

Content = Callable[[Invoice, Actor, datetime], bytes]


def file_response(invoice: Invoice, name: str, *, actor: Actor, at: datetime) -> HttpResponse:
    """Return a file of a document; a PDF is shown, anything else downloaded.

    Args:
        invoice: That the actor may read.
        name: Of FILES.
        actor: The caller.
        at: When.

    Raises:
        EInvoiceMissingError: It has no e-invoice.
        UsageAnnexMissingError: It has no usage annex.
        IssuerLogoError: The logo cannot be printed.
        ForbiddenError: The annex names persons, whose use the actor may not read.
    """
    make, suffix, kind = FILES[name]
    content = make(invoice, actor, at)
    how = "inline" if suffix.endswith("pdf") else "attachment"
    return HttpResponse(
        content,
        content_type=kind,
        headers={
            "Content-Disposition": f'{how}; filename="{file_name_of(invoice.document)}{suffix}"',
            "Cache-Control": "private, no-store",
        },
    )


def file_context(invoice: Invoice) -> dict[str, Any]:
    """Return which files a page offers besides PDF and CSV, and why there is no e-invoice."""
    if invoice.state != InvoiceState.FINAL.value:
        return {}
    reason = why_no_e_invoice(invoice)
    return {
        "has_e_invoice": not reason,
        "why_no_e_invoice": english(reason),
        "has_annex": settings.USAGE_ANNEX and invoice.corrects_id is None,
    }


def _pdf(invoice: Invoice, _actor: Actor, at: datetime) -> bytes:
    return file_of(invoice, kind=FileKind.PDF, render=render_document, at=at)


def _csv(invoice: Invoice, _actor: Actor, _at: datetime) -> bytes:
    return render_csv(invoice.document)


def _annex(invoice: Invoice, actor: Actor, _at: datetime) -> bytes:
    access_payer(actor, invoice.organization_id, READ_CHARGE)
    return render_usage_annex(usage_annex(invoice, is_on=settings.USAGE_ANNEX))


def _e_invoice(syntax: EInvoiceSyntax) -> Content:
    return lambda invoice, _actor, _at: e_invoice(invoice, syntax)


FILES: Final[Mapping[str, tuple[Content, str, str]]] = {
    "pdf": (_pdf, ".pdf", "application/pdf"),
    "csv": (_csv, ".csv", "text/csv; charset=utf-8"),
    "annex": (_annex, ".annex.pdf", "application/pdf"),
    **{
        syntax.value: (_e_invoice(syntax), f".{syntax}.xml", "application/xml")
        for syntax in EInvoiceSyntax
    },
}
"""By name: content, what follows the document's number in the file's name, and media type."""

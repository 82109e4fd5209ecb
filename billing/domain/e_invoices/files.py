"""The e-invoice of a document as files, each of which is frozen with it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from billing.domain.e_invoices.cii import write_cii
from billing.domain.e_invoices.invoice import EInvoice, EInvoiceSyntax, e_invoice_of, problems_of
from billing.domain.e_invoices.ubl import write_ubl

_WRITERS: Final[Mapping[EInvoiceSyntax, Callable[[EInvoice], bytes]]] = {
    EInvoiceSyntax.CII: write_cii,
    EInvoiceSyntax.UBL: write_ubl,
}


def e_invoice_files(document: Mapping[str, Any]) -> dict[EInvoiceSyntax, bytes]:
    """Return the e-invoice of a final document in every syntax; {} where it cannot have one."""
    if problems_of(document):
        return {}
    made = e_invoice_of(document)
    return {syntax: write(made) for syntax, write in _WRITERS.items()}

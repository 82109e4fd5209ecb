"""What the site has settled about its invoices, from its settings."""

from django.conf import settings

from billing.domain.documents.carrying import CarryTerms
from billing.domain.documents.document import InvoiceTerms, Party


def invoice_terms() -> InvoiceTerms:
    """Return what the site has settled about its invoices."""
    return InvoiceTerms(
        issuer=Party(**settings.ISSUER),
        series=settings.INVOICE_SERIES,
        credit_series=settings.CREDIT_NOTE_SERIES,
        debit_series=settings.DEBIT_NOTE_SERIES,
        first_number=settings.INVOICE_FIRST_NUMBER,
        is_four_eyes=settings.FOUR_EYES,
        payment_days=settings.PAYMENT_DAYS,
        with_e_invoices=settings.E_INVOICES == "zugferd",
        carry=CarryTerms(months=settings.CARRY_MONTHS, below=settings.CARRY_BELOW),
    )

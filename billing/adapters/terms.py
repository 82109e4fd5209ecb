"""What the site has settled about its invoices, from its settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings

from billing.adapters.documents import drawing_problem, render_annex, render_pdf
from billing.domain.documents.carrying import CarryTerms
from billing.domain.documents.document import InvoiceTerms, Party, clean_text
from billing.domain.documents.errors import IssuerLogoError
from billing.domain.logo import logo_of


def invoice_terms() -> InvoiceTerms:
    """Return what the site has settled about its invoices."""
    return InvoiceTerms(
        issuer=Party(**settings.ISSUER),
        logo_problems=_logo_problems(),
        series=settings.INVOICE_SERIES,
        credit_series=settings.CREDIT_NOTE_SERIES,
        debit_series=settings.DEBIT_NOTE_SERIES,
        first_number=settings.INVOICE_FIRST_NUMBER,
        is_four_eyes=settings.FOUR_EYES,
        payment_days=settings.PAYMENT_DAYS,
        with_e_invoices=settings.E_INVOICES == "zugferd",
        carry=CarryTerms(months=settings.CARRY_MONTHS, below=settings.CARRY_BELOW),
    )


def render_document(document: Mapping[str, Any], e_invoice: bytes = b"") -> bytes:
    """Return a document as PDF, with the logo of its issuer.

    Raises:
        IssuerLogoError: The file of the logo cannot be read or drawn.
    """
    return render_pdf(document, e_invoice, logo=logo_on(document))


def render_usage_annex(document: Mapping[str, Any]) -> bytes:
    """Return a usage annex as PDF, with the logo of its issuer.

    Raises:
        IssuerLogoError: The file of the logo cannot be read or drawn.
    """
    return render_annex(document, logo=logo_on(document))


def logo_on(document: Mapping[str, Any]) -> str:
    """Return the logo that a document shows: that of the name it is issued in; "" without one.

    Raises:
        IssuerLogoError: Its file cannot be read or drawn.
    """
    found = _logo_files().get(document["issuer"]["name"])
    return "" if found is None else _read_logo(*found)


def _logo_files() -> dict[str, tuple[str, str]]:
    """Return variable and path of each logo, by the name of its issuer."""
    files = {
        clean_text(name): ("ISSUER_LOGOS", path) for name, path in settings.ISSUER_LOGOS.items()
    }
    if settings.ISSUER_LOGO:
        files[clean_text(settings.ISSUER["name"])] = ("ISSUER_LOGO", settings.ISSUER_LOGO)
    return files


def _read_logo(variable: str, path: str) -> str:
    try:
        logo = logo_of(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        # Who reads the invoice reads this: the folders of the server are not theirs to know.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise IssuerLogoError(f"{variable}: {Path(path).name} cannot be used. {reason}") from error
    if problem := drawing_problem(logo):
        raise IssuerLogoError(f"{variable}: {Path(path).name} cannot be drawn: {problem}.")
    return logo


def _logo_problems() -> dict[str, str]:
    problems = {}
    for name, (variable, path) in _logo_files().items():
        try:
            _read_logo(variable, path)
        except IssuerLogoError as error:
            problems[name] = error.message
    return problems

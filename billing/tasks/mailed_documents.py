"""The files that mails about a document carry."""

from uuid import UUID

from billing.adapters.terms import render_document
from billing.domain.documents.document import file_name_of
from billing.domain.documents.errors import IssuerLogoError
from billing.models.invoice import FileKind
from billing.selectors.documents.invoices import document_of
from billing.services.finalizing import file_of
from tenants.domain.errors import SourceUnavailableError
from tenants.protocols import MailAttachment
from tenants.selectors.clock import database_now


def mailed_document(document_id: UUID) -> tuple[MailAttachment, ...]:
    """Return the PDF of a final document, the same as on its page.

    Raises:
        SourceUnavailableError: There is no such document, or its logo cannot be printed yet.
    """
    document = document_of(document_id)
    if document is None:
        raise SourceUnavailableError("There is no such document.", reason="document_missing")
    try:
        content = file_of(document, kind=FileKind.PDF, render=render_document, at=database_now())
    except IssuerLogoError as error:
        raise SourceUnavailableError(error.message, reason=error.code) from error
    name = f"{file_name_of(document.document)}.pdf"
    return (MailAttachment(name, "application/pdf", content),)

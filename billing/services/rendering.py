"""Files of documents: those of a final document stay as they were rendered first."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from billing.domain.documents.invoicing import InvoiceState
from billing.models import DocumentFile, Invoice
from billing.models.invoice import FileKind


def file_of(
    document: Invoice,
    *,
    kind: FileKind,
    render: Callable[[Mapping[str, Any]], bytes],
    at: datetime,
) -> bytes:
    """Return a file of a document: of a final one always the bytes that were rendered first.

    So a new font, template or library changes nothing that was issued. Two callers at once get the
    bytes of one of them.

    Args:
        document: A draft, which is rendered anew each time, or a final document.
        kind: Which file.
        render: Makes it from the document's text.
        at: When.
    """
    if document.state != InvoiceState.FINAL.value:
        return render(document.document)
    files = DocumentFile.objects.filter(document=document, kind=kind)
    stored = files.first()
    if stored is None:
        content = render(document.document)
        digest = hashlib.sha256(content).hexdigest()
        made = DocumentFile(
            document=document, kind=kind, content=content, sha256=digest, rendered_at=at
        )
        DocumentFile.objects.bulk_create([made], ignore_conflicts=True)
        stored = files.get()
    return bytes(stored.content)

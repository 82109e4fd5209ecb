"""The invoice as a PDF/A: the same document gives the same bytes, on every machine.

Typst is set up to see nothing but the template and the document: no system fonts, no packages, no
network, no clock. Text from tenants reaches it as JSON and is never read as markup.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import typst

from billing.domain.document import digest_of

TEMPLATE: Final = Path(__file__).resolve().parent.parent / "documents" / "invoice.typ"
PDF_STANDARD: Final = "a-3b"
UNDISPLAYABLE: Final = "could not be displayed"
"""How Typst says that no font has a character."""


def render_pdf(document: Mapping[str, Any]) -> bytes:
    """Return a document of `billing.domain.document` as an A4 PDF/A-3b.

    Drafts carry a mark. The only date in the file is the document's own. A name in a script that
    the fonts lack (they have Latin, Greek and Cyrillic) makes it a plain PDF, which PDF/A forbids
    to be archived but which can be read: an invoice is never held back for a glyph.
    """
    try:
        return _compile(document, standards=[PDF_STANDARD])
    except typst.TypstError as error:
        if UNDISPLAYABLE not in error.message:
            raise
        return _compile(document, standards=[])


def _compile(document: Mapping[str, Any], *, standards: list[Any]) -> bytes:
    at = datetime.fromisoformat(document["issued_at"] or document["drafted_at"])
    rendered = typst.compile(
        TEMPLATE,
        root=TEMPLATE.parent,
        font_paths=_fonts(),
        ignore_system_fonts=True,
        format="pdf",
        sys_inputs={
            "document": json.dumps(document, sort_keys=True),
            "digest": digest_of(document),
        },
        pdf_standards=standards,
        timestamp=at.astimezone(UTC),
    )
    if not isinstance(rendered, bytes):
        raise TypeError("Typst gave something else than one file.")
    return rendered


@cache
def _fonts() -> typst.Fonts:
    """Return the fonts inside the wheel, and no others."""
    return typst.Fonts(include_system_fonts=False, include_embedded_fonts=True)

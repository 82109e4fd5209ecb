"""The invoice as PDF/A and as CSV: the same document gives the same bytes, on every machine.

Typst is set up to see nothing but the template and the document: no system fonts, no packages, no
network, no clock. Text from tenants reaches it as JSON and is never read as markup.

The CSV is RFC 4180 in UTF-8, one record a line. Numbers are written bare and exact; text is quoted,
and text that a spreadsheet would take for a formula begins with an apostrophe. Source: OWASP ASVS
5.0, 1.2.10.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import structlog
import typst

from billing.adapters.e_invoices import ATTACHED_AS, check_schema, mark_as_factur_x
from billing.domain.documents.document import digest_of

logger = structlog.get_logger(__name__)

TEMPLATE: Final = Path(__file__).resolve().parent.parent / "documents" / "invoice.typ"
PDF_STANDARD: Final = "a-3b"
FONT_PACKAGES: Final = (
    "noto_cjk_sans_jp_regular",
    "justmytype_intl_rtl",
    "justmytype_intl_sea",
    "fontpkg_noto_sans_devanagari",
    "fontpkg_noto_sans_tamil",
)
"""Their families are named in the template, after those for Latin, Greek and Cyrillic."""
UNDISPLAYABLE: Final = "could not be displayed"
"""How Typst says that no font has a character."""


def render_pdf(document: Mapping[str, Any], e_invoice: bytes = b"") -> bytes:
    """Return a document of `billing.domain.documents.document` as an A4 PDF/A-3b.

    An e-invoice in CII is attached as Factur-X and ZUGFeRD want it, unless it breaks its schema.

    Drafts carry a mark. The only date in the file is the document's own. A name in a script that
    the fonts lack makes it a plain PDF, which PDF/A forbids to be archived but which can be read:
    an invoice is never held back for a glyph.
    """
    attached = _attachable(document, e_invoice)
    try:
        rendered = _compile(document, attached, standards=[PDF_STANDARD])
        return mark_as_factur_x(rendered) if attached else rendered
    except typst.TypstError as error:
        if UNDISPLAYABLE not in error.message:
            raise
        return _compile(document, attached, standards=[])


def _attachable(document: Mapping[str, Any], e_invoice: bytes) -> str:
    """Return an e-invoice that keeps to its schema; "" without one."""
    if not e_invoice:
        return ""
    if broken := check_schema(e_invoice):
        findings = [str(one) for one in broken]
        logger.error("billing.e_invoice.invalid", document=document["reference"], findings=findings)
        return ""
    return e_invoice.decode()


def _compile(document: Mapping[str, Any], attached: str, *, standards: list[Any]) -> bytes:
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
            **({"e-invoice": attached, "e-invoice-name": ATTACHED_AS} if attached else {}),
        },
        pdf_standards=standards,
        timestamp=at.astimezone(UTC),
    )
    if not isinstance(rendered, bytes):
        raise TypeError("Typst gave something else than one file.")
    return rendered


@cache
def _fonts() -> typst.Fonts:
    """Return the fonts inside the wheels of Typst and of FONT_PACKAGES, and no others."""
    return typst.Fonts(
        include_system_fonts=False,
        include_embedded_fonts=True,
        font_paths=[Path(str(files(package))) for package in FONT_PACKAGES],
    )


FORMULA_STARTS: Final = frozenset("=+-@\t\r\n\0＝＋－＠")  # noqa: RUF001 - Full-width forms are meant.
_LINE_END: Final = "\r\n"
_TEXT_OF_INVOICE: Final = ("invoice", "state", "issued_at", "customer", "period", "currency")
_TEXT_OF_LINE: Final = (
    "project",
    "project_name",
    "cost_center",
    "size",
    "price_group",
    "description",
    "service_month",
)
_NUMBERS_OF_LINE: Final = ("position", "unit_seconds", "unit_hours", "unit_price", "amount")
_BILLED_BEFORE: Final = ("billed_unit_seconds", "billed_amount")
"""Of the same month and price, by earlier invoices: both quantities are rounded together."""
NOTE_COLUMNS: Final = ("notes_amount", "notes_left_amount")
"""Further columns where credit or debit notes changed what earlier documents billed of a line."""
COLUMNS: Final = (*_TEXT_OF_INVOICE, *_TEXT_OF_LINE, *_NUMBERS_OF_LINE, *_BILLED_BEFORE)
TAX_COLUMNS: Final = ("tax_category", "tax_rate", "invoice_total", "tax_total", "payable")
"""Further columns of documents with taxes; the last three are of the whole document."""
CARRIED_COLUMNS: Final = ("brought_forward", "carried_forward", "amount_due")
"""Further columns of documents with a carried balance; each is of the whole document."""
ORDER_COLUMNS: Final = ("purchase_order", "buyer_reference")
"""Further columns of documents that show either."""


def render_csv(document: Mapping[str, Any]) -> bytes:
    """Return the lines of a document of `billing.domain.documents.document`, with a header."""
    own = {
        "invoice": document["reference"],
        "state": document["state"],
        "issued_at": document["issued_at"] or "",
        "customer": document["customer"]["name"],
        "period": document["period"]["label"],
        "currency": document["currency"],
    }
    parts = (
        (TAX_COLUMNS, _taxes(document)),
        (CARRIED_COLUMNS, _carried(document)),
        (ORDER_COLUMNS, _order(document)),
    )
    noted = NOTE_COLUMNS if any(NOTE_COLUMNS[0] in line for line in document["lines"]) else ()
    columns = (*COLUMNS, *noted, *(name for names, values in parts if values for name in names))
    further = [value for _, values in parts for value in values]
    records = [
        [_text(column) for column in columns],
        *([*_record(own, line, noted), *further] for line in document["lines"]),
    ]
    return "".join(",".join(record) + _LINE_END for record in records).encode()


def render_table(
    columns: Sequence[str], rows: Iterable[Mapping[str, str]], *, numbers: Collection[str]
) -> bytes:
    """Return rows as CSV in the same manner, with a header; what a row lacks is empty.

    Args:
        columns: Their names, in order.
        rows: Texts by column.
        numbers: The columns that are written bare.
    """
    records = [
        [row.get(name, "") if name in numbers else _text(row.get(name, "")) for name in columns]
        for row in rows
    ]
    header = [_text(name) for name in columns]
    return "".join(",".join(record) + _LINE_END for record in [header, *records]).encode()


def _record(own: Mapping[str, str], line: Mapping[str, Any], noted: Sequence[str]) -> list[str]:
    # Documents from before lines had a month contain only lines of their own month.
    values = {"service_month": own["period"], **line}
    return (
        [_text(own[column]) for column in _TEXT_OF_INVOICE]
        + [_text(values[column]) for column in _TEXT_OF_LINE]
        + [str(line[column]) for column in _NUMBERS_OF_LINE]
        + [str(line.get(column, 0)) for column in (*_BILLED_BEFORE, *noted)]
    )


def _taxes(document: Mapping[str, Any]) -> list[str]:
    for tax in document.get("taxes", ()):
        whole = (document["total"]["amount"], document["tax_total"], document["payable"])
        return [_text(tax["category"]), tax["rate"], *whole]
    return []


def _carried(document: Mapping[str, Any]) -> list[str]:
    carried = document.get("carried")
    return [carried[name] for name in CARRIED_COLUMNS] if carried else []


def _order(document: Mapping[str, Any]) -> list[str]:
    values = (document.get("purchase_order", ""), document["customer"].get("buyer_reference", ""))
    return [_text(value) for value in values] if any(values) else []


def _text(value: str) -> str:
    looked_at = value.lstrip(" ")
    guarded = f"'{value}" if looked_at[:1] in FORMULA_STARTS and looked_at else value
    return '"' + guarded.replace('"', '""') + '"'

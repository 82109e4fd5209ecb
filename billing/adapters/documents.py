"""The invoice as PDF/A and as CSV: the same document gives the same bytes, on every machine.

Typst is set up to see nothing but the template and the document: no system fonts, no packages, no
network, no clock. Text from tenants reaches it as JSON and is never read as markup.

The CSV is RFC 4180 in UTF-8, one record a line. Numbers are written bare and exact; text is quoted,
and text that a spreadsheet would take for a formula begins with an apostrophe. Source: OWASP ASVS
5.0, 1.2.10.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from unicodedata import category

import structlog
import typst

from billing.adapters.e_invoices import ATTACHED_AS, check_schema, mark_as_factur_x
from billing.domain.documents.document import as_printed, digest_of

logger = structlog.get_logger(__name__)

TEMPLATES: Final = Path(__file__).resolve().parent.parent / "documents"
PDF_STANDARD: Final = "a-3b"
FONT_PACKAGES: Final = (
    "noto_cjk_sans_jp_regular",
    "justmytype_intl_rtl",
    "justmytype_intl_sea",
    "fontpkg_noto_sans_devanagari",
    "fontpkg_noto_sans_tamil",
)
"""Their families are named in the template, after those for Latin, Greek and Cyrillic."""
UNDISPLAYABLE: Final = re.compile(r'the text `"(.+?)"` could not be displayed')
"""How Typst says that no font has a character."""
REPLACEMENT: Final = "\ufffd"
REPLACED_MAX: Final = 16
"""Different characters that are replaced; each takes another rendering."""


def render_pdf(document: Mapping[str, Any], e_invoice: bytes = b"", *, logo: str = "") -> bytes:
    """Return a document of `billing.domain.documents.document` as an A4 PDF/A-3b.

    An e-invoice in CII is attached as Factur-X and ZUGFeRD want it, unless it breaks its schema.

    Drafts carry a mark. The only date in the file is the document's own. Characters that the fonts
    lack are replaced. With too many of them it is a plain PDF, which is read but not archived: an
    invoice is never held back for a glyph.

    Args:
        document: Final, or a draft.
        e_invoice: Its e-invoice; b"" without one.
        logo: Of `billing.adapters.logos`.
    """
    attached = _attachable(document, e_invoice)
    further = {"digest": digest_of(document)}
    if attached:
        further |= {"e-invoice": attached, "e-invoice-name": ATTACHED_AS}
    at = document["issued_at"] or document["drafted_at"]
    printed = as_printed(document)
    rendered, is_archived = _render("invoice.typ", printed, further, logo=logo, at=at)
    return mark_as_factur_x(rendered) if attached and is_archived else rendered


def render_statement(document: Mapping[str, Any], *, logo: str = "") -> bytes:
    """Return a document of `billing.domain.ledger.statement` as PDF."""
    return _render("statement.typ", document, {}, logo=logo, at=document["made_at"])[0]


def render_annex(document: Mapping[str, Any], *, logo: str = "") -> bytes:
    """Return a document of `billing.domain.documents.annex` as PDF."""
    return _render("annex.typ", document, {}, logo=logo, at=document["issued_at"])[0]


@lru_cache(maxsize=32)
def drawing_problem(logo: str) -> str:
    """Return why Typst cannot draw a logo; "" where it can."""
    try:
        typst.compile(
            b'#image(bytes(sys.inputs.logo), format: "svg", width: 10mm)',
            ignore_system_fonts=True,
            sys_inputs={"logo": logo},
        )
    except typst.TypstError as error:
        return str(error.message)
    return ""


def _attachable(document: Mapping[str, Any], e_invoice: bytes) -> str:
    """Return an e-invoice that keeps to its schema; "" without one."""
    if not e_invoice:
        return ""
    if broken := check_schema(e_invoice):
        findings = [str(one) for one in broken]
        logger.error("billing.e_invoice.invalid", document=document["reference"], findings=findings)
        return ""
    return e_invoice.decode()


def _render(
    template: str,
    document: Mapping[str, Any],
    further: Mapping[str, str],
    *,
    logo: str,
    at: str,
) -> tuple[bytes, bool]:
    """Return a PDF, and whether it is PDF/A."""
    inputs = {
        "document": json.dumps(document, sort_keys=True, ensure_ascii=False),
        **further,
        **({"logo": logo} if logo else {}),
    }
    for _ in range(REPLACED_MAX):
        try:
            return _compile(template, inputs, at=at, standards=[PDF_STANDARD]), True
        except typst.TypstError as error:
            lacking = UNDISPLAYABLE.search(error.message)
            if lacking is None:
                raise
            inputs["document"] = _replace(lacking[1], inputs["document"])
    return _compile(template, inputs, at=at, standards=[]), False


def _replace(lacking: str, text: str) -> str:
    """Return a text without a character that no font has, and without the marks upon it."""
    first, *others = text.split(lacking)
    begins = (
        next((at for at, one in enumerate(part) if not category(one).startswith("M")), len(part))
        for part in others
    )
    return first + "".join(
        REPLACEMENT + part[begin:] for part, begin in zip(others, begins, strict=True)
    )


def _compile(template: str, inputs: dict[str, str], *, at: str, standards: list[Any]) -> bytes:
    rendered = typst.compile(
        TEMPLATES / template,
        root=TEMPLATES,
        font_paths=_fonts(),
        ignore_system_fonts=True,
        format="pdf",
        sys_inputs=inputs,
        pdf_standards=standards,
        timestamp=datetime.fromisoformat(at).astimezone(UTC),
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

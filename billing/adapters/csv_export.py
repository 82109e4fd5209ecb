"""The invoice as CSV: one record a line, RFC 4180, UTF-8, the same bytes for the same document.

Numbers are written bare and exact; text is quoted, and text that a spreadsheet would take for a
formula begins with an apostrophe. Source: OWASP ASVS 5.0, 1.2.10.
"""

from collections.abc import Mapping
from typing import Any, Final

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
COLUMNS: Final = (*_TEXT_OF_INVOICE, *_TEXT_OF_LINE, *_NUMBERS_OF_LINE)


def render_csv(document: Mapping[str, Any]) -> bytes:
    """Return the lines of a document of `billing.domain.document`, with a header."""
    own = {
        "invoice": document["reference"],
        "state": document["state"],
        "issued_at": document["issued_at"] or "",
        "customer": document["customer"]["name"],
        "period": document["period"]["label"],
        "currency": document["currency"],
    }
    header = [_text(column) for column in COLUMNS]
    records = [header, *(_record(own, line) for line in document["lines"])]
    return "".join(",".join(record) + _LINE_END for record in records).encode()


def _record(own: Mapping[str, str], line: Mapping[str, Any]) -> list[str]:
    # Documents from before lines had a month contain only lines of their own month.
    values = {"service_month": own["period"], **line}
    return (
        [_text(own[column]) for column in _TEXT_OF_INVOICE]
        + [_text(values[column]) for column in _TEXT_OF_LINE]
        + [str(line[column]) for column in _NUMBERS_OF_LINE]
    )


def _text(value: str) -> str:
    looked_at = value.lstrip(" ")
    guarded = f"'{value}" if looked_at[:1] in FORMULA_STARTS and looked_at else value
    return '"' + guarded.replace('"', '""') + '"'

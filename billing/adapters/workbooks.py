"""Tables as XLSX workbooks: texts stay texts, numbers are numbers, rows stream to disk.

No text is taken for a formula, a link or a number, whatever it begins with. A spreadsheet keeps 15
digits of a number, so that a longer one is written as text. The same tables and time give the same
bytes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from itertools import count
from typing import IO, Any, Final

from xlsxwriter import Workbook

CONTENT_TYPE: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ROWS_MAX: Final = 1_048_575
"""Of one sheet, below its header; further rows are on sheets of their own."""
DIGITS_MAX: Final = 15
TEXT_MAX: Final = 32_767
SHEET_NAME_MAX: Final = 31
WIDTH_MIN, WIDTH_MAX = 10, 40
"""In characters; a column is as wide as its name, within these."""


@dataclass(frozen=True)
class Sheet:
    """One table.

    Attributes:
        name: At most 31 characters: letters, digits, spaces and dashes.
        columns: Their names, in order.
        rows: Texts by column; what a row lacks is empty. They are read once.
        numbers: The columns of numbers.
    """

    name: str
    columns: Sequence[str]
    rows: Iterable[Mapping[str, str]]
    numbers: Collection[str] = ()


def write_workbook(target: IO[bytes], sheets: Iterable[Sheet], *, at: datetime) -> None:
    """Write sheets into a file; one row at a time is in memory.

    Args:
        target: Open for writing.
        sheets: At least one.
        at: When it was created, as its properties say.
    """
    book = Workbook(target, {"constant_memory": True})
    book.set_properties({"created": at.astimezone(UTC).replace(tzinfo=None)})
    header = book.add_format({"bold": True, "bottom": 1})
    for sheet in sheets:
        _write_sheet(book, sheet, header=header)
    book.close()


def render_workbook(*sheets: Sheet, at: datetime) -> bytes:
    """Return sheets as a workbook; arguments as `write_workbook`."""
    target = BytesIO()
    write_workbook(target, sheets, at=at)
    return target.getvalue()


def _write_sheet(book: Any, sheet: Sheet, *, header: Any) -> None:  # noqa: ANN401 - Untyped library.
    rows = iter(sheet.rows)
    row: Mapping[str, str] | None = next(rows, None)
    for part in count(1):
        page = book.add_worksheet(_part_name(sheet.name, part))
        page.freeze_panes(1, 0)
        for column, name in enumerate(sheet.columns):
            page.set_column(column, column, min(max(len(name) + 2, WIDTH_MIN), WIDTH_MAX))
            page.write_string(0, column, name, header)
        for line in range(1, ROWS_MAX + 1):
            if row is None:
                return
            _write_row(page, line, row, sheet=sheet)
            row = next(rows, None)
        if row is None:
            return


def _part_name(name: str, part: int) -> str:
    suffix = "" if part == 1 else f" ({part})"
    return name[: SHEET_NAME_MAX - len(suffix)] + suffix


def _write_row(page: Any, line: int, row: Mapping[str, str], *, sheet: Sheet) -> None:  # noqa: ANN401 - As above.
    for column, name in enumerate(sheet.columns):
        text = row.get(name, "")
        if not text:
            continue
        if name in sheet.numbers and _has_few_digits(text):
            page.write_number(line, column, Decimal(text))
        else:
            page.write_string(line, column, text[:TEXT_MAX])


def _has_few_digits(number: str) -> bool:
    if len(number) <= DIGITS_MAX:
        return True
    return sum(character.isdigit() for character in number.lstrip("-0.")) <= DIGITS_MAX

"""Workbooks: what is written reads back, no text is a formula, long tables go on."""

from datetime import UTC, datetime
from io import BytesIO
from typing import Final
from zipfile import ZipFile

import pytest

from billing.adapters import workbooks
from billing.adapters.workbooks import Sheet, render_workbook
from tests.support.workbooks import cells

AT: Final = datetime(2026, 11, 2, 8, tzinfo=UTC)
COLUMNS: Final = ("name", "amount")


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+cmd|' /C calc'!A0",
        "@SUM(A1)",
        "{=A1}",
        "https://example.com",
        "007",
        "مختبر",
        "🐙",
    ],
)
def test_text_stays_text_whatever_it_begins_with(text: str) -> None:
    content = render_workbook(Sheet("Costs", COLUMNS, [{"name": text}], {"amount"}), at=AT)

    assert cells(content) == [("inlineStr", text)]


def test_numbers_are_numbers_unless_a_spreadsheet_would_round_them() -> None:
    amounts = ("-1234567890123.45", "0.0000000001", "1234567890123456", "")
    rows = [{"amount": amount} for amount in amounts]

    content = render_workbook(Sheet("Costs", COLUMNS, rows, {"amount"}), at=AT)

    assert cells(content) == [
        ("", "-1234567890123.45"),
        ("", "1E-10"),
        ("inlineStr", "1234567890123456"),
    ]


def test_a_long_table_goes_on_in_a_second_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbooks, "ROWS_MAX", 2)
    rows = [{"name": str(n)} for n in range(3)]

    content = render_workbook(Sheet("Costs", COLUMNS, rows), Sheet("Empty", COLUMNS, ()), at=AT)

    assert [text for _, text in cells(content, sheet=2)] == ["2"]
    assert cells(content, sheet=3) == []
    with ZipFile(BytesIO(content)) as book:
        assert b'name="Costs (2)"' in book.read("xl/workbook.xml")


def test_the_same_rows_give_the_same_bytes() -> None:
    first, second = (
        render_workbook(Sheet("Costs", COLUMNS, [{"name": "a\x07b"}]), at=AT) for _ in range(2)
    )

    assert first == second

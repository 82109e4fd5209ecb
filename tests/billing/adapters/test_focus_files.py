"""FOCUS files: what Parquet keeps of the CSV that it is made of."""

from pathlib import Path

from billing.adapters.focus_files import read_focus, to_parquet
from billing.domain.exports.focus import ColumnType, FocusColumn

COLUMNS = (
    FocusColumn("SubAccountName", ColumnType.STRING, sql="", text=""),
    FocusColumn("BilledCost", ColumnType.DECIMAL, sql="", text=""),
)


def test_texts_of_any_kind_and_every_digit_survive_parquet(tmp_path: Path) -> None:
    rows = [
        b'"two\nlines, ""quoted""\r\n",0.12345678901234567890\n',
        "🧪 مرحبا,\n".encode(),
        b'"",-1\n',
    ]
    path = tmp_path / "costs.parquet"

    blocks = to_parquet(iter([b"SubAccountName,BilledCost\n", *rows]), COLUMNS)
    path.write_bytes(b"".join(blocks))

    _, found = read_focus(path)
    assert [tuple(row.values()) for row in found] == [
        ('two\nlines, "quoted"\r\n', "0.12345678901234567890"),
        ("🧪 مرحبا", None),
        ("", "-1.00000000000000000000"),
    ]

"""FOCUS files: what Parquet keeps of the CSV that it is made of."""

import subprocess
import sys
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


def test_a_worker_that_writes_no_parquet_does_not_load_arrow() -> None:
    script = (
        "import django, sys; django.setup(); from config.celery import app;"
        " app.loader.import_default_modules();"
        " print('config.tick_archives' in app.tasks, 'pyarrow' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == ["True", "False"]

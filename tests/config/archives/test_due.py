"""Months that are kept for long enough are archived and listed, and stay in the database."""

from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from config.management.archive_writing import due_months
from metering.models import UsageRecord
from tenants.domain.archives import MONTHS_KEPT_MAX, ArchiveMonth
from tests.support.config.archives import LABEL, finish_month

pytestmark = pytest.mark.usefixtures("world")


def run(root: Path, *keep: str) -> list[str]:
    """Archive what is due, and return the lines that were printed."""
    printed = StringIO()
    options = [part for one in keep for part in ("--keep", one)]
    call_command("archive_due", "--to", str(root), *options, stdout=printed)
    return printed.getvalue().splitlines()


@pytest.mark.parametrize(
    ("at", "kept", "labels"),
    [
        (datetime(2026, 11, 30, tzinfo=UTC), 1, []),
        (datetime(2026, 12, 1, tzinfo=UTC), 1, [LABEL]),
        (datetime(2027, 10, 31, tzinfo=UTC), 12, []),
        (datetime(2027, 11, 1, tzinfo=UTC), 12, [LABEL]),
    ],
)
def test_a_month_is_due_once_so_many_whole_months_followed_it(
    at: datetime, kept: int, labels: list[str]
) -> None:
    assert due_months("usage", kept_months=kept, at=at) == [
        ArchiveMonth.parse(label) for label in labels
    ]


def test_due_months_are_archived_once_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = datetime(2028, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("config.management.commands.archive_due.database_now", lambda: late)
    before = UsageRecord.objects.count()

    assert "not finished" in run(tmp_path, "usage=1")[0]
    assert list(tmp_path.iterdir()) == []
    finish_month()
    lines = run(tmp_path, "usage=1", "charges=1", "devices=1")

    assert [line.partition(":")[0] for line in lines] == [f"usage {LABEL}", f"charges {LABEL}"]
    assert f"manage.py detach_month {LABEL} --table usage --from {tmp_path}" in lines[0]
    assert lines[1].endswith("it stays in the database")
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert run(tmp_path, "usage=1", "charges=1") == lines
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == written
    assert run(tmp_path, f"usage={MONTHS_KEPT_MAX}") == []
    assert UsageRecord.objects.count() == before

    (tmp_path / f"usage-{LABEL}" / "usage.parquet").unlink()
    with pytest.raises(CommandError, match=r"usage\.parquet is missing"):
        run(tmp_path, "usage=1", "charges=1")


@pytest.mark.parametrize("keep", ["usage", "usage=0", "usage=x", "invoices=1", "usage=1201"])
def test_a_table_and_a_number_are_asked_for(keep: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is not TABLE=MONTHS, such as usage=24"):
        run(tmp_path, keep)

"""A month of usage: archived, detached, verified and restored by the commands."""

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pyarrow.parquet
import pytest
from django.db import connection

from embedded.postgres import OWNER, EmbeddedPostgres
from metering.models import UsageRecord
from metering.services.collection.windows import ensure_each_month
from tenants.domain.archives import ArchivedTable, MonthArchivedError
from tenants.models import ArchivedMonth, AuditEntry
from tenants.selectors.archives import require_rows
from tests.support.builders import MONTH_START
from tests.support.config.archives import (
    LABEL,
    archive,
    finish_month,
    move,
    refusal,
    signed_in,
    usage_rows,
)
from tests.support.config.planted import refuses, verify

pytestmark = pytest.mark.usefixtures("world", "finished")


@pytest.fixture
def finished(world: None) -> None:  # noqa: ARG001 - Its month is finished.
    """Finish the month of the world."""
    finish_month()


@pytest.fixture
def owner_url(postgres: EmbeddedPostgres, committed_db: str) -> str:
    return postgres.url(role=OWNER, database=committed_db)


@pytest.fixture
def folder(tmp_path: Path, finished: None) -> Path:  # noqa: ARG001 - A finished month.
    """Return the archive of the month."""
    archive(tmp_path)
    return tmp_path / f"usage-{LABEL}"


def test_an_archive_has_every_row_and_is_written_whole(tmp_path: Path) -> None:
    before = usage_rows()
    (tmp_path / f"usage-{LABEL}.partial").mkdir()
    (tmp_path / f"usage-{LABEL}.partial" / "usage.parquet").write_bytes(b"broken off")

    printed = archive(tmp_path)

    folder = tmp_path / f"usage-{LABEL}"
    assert "3 rows, unit_seconds 9000; read back" in printed
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        "usage.parquet",
        "windows.csv",
    ]
    table = pyarrow.parquet.read_table(folder / "usage.parquet")
    assert str(table.schema.field("window_start").type) == "timestamp[us, tz=UTC]"
    assert str(table.schema.field("busy_ratio").type) == "decimal128(7, 6)"
    rows = sorted(table.to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["pod_uid"], row["window_start"]) for row in rows] == [
        (row["id"], row["pod_uid"], row["window_start"]) for row in before
    ]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["rows"], manifest["sums"], manifest["windows"]) == (
        3,
        {"unit_seconds": "9000"},
        2,
    )
    entries = AuditEntry.objects.exclude(object_kind="archive")
    assert manifest["audit"]["entry"] == entries.latest("pk").pk
    assert usage_rows() == before
    assert "exists" in refusal("archive_month", tmp_path)


@pytest.mark.usefixtures("finished", "folder")
def test_a_month_is_detached_verified_and_restored(tmp_path: Path, owner_url: str) -> None:
    before = usage_rows()
    assert verify() == ""

    with signed_in(owner_url):
        assert "3 rows are in" in move("detach_month", tmp_path)

    assert not UsageRecord.objects.exists()
    assert verify() == ""
    assert verify("--archive", str(tmp_path)) == ""
    with pytest.raises(MonthArchivedError) as refused:
        require_rows(ArchivedTable.USAGE, begin_at=MONTH_START, end_at=None)
    # Tenants read it, and the archive is a folder of the server.
    assert str(tmp_path) not in f"{refused.value.facts} {refused.value.advice}"
    refuses(f"SELECT metering_ensure_partitions('{MONTH_START}', 1)", "is archived")
    assert ensure_each_month([MONTH_START]) == frozenset()
    assert "is archived" in refusal("archive_month", tmp_path)

    with signed_in(owner_url):
        assert "3 rows are in the database again" in move(
            "restore_month", tmp_path, reason="A dispute."
        )

    assert usage_rows() == before
    assert verify() == ""
    assert verify("--archive", str(tmp_path)) == ""
    facts = {
        entry.action: (entry.actor_label, entry.facts["reason"])
        for entry in AuditEntry.objects.filter(object_kind="archived_month")
    }
    assert facts == {
        "tenants:month:detach": ("frank", "Kept one year."),
        "tenants:month:restore": ("frank", "A dispute."),
    }
    require_rows(ArchivedTable.USAGE, begin_at=MONTH_START, end_at=None)
    refuses("DELETE FROM metering_usagerecord", "window is sealed")
    with signed_in(owner_url):
        move("detach_month", tmp_path)
    assert verify("--archive", str(tmp_path)) == ""


def alter(path: Path) -> None:
    """Replace a byte near the end."""
    content = path.read_bytes()
    path.write_bytes(content[:-9] + b"x" + content[-8:])


def truncate(path: Path) -> None:
    """Leave the last byte out."""
    path.write_bytes(path.read_bytes()[:-1])


CHANGES: tuple[Callable[[Path], object], ...] = (alter, truncate, Path.unlink)


@pytest.mark.parametrize("name", ["usage.parquet", "windows.csv", "manifest.json"])
def test_an_altered_file_is_named_and_nothing_is_detached_or_restored(
    name: str, tmp_path: Path, folder: Path, owner_url: str
) -> None:
    path = folder / name
    content = path.read_bytes()
    for change in () if name == "manifest.json" else CHANGES:
        change(path)
        with signed_in(owner_url):
            assert name in refusal("detach_month", tmp_path)
        path.write_bytes(content)
    assert UsageRecord.objects.count() == 3
    assert not ArchivedMonth.objects.exists()
    with signed_in(owner_url):
        move("detach_month", tmp_path)

    for change in CHANGES:
        change(path)
        entries = AuditEntry.objects.count()
        with signed_in(owner_url):
            assert name.partition(".")[0] in refusal("restore_month", tmp_path)
        assert AuditEntry.objects.count() == entries
        assert not UsageRecord.objects.exists()
        assert ArchivedMonth.objects.get().restored_at is None
        with connection.cursor() as cursor:
            cursor.execute("SELECT to_regclass('metering_usagerecord_2026_10')")
            assert cursor.fetchone() == (None,)
        assert name.partition(".")[0] in verify("--archive", str(tmp_path))
        path.write_bytes(content)


@pytest.mark.usefixtures("finished", "folder")
def test_the_runtime_role_detaches_and_restores_nothing(tmp_path: Path, owner_url: str) -> None:
    assert "does not own" in refusal("detach_month", tmp_path)
    with signed_in(owner_url):
        assert "no reason" in refusal("detach_month", tmp_path, reason=" ")
        move("detach_month", tmp_path)

    assert "does not own" in refusal("restore_month", tmp_path)

    refuses("UPDATE tenants_archivedmonth SET restored_at = now()", "permission denied")
    refuses("DELETE FROM tenants_archivedmonth", "permission denied")
    refuses("SELECT metering_guard_partition('x')", "permission denied")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            "UPDATE billing_billingperiod SET state = 'open'",
            "1 billing periods",
        ),
        ("UPDATE metering_meteringwindow SET state = 'open'", "2 windows that are not sealed"),
        (
            (
                "INSERT INTO metering_windowrecheck (window_id, cluster_id, window_start, reason,"
                " key, note, requested_by, created_at, state, not_before)"
                " SELECT id, cluster_id, start_at, 'clock', 'x', '', '', now(), 'due', now()"
                " FROM metering_meteringwindow LIMIT 1"
            ),
            "1 rechecks that are not done",
        ),
    ],
)
def test_a_month_that_can_still_change_is_not_archived(
    change: str, reason: str, tmp_path: Path, owner: psycopg.Connection
) -> None:
    owner.execute("ALTER TABLE billing_billingperiod DISABLE TRIGGER USER")
    owner.execute("ALTER TABLE metering_meteringwindow DISABLE TRIGGER USER")
    owner.execute(change.encode())

    assert reason in refusal("archive_month", tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_what_an_attacker_drops_or_writes_is_named(owner: psycopg.Connection) -> None:
    owner.execute("DROP TABLE metering_usagerecord_2026_10")

    found = verify()

    assert "metering_usagerecord_2026_10 is missing, and its month is not archived." in found

    owner.execute(
        "INSERT INTO tenants_archivedmonth (table_name, label, begin_at, end_at, row_count, sums,"
        " manifest_sha256, windows_sha256, location, detached_at, detached_by, reason,"
        " restored_by, restore_reason) VALUES ('usage', '2026-10', '2026-10-01Z', '2026-11-01Z',"
        " 3, '{}', '', '', '', now(), '', '', '', '')"
    )
    found = verify()
    assert "usage 2026-10, is not that of the audit trail." in found
    assert "The windows of 2026-10 are not those of the archive of usage 2026-10." in found


@pytest.mark.usefixtures("finished", "folder")
def test_a_month_that_changed_since_it_was_archived_is_not_detached(
    tmp_path: Path, owner: psycopg.Connection, owner_url: str
) -> None:
    owner.execute("ALTER TABLE metering_usagefact DISABLE TRIGGER USER")
    owner.execute("UPDATE metering_usagefact SET owner = 'eve' WHERE owner = 'carol'")

    with signed_in(owner_url):
        assert "differs from the database" in refusal("detach_month", tmp_path)

    assert UsageRecord.objects.count() == 3

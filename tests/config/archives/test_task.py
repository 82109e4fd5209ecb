"""The task that archives what was kept for as long as the settings say."""

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from pytest_django import Settings
from structlog.testing import capture_logs

from config.management import due_archives
from config.management.due_archives import FAILED, TIME_LIMIT_SECONDS, tick, tick_archives
from embedded.postgres import OWNER, EmbeddedPostgres
from metering.models import UsageRecord
from metering.selectors.locks import TICK_LOCK_CLASS
from tenants.models import AuditEntry, SweepCrash
from tests.support.config.archives import LABEL, finish_month, move, signed_in

pytestmark = pytest.mark.usefixtures("world")
LATE = datetime(2028, 1, 1, tzinfo=UTC)
"""When the month was kept for longer than any of these tests asks."""


@pytest.fixture
def root(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where months are archived; usage and charges are kept for a month."""
    settings.ARCHIVE_DIR = tmp_path
    settings.ARCHIVE_AFTER_MONTHS = {"usage": 1, "charges": 1}
    monkeypatch.setattr(due_archives, "database_now", lambda: LATE)
    return tmp_path


def folders(root: Path) -> list[str]:
    """Return the names of what is in the directory."""
    return sorted(path.name for path in root.iterdir())


def crashes() -> list[tuple[str, int, str, str]]:
    """Return event, count, last key and last error of all that failed."""
    return list(SweepCrash.objects.values_list("event", "count", "last_key", "last_error"))


def test_what_is_due_is_archived_once_and_nothing_is_detached(root: Path) -> None:
    finish_month()
    before = UsageRecord.objects.count()

    with capture_logs() as logs:
        assert list(tick_archives.run()) == [True, True]
        assert list(tick_archives.run()) == []
        assert tick(LATE) == 0

    assert folders(root) == [f"charges-{LABEL}", f"usage-{LABEL}"]
    written = [one for one in logs if one["event"] == "config.archives.written"]
    assert [one["archive"] for one in written] == [f"usage-{LABEL}", f"charges-{LABEL}"]
    assert UsageRecord.objects.count() == before
    recorded = AuditEntry.objects.filter(action="tenants:month:archive").order_by("pk")
    assert list(recorded.values_list("actor_label", "object_id")) == [
        ("archives", f"usage-{LABEL}"),
        ("archives", f"charges-{LABEL}"),
    ]
    assert crashes() == []


def test_without_the_settings_nothing_is_archived(root: Path, settings: Settings) -> None:
    finish_month()
    settings.ARCHIVE_AFTER_MONTHS = {}
    assert tick(LATE) == 0

    settings.ARCHIVE_AFTER_MONTHS = {"usage": 1}
    settings.ARCHIVE_DIR = None
    assert tick(LATE) == 0
    settings.ARCHIVE_DIR = root
    assert tick(datetime(2026, 11, 30, tzinfo=UTC)) == 0

    assert folders(root) == []


def test_a_month_that_is_not_finished_is_no_failure(root: Path) -> None:
    with capture_logs() as logs:
        assert tick(LATE) == 0

    assert [one["event"] for one in logs] == ["config.archives.waiting"] * 2
    assert "not finished" in logs[0]["reason"]
    assert (folders(root), crashes()) == ([], [])


def test_a_month_that_fails_is_counted_and_the_others_are_archived(root: Path) -> None:
    finish_month()
    assert tick(LATE) == 2
    (root / f"usage-{LABEL}" / "usage.parquet").write_bytes(b"short")
    (root / f"charges-{LABEL}").rename(root / "elsewhere")

    with capture_logs() as logs:
        assert tick(LATE) == 1

    assert crashes() == [(FAILED, 1, f"usage-{LABEL}", "ArchiveDiffersError")]
    (failed,) = (one for one in logs if one["log_level"] == "error")
    assert (failed["event"], failed["key"]) == (FAILED, f"usage-{LABEL}")
    assert f"charges-{LABEL}" in folders(root)
    (root / f"usage-{LABEL}" / "usage.parquet").unlink()
    assert tick(LATE) == 0
    assert crashes() == [(FAILED, 2, f"usage-{LABEL}", "ArchiveDiffersError")]


@pytest.mark.parametrize("name", ["usage.parquet", "manifest.json"])
def test_an_archive_that_alone_has_a_month_is_compared_every_hour(
    root: Path, name: str, postgres: EmbeddedPostgres, committed_db: str
) -> None:
    finish_month()
    assert tick(LATE) == 2
    with signed_in(postgres.url(role=OWNER, database=committed_db)):
        move("detach_month", root)
    assert (tick(LATE), crashes()) == (0, [])
    path = root / f"usage-{LABEL}" / name
    content = path.read_bytes()

    for altered in (content[:-1] + b" ", content[:-1]) if name == "manifest.json" else (b"short",):
        path.write_bytes(altered)
        assert tick(LATE) == 0
    path.unlink()
    assert tick(LATE) == 0

    (failed,) = crashes()
    assert failed[2:] == (f"usage-{LABEL}", "ArchiveDiffersError")
    assert failed[1] == (3 if name == "manifest.json" else 2)
    path.write_bytes(content)
    assert (tick(LATE), crashes()) == (0, [failed])


def test_a_worker_without_the_directory_archives_nowhere(root: Path, settings: Settings) -> None:
    finish_month()
    settings.ARCHIVE_DIR = root / "away"

    assert tick(LATE) == 0

    assert crashes() == [(FAILED, 2, f"charges-{LABEL}", "NotADirectoryError")]
    assert folders(root) == []


def test_one_process_writes_an_archive_and_a_second_leaves_it_alone(
    root: Path, owner: psycopg.Connection
) -> None:
    finish_month()
    partial = root / f"usage-{LABEL}.partial"
    partial.mkdir()
    (partial / "usage.parquet").write_bytes(b"begun")
    lock = [TICK_LOCK_CLASS, f"archive {root / f'usage-{LABEL}'}"]
    owner.execute("SELECT pg_advisory_lock(%s, hashtext(%s))", lock)

    assert tick(LATE) == 1

    assert folders(root) == [f"charges-{LABEL}", partial.name]
    assert (partial / "usage.parquet").read_bytes() == b"begun"
    assert crashes() == []
    owner.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", lock)
    assert tick(LATE) == 1
    assert folders(root) == [f"charges-{LABEL}", f"usage-{LABEL}"]


def test_a_month_may_take_hours_and_its_message_is_not_given_out_again() -> None:
    assert tick_archives.acks_late is False
    assert tick_archives.soft_time_limit == TIME_LIMIT_SECONDS < tick_archives.time_limit

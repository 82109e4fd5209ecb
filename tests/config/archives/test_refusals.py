"""What stops detaching and restoring a month, with nothing changed."""

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.db import connection

from metering.models import UsageRecord
from tenants.models import ArchivedMonth, AuditEntry
from tests.support.builders import audited
from tests.support.config.archives import (
    LABEL,
    archive,
    move,
    refusal,
    run,
    signed_in,
)
from tests.support.config.planted import verify

pytestmark = pytest.mark.usefixtures("world")


def assert_unchanged() -> None:
    """The month is in the database, and nothing says that it was elsewhere."""
    assert UsageRecord.objects.count() == 3
    assert not ArchivedMonth.objects.exists()
    assert not AuditEntry.objects.filter(object_kind="archived_month").exists()


def change_manifest(root: Path, **changes: Callable[[Any], Any]) -> None:
    """Change values of the manifest, each by a function of what it was."""
    path = root / f"usage-{LABEL}" / "manifest.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {key: of(values[key]) for key, of in changes.items()}))


def test_a_report_that_reads_usage_is_not_waited_for_longer_than_a_moment(
    archived_owner_url: str,
    tmp_path: Path,
    owner: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tenants.services.archives.LOCK_SECONDS", 1)

    with owner.transaction():
        owner.execute("SELECT count(*) FROM metering_usagerecord")
        with signed_in(archived_owner_url):
            assert "in use for 1 seconds; nothing was changed" in refusal("detach_month", tmp_path)

    assert_unchanged()
    with signed_in(archived_owner_url):
        move("detach_month", tmp_path)


def test_a_month_that_was_reopened_is_not_detached(
    archived_owner_url: str, tmp_path: Path, owner: psycopg.Connection
) -> None:
    owner.execute("ALTER TABLE billing_billingperiod DISABLE TRIGGER USER")
    owner.execute("UPDATE billing_billingperiod SET state = 'open'")

    with signed_in(archived_owner_url):
        assert "1 billing periods that are not closed" in refusal("detach_month", tmp_path)

    assert_unchanged()


@pytest.mark.parametrize("command", ["detach_month", "restore_month"])
@pytest.mark.parametrize(
    ("by", "reason"),
    [
        ("nobody", "Nobody has this user name"),
        ("carol", "carol is no administrator of the platform or of finance"),
        ("alice", "alice is no administrator of the platform or of finance"),
        ("ann", "ann is no administrator of the platform or of finance"),
        ("frank", "frank was deactivated"),
    ],
)
def test_a_person_that_may_not_do_it_is_refused_and_the_option_named(
    archived_owner_url: str, tmp_path: Path, command: str, by: str, reason: str
) -> None:
    with audited():
        User.objects.filter(username="frank").update(is_active=False)
    arguments = ["--from", str(tmp_path), "--by", by, "--reason", "Why not."]

    with signed_in(archived_owner_url), pytest.raises(CommandError, match=f"^--by: {reason}"):
        run(command, *arguments)

    assert_unchanged()


@pytest.mark.parametrize("by", ["dora", "root"])
def test_finance_and_superusers_detach_a_month(
    archived_owner_url: str, tmp_path: Path, by: str
) -> None:
    with audited():
        User.objects.create(username="root", is_superuser=True)

    with signed_in(archived_owner_url):
        run("detach_month", "--from", str(tmp_path), "--by", by, "--reason", "Kept one year.")

    assert ArchivedMonth.objects.get().detached_by == by


def test_only_the_archive_that_was_detached_is_restored(
    archived_owner_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / f"usage-{LABEL}"
    kept = tmp_path / "kept"
    shutil.copytree(folder, kept)
    with signed_in(archived_owner_url):
        assert "were not detached" in refusal("restore_month", tmp_path)
        move("detach_month", tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    audit = {**manifest["audit"], "entry": 1}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "audit": audit}))

    with signed_in(archived_owner_url):
        assert "the month was detached with" in refusal("restore_month", tmp_path)

    assert UsageRecord.objects.count() == 0
    assert "is not that of the archived month" in verify("--archive", str(tmp_path))
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)
    with signed_in(archived_owner_url):
        move("restore_month", tmp_path)
    assert UsageRecord.objects.count() == 3
    assert verify() == ""


def test_windows_that_are_others_now_stop_a_restore_and_are_named(
    archived_owner_url: str, tmp_path: Path, owner: psycopg.Connection
) -> None:
    with signed_in(archived_owner_url):
        move("detach_month", tmp_path)
    owner.execute("ALTER TABLE metering_meteringwindow DISABLE TRIGGER USER")
    owner.execute("UPDATE metering_meteringwindow SET record_digest = repeat('0', 64)")

    with signed_in(archived_owner_url):
        assert "would have other records than its seal" in refusal("restore_month", tmp_path)

    assert UsageRecord.objects.count() == 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('metering_usagerecord_2026_10')")
        assert cursor.fetchone() == (None,)
    assert "The windows of 2026-10 are not those of the archive" in verify()


def test_charges_are_archived_with_their_money_and_not_detached(
    archived_owner_url: str, tmp_path: Path
) -> None:
    printed = archive(tmp_path, "charges")

    assert "3 rows, EUR 5.0000000000, unit_seconds 9000; read back" in printed
    assert (tmp_path / f"charges-{LABEL}" / "charges.parquet").exists()
    with signed_in(archived_owner_url):
        assert "invalid choice: 'charges'" in refusal("detach_month", tmp_path, "charges")


def without(name: str) -> Callable[[list[Any]], list[Any]]:
    """Return what takes a file out of a manifest's files."""
    return lambda files: [one for one in files if one["name"] != name]


OTHER_COLUMNS = "has other columns than the database"
MANIFESTS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("is of usage of 2026-09", "month", lambda _: "2026-09"),
    ("has 3 rows with {'unit_seconds': '9000'}", "sums", lambda _: {"unit_seconds": "9001"}),
    ("has no file usage.parquet", "files", without("usage.parquet")),
    ("has no file windows.csv", "files", without("windows.csv")),
    (OTHER_COLUMNS, "columns", lambda columns: columns[1:]),
    (OTHER_COLUMNS, "columns", lambda columns: [{**columns[0], "type": "text"}, *columns[1:]]),
    (OTHER_COLUMNS, "columns", lambda columns: [*columns, columns[0]]),
)
"""Why each is refused, and which of its values is another."""


def test_a_manifest_of_something_else_or_that_could_not_be_restored_is_refused(
    archived_owner_url: str, tmp_path: Path
) -> None:
    path = tmp_path / f"usage-{LABEL}" / "manifest.json"
    written = path.read_text()
    for number, (reason, key, change) in enumerate(MANIFESTS):
        change_manifest(tmp_path, **{key: change})
        with signed_in(archived_owner_url):
            assert reason in refusal("detach_month", tmp_path), number
        path.write_text(written)

    assert_unchanged()


def test_a_pipe_or_a_device_in_the_place_of_a_file_is_not_read(
    archived_owner_url: str, tmp_path: Path
) -> None:
    for name in ("usage.parquet", "windows.csv", "manifest.json"):
        path = tmp_path / f"usage-{LABEL}" / name
        content = path.read_bytes()
        for make in (os.mkfifo, partial(Path.symlink_to, target="/dev/zero"), Path.mkdir):
            path.unlink()
            make(path)
            with signed_in(archived_owner_url):
                assert f"{name} is missing or cannot be read" in refusal("detach_month", tmp_path)
            if path.is_dir():
                path.rmdir()
                path.touch()
        path.write_bytes(content)

    assert_unchanged()


def test_a_manifest_of_any_length_is_not_read(archived_owner_url: str, tmp_path: Path) -> None:
    os.truncate(tmp_path / f"usage-{LABEL}" / "manifest.json", 2**40)

    with signed_in(archived_owner_url):
        assert "too long for a manifest" in refusal("detach_month", tmp_path)

    assert_unchanged()


def test_a_month_is_detached_and_restored_once(archived_owner_url: str, tmp_path: Path) -> None:
    with signed_in(archived_owner_url):
        move("detach_month", tmp_path)
        assert f"The usage of {LABEL} is archived" in refusal("detach_month", tmp_path)
        move("restore_month", tmp_path)
        assert "were not detached" in refusal("restore_month", tmp_path)

    assert ArchivedMonth.objects.exclude(restored_at=None).count() == 1
    assert verify() == ""

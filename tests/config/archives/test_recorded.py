"""What the audit trail says of an archive: once, by whom, since when, and with which digest."""

import hashlib
import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, connections

from embedded.postgres import OWNER, EmbeddedPostgres
from metering.models import UsageRecord
from tenants.models import ArchivedMonth, AuditEntry
from tests.support.config.archives import (
    LABEL,
    archive,
    finish_month,
    move,
    refusal,
    run,
    signed_in,
)
from tests.support.config.planted import verify

pytestmark = pytest.mark.usefixtures("world", "finished")
NAME = f"usage-{LABEL}"


@pytest.fixture
def finished(world: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - Its month.
    """Finish the month of the world, and let it be due."""
    finish_month()
    late = datetime(2028, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("config.management.commands.archive_due.database_now", lambda: late)


def entries() -> list[tuple[str, str, dict[str, Any]]]:
    """Return person, archive and facts of each entry, the first one first."""
    rows = AuditEntry.objects.filter(action="tenants:month:archive", object_kind="archive")
    return list(rows.order_by("pk").values_list("actor_label", "object_id", "facts"))


def digest(root: Path) -> str:
    """Return the SHA-256 of the manifest."""
    return hashlib.sha256((root / NAME / "manifest.json").read_bytes()).hexdigest()


def archive_due(root: Path, *options: str) -> None:
    """Archive the usage that is due."""
    call_command("archive_due", "--to", str(root), "--keep", "usage=1", *options, stdout=StringIO())


def lose_entries(
    execute: Callable[..., Any], sql: str, params: object, many: object, context: object
) -> object:
    """Lose the connection where an audit entry would be written."""
    if 'INSERT INTO "tenants_auditentry"' in sql:
        raise OperationalError("the connection is lost")
    return execute(sql, params, many, context)


def archive_without_entry(root: Path) -> None:
    """Finish an archive in a process that ends before it records it."""
    with connection.execute_wrapper(lose_entries), pytest.raises(OperationalError):
        archive(root)
    assert (root / NAME).is_dir()
    assert entries() == []


@pytest.mark.parametrize("by", ["dora", "frank", ""])
def test_an_archive_is_recorded_with_its_digest_which_detaching_names_again(
    by: str, tmp_path: Path, postgres: EmbeddedPostgres, committed_db: str
) -> None:
    run("archive_month", "--to", str(tmp_path), *(["--by", by] if by else []))

    facts = {
        "table": "usage",
        "month": LABEL,
        "rows": 3,
        "manifest_sha256": digest(tmp_path),
        "location": str(tmp_path),
    }
    assert entries() == [(by or "archives", NAME, facts)]
    with signed_in(postgres.url(role=OWNER, database=committed_db)):
        move("detach_month", tmp_path)
    detached = AuditEntry.objects.get(action="tenants:month:detach")
    assert detached.facts["manifest_sha256"] == digest(tmp_path)
    assert verify("--archive", str(tmp_path)) == ""


def test_an_archive_that_is_there_is_recorded_no_second_time(tmp_path: Path) -> None:
    archive_due(tmp_path, "--by", "dora")
    archive_due(tmp_path)

    assert [by for by, _, _ in entries()] == ["dora"]


def test_an_archive_whose_entry_was_lost_is_recorded_by_the_next_run_once(tmp_path: Path) -> None:
    archive_without_entry(tmp_path)

    def archive_apart(_: int) -> None:
        try:
            archive_due(tmp_path)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(archive_apart, range(4)))

    assert [facts["manifest_sha256"] for _, _, facts in entries()] == [digest(tmp_path)]


def test_an_archive_that_is_not_the_recorded_one_is_refused(tmp_path: Path) -> None:
    archive(tmp_path)
    recorded = digest(tmp_path)
    path = tmp_path / NAME / "manifest.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"rows": 4}))

    with pytest.raises(CommandError, match=f"the audit trail has {recorded}"):
        archive_due(tmp_path)

    assert [facts["manifest_sha256"] for _, _, facts in entries()] == [recorded]


def test_an_archive_that_is_written_anew_or_elsewhere_is_recorded_too(tmp_path: Path) -> None:
    archive(tmp_path)
    shutil.copytree(tmp_path / NAME, tmp_path / "copy" / NAME)
    archive_due(tmp_path / "copy")
    first = digest(tmp_path)
    shutil.rmtree(tmp_path / NAME)

    archive(tmp_path)

    assert digest(tmp_path) != first
    assert [facts["manifest_sha256"] for _, _, facts in entries()] == [first, digest(tmp_path)]
    archive_due(tmp_path)
    assert len(entries()) == 2


def test_an_earlier_archive_that_took_the_place_of_the_recorded_one_is_refused(
    tmp_path: Path,
) -> None:
    archive(tmp_path)
    first = digest(tmp_path)
    (tmp_path / NAME).rename(tmp_path / "earlier")
    archive(tmp_path)
    recorded = digest(tmp_path)
    shutil.rmtree(tmp_path / NAME)
    (tmp_path / "earlier").rename(tmp_path / NAME)

    with pytest.raises(CommandError, match=f"the audit trail has {recorded}"):
        archive_due(tmp_path)

    assert [facts["manifest_sha256"] for _, _, facts in entries()] == [first, recorded]


def test_an_archive_that_is_not_the_recorded_one_is_not_detached(
    tmp_path: Path, postgres: EmbeddedPostgres, committed_db: str
) -> None:
    archive(tmp_path)
    recorded = digest(tmp_path)
    path = tmp_path / NAME / "manifest.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"audit": {**values["audit"], "verified_count": 7}}))

    with signed_in(postgres.url(role=OWNER, database=committed_db)):
        assert f"the audit trail has {recorded}" in refusal("detach_month", tmp_path)

    assert not ArchivedMonth.objects.exists()
    assert UsageRecord.objects.count() == 3


@pytest.mark.parametrize("by", ["nobody", "carol", "ann"])
def test_only_a_person_that_may_do_it_is_recorded(by: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"^--by: "):
        run("archive_month", "--to", str(tmp_path), "--by", by)
    with pytest.raises(CommandError, match=r"^--by: "):
        archive_due(tmp_path, "--by", by)

    assert list(tmp_path.iterdir()) == []
    assert entries() == []

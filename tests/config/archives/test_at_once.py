"""Two commands that move months at the same time."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError
from django.db import connection, connections

from billing.adapters.archive_files import Progress, read_rows, require_same_rows
from config.management.archives import require_facts, require_finished
from metering.models import UsageRecord
from tenants.domain.actors import system_actor
from tenants.domain.archives import ArchivedColumn, ArchiveMonth, MonthTable
from tenants.domain.errors import InvalidInputError
from tenants.models import ArchivedMonth, Cluster, Project
from tenants.services.clusters import update_cluster
from tests.support.builders import AT, MONTH_START, bind, make_cluster
from tests.support.config.archives import LABEL, move, refusal, signed_in
from tests.support.config.planted import verify

pytestmark = pytest.mark.usefixtures("world")
ENDING = LABEL.replace("-", "_")


@pytest.mark.parametrize("command", ["detach_month", "restore_month"])
def test_of_two_commands_at_once_one_is_refused(
    archived_owner_url: str, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def compare(
        path: Path,
        blocks: Iterator[bytes],
        columns: Sequence[ArchivedColumn],
        *,
        progress: Progress,
    ) -> int:
        """Run the command a second time while the first one compares."""
        monkeypatch.setattr("config.management.archives.require_same_rows", require_same_rows)
        thread = Thread(target=lambda: refused.append(refusal(command, tmp_path)))
        thread.start()
        thread.join()
        return require_same_rows(path, blocks, columns, progress=progress)

    monkeypatch.setattr("tenants.services.archives.LOCK_SECONDS", 1)
    with signed_in(archived_owner_url):
        if command == "restore_month":
            move("detach_month", tmp_path)
        monkeypatch.setattr("config.management.archives.require_same_rows", compare)
        move(command, tmp_path)

    assert ["in use for 1 seconds; nothing was changed" in one for one in refused] == [True]
    assert UsageRecord.objects.count() == (3 if command == "restore_month" else 0)
    assert verify("--archive", str(tmp_path)) == ""


def test_a_month_is_detached_by_one_of_two_commands(
    archived_owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[str] = []
    refused: list[str] = []
    meet = Barrier(2, timeout=30)

    def meet_compared(*arguments: Any, **options: Any) -> None:  # noqa: ANN401 - As the function's.
        """Let both commands begin to move the month at once."""
        require_facts(*arguments, **options)
        meet.wait()

    def detach() -> None:
        try:
            printed.append(move("detach_month", tmp_path))
        except CommandError as error:
            refused.append(str(error))
        finally:
            connections.close_all()

    monkeypatch.setattr("config.management.archives.require_facts", meet_compared)
    monkeypatch.setattr("tenants.services.archives.LOCK_SECONDS", 60)
    with signed_in(archived_owner_url):
        threads = [Thread(target=detach) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert ["3 rows are in" in one for one in printed] == [True]
    assert ["is archived" in one for one in refused] == [True]
    assert ArchivedMonth.objects.count() == 1
    assert verify() == ""


HAS_WAITED = """
SELECT EXISTS (SELECT FROM pg_locks
                WHERE NOT granted AND waitstart < clock_timestamp() - interval '1.5 seconds')
"""
"""Longer than after which the database looks whether two wait for each other."""


def wait_for_lock(url: str) -> None:
    """Return once a transaction has waited for another for a while."""
    with psycopg.connect(url, autocommit=True) as watching:
        while watching.execute(HAS_WAITED.encode()).fetchone() != (True,):
            pass


def wait_for_the_command(url: str, *locks: str) -> Thread:
    """Return a thread that has locked the first table, and waits for the second."""

    def use_tables() -> None:
        with psycopg.connect(url) as other:
            for lock in locks:
                other.execute(f"LOCK TABLE ONLY {lock}".encode())

    thread = Thread(target=use_tables)
    thread.start()
    wait_for_lock(url)
    return thread


def test_detaching_gives_up_where_a_writer_waits_for_it(
    archived_owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[Thread] = []
    table = "metering_usagerecord"
    mode = "IN ROW EXCLUSIVE MODE"

    def compare(*arguments: Any, **options: Any) -> int:  # noqa: ANN401 - As the function's.
        """Let a worker write usage of the month while it is compared."""
        writers.append(
            wait_for_the_command(archived_owner_url, f"{table} {mode}", f"{table}_{ENDING} {mode}")
        )
        return require_same_rows(*arguments, **options)

    with signed_in(archived_owner_url):
        with monkeypatch.context() as patched:
            patched.setattr("config.management.archives.require_same_rows", compare)
            refused = refusal("detach_month", tmp_path)
        writers[0].join()

        assert "waited for this one; nothing was changed. Run the command again" in refused
        assert UsageRecord.objects.count() == 3
        assert not ArchivedMonth.objects.exists()
        move("detach_month", tmp_path)
    assert verify("--archive", str(tmp_path)) == ""


def test_restoring_gives_up_where_a_reader_waits_for_it(
    archived_owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[Thread] = []

    def read(*arguments: Any) -> Iterator[bytes]:  # noqa: ANN401 - As the function's.
        """Let a backup read the tables while rows are written."""
        tables = ("metering_usagerecord", "tenants_archivedmonth")
        locks = [f"{table} IN SHARE MODE" for table in tables]
        readers.append(wait_for_the_command(archived_owner_url, *locks))
        yield from read_rows(*arguments)

    with signed_in(archived_owner_url):
        move("detach_month", tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr("config.management.archives.read_rows", read)
            refused = refusal("restore_month", tmp_path)
        readers[0].join()

        assert "waited for this one; nothing was changed. Run the command again" in refused
        assert UsageRecord.objects.count() == 0
        assert ArchivedMonth.objects.get().restored_at is None
        move("restore_month", tmp_path)
    assert verify("--archive", str(tmp_path)) == ""


@contextmanager
def run_within(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> Iterator[None]:
    """Do something once a command within has compared rows."""

    def compare(*arguments: Any, **options: Any) -> int:  # noqa: ANN401 - As the function's.
        count = require_same_rows(*arguments, **options)
        action()
        return count

    with monkeypatch.context() as patched:
        patched.setattr("config.management.archives.require_same_rows", compare)
        yield


def meter_earlier() -> None:
    """Give a cluster with a namespace an earlier first hour, as a person at the page does."""

    def change() -> None:
        cluster = Cluster.objects.get(slug="later")
        changes = {"metered_from": MONTH_START}
        try:
            update_cluster(cluster=cluster, changes=changes, actor=system_actor("seed"), at=AT)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(change).result()


def bind_later_cluster() -> None:
    """Register a cluster that is metered from the month after, and bind a namespace before."""
    later = make_cluster("later", metered_from=MONTH_START + timedelta(days=40))
    project = Project.objects.earliest("slug")
    begin_at = MONTH_START + timedelta(hours=2)
    bind(later, "earlier", project, begin_at=begin_at, end_at=begin_at + timedelta(hours=2))


def test_a_month_is_not_detached_where_hours_of_it_became_metered_meanwhile(
    archived_owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind_later_cluster()

    with signed_in(archived_owner_url), run_within(monkeypatch, meter_earlier):
        refused = refusal("detach_month", tmp_path)

    waiting = "2 hours that are metered and have no window yet"
    assert refused.startswith(f"{LABEL} is not finished: {waiting}")
    assert UsageRecord.objects.count() == 3
    assert not ArchivedMonth.objects.exists()


def test_hours_of_a_month_that_is_being_detached_do_not_become_metered(
    archived_owner_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind_later_cluster()
    answers: list[Future[None]] = []
    pool = ThreadPoolExecutor(max_workers=1)

    def finish(table: MonthTable, month: ArchiveMonth) -> None:
        """Let a person change the hours once the command has looked at them for the last time."""
        require_finished(table, month)
        if connection.in_atomic_block:
            answers.append(pool.submit(meter_earlier))
            wait_for_lock(archived_owner_url)

    monkeypatch.setattr("config.management.archives.require_finished", finish)
    with signed_in(archived_owner_url), pool:
        move("detach_month", tmp_path)

    with pytest.raises(InvalidInputError) as refused:
        answers[0].result()
    assert [one.code for one in refused.value.problems] == ["month_archived"]
    assert Cluster.objects.get(slug="later").metered_from > MONTH_START


@pytest.mark.parametrize("name", ["usage.parquet", "windows.csv"])
def test_a_month_is_not_detached_where_its_archive_was_altered_meanwhile(
    archived_owner_url: str, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"usage-{LABEL}" / name
    shorter = path.read_bytes()[:-1]

    with (
        signed_in(archived_owner_url),
        run_within(monkeypatch, lambda: path.write_bytes(shorter)),
    ):
        refused = refusal("detach_month", tmp_path)

    assert f"{name} was altered" in refused
    assert UsageRecord.objects.count() == 3
    assert not ArchivedMonth.objects.exists()

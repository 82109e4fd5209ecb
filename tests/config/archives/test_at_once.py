"""Two commands that move months at the same time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Barrier, Thread

import pytest
from django.core.management import CommandError
from django.db import connections

from billing.adapters.archive_files import Progress, require_same_rows
from config.management.archives import require_finished
from metering.models import UsageRecord
from tenants.domain.archives import ArchivedColumn, ArchiveMonth, MonthTable
from tenants.models import ArchivedMonth
from tests.support.config.archives import move, refusal, signed_in
from tests.support.config.planted import verify

pytestmark = pytest.mark.usefixtures("world")


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

    def meet_finished(table: MonthTable, month: ArchiveMonth) -> None:
        """Let both commands begin to move the month at once."""
        require_finished(table, month)
        meet.wait()

    def detach() -> None:
        try:
            printed.append(move("detach_month", tmp_path))
        except CommandError as error:
            refused.append(str(error))
        finally:
            connections.close_all()

    monkeypatch.setattr("config.management.archives.require_finished", meet_finished)
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

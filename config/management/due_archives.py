"""The task that archives months once they were kept for long enough; it detaches none."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from celery import shared_task
from django.conf import settings

from billing.adapters.archive_files import require_sizes
from config.management.archive_writing import due_archives, ensure_archive
from config.management.archives import TABLES, read_archive
from tenants.domain.actors import Actor, system_actor
from tenants.domain.archives import (
    ArchiveBusyError,
    ArchiveDiffersError,
    ArchiveMonth,
    MonthNotFinishedError,
    MonthTable,
)
from tenants.models import ArchivedMonth
from tenants.selectors.archives import archived_months
from tenants.selectors.clock import database_now
from tenants.services.slot_leases import renewed_slot
from tenants.services.turns import run_isolated
from tenants.services.wakeups import WakeUp

KIND: Final = "config.tick_archives"
FAILED: Final = "config.archives.failed"
TIME_LIMIT_SECONDS: Final = 6 * 3600
"""Of one month, which is written and read back in one transaction."""
KILL_AFTER_SECONDS: Final = 40
ACTOR: Final = system_actor("archives")

log = structlog.get_logger(__name__)


@shared_task(  # type: ignore[untyped-decorator]
    base=WakeUp,
    name=KIND,
    # A month may outlast the visibility timeout of its message, which is acknowledged before. If
    # its worker dies, beat wakes another one, which begins the month anew.
    acks_late=False,
    soft_time_limit=TIME_LIMIT_SECONDS,
    time_limit=TIME_LIMIT_SECONDS + KILL_AFTER_SECONDS,
)
def tick_archives() -> Iterator[bool]:
    """Archive the months that are due, one after another."""
    with renewed_slot(KIND):
        yield from _archive_due(at=database_now(), actor=ACTOR)


def tick(at: datetime, actor: Actor = ACTOR) -> int:
    """Archive the months that are due, and return how many were written."""
    return sum(_archive_due(at=at, actor=actor))


def _archive_due(*, at: datetime, actor: Actor) -> Iterator[bool]:
    """Yield after each archive that was written.

    What fails is logged and counted, and does not yield: a worker whose time is up would begin with
    it again, and never come to the months behind it.
    """
    root: Path | None = settings.ARCHIVE_DIR
    if root is None:
        return
    for table, month in due_archives(settings.ARCHIVE_AFTER_MONTHS, at=at):
        handler = partial(_archive, table, month, root=root, actor=actor)
        key = table.folder(month)
        if run_isolated(handler, otherwise=False, event=FAILED, key=key, at=at):
            yield True
    for row in archived_months():
        if row.location == str(root):
            key = f"{row.table_name}-{row.label}"
            run_isolated(partial(_require, row, root), otherwise=None, event=FAILED, key=key, at=at)


def _require(row: ArchivedMonth, root: Path) -> None:
    """Compare the sizes of what is left of a detached month, and its manifest.

    Raises:
        ArchiveDiffersError: A file is missing or has another size, or it is another manifest.
    """
    table, month = TABLES[row.table_name], ArchiveMonth.parse(row.label)
    folder, _, digest = read_archive(table, month, root=root, check=require_sizes)
    if digest != row.manifest_sha256:
        raise ArchiveDiffersError(f"The manifest in {folder} is not that of {row}.")


def _archive(table: MonthTable, month: ArchiveMonth, *, root: Path, actor: Actor) -> bool:
    """Return whether an archive was written; of one that is there only the sizes are compared."""
    if not root.is_dir():
        # A worker without the volume would archive into its own file system.
        raise NotADirectoryError(f"{root} is no directory of this worker.")
    name = table.folder(month)
    is_there = (root / name).exists()
    try:
        _, manifest = ensure_archive(
            table, month, root=root, progress=lambda _: None, actor=actor, check=require_sizes
        )
    except (ArchiveBusyError, MonthNotFinishedError) as error:
        log.info("config.archives.waiting", archive=name, reason=error.message)
        return False
    if is_there:
        return False
    log.info("config.archives.written", archive=name, rows=manifest.rows)
    return True

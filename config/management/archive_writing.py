"""Writing archives: the months that are due, their folders, and the audit entry of each."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from billing.adapters.archive_files import (
    FilesCheck,
    Progress,
    begin_folder,
    finish_folder,
    read_manifest,
    require_files,
    require_same_rows,
    write_lines,
    write_table,
)
from billing.selectors.exports.months import snapshot
from config.management.archives import (
    MONTHS,
    TABLES,
    WINDOWS,
    read_archive,
    require_facts,
    require_finished,
    rows_file,
)
from metering.selectors.collection.archive import window_lines
from metering.selectors.locks import try_tick_lock
from tenants.domain.actors import Actor
from tenants.domain.archives import (
    MONTHS_PER_YEAR,
    ArchiveBusyError,
    ArchivedFile,
    ArchiveDiffersError,
    ArchiveManifest,
    ArchiveMonth,
    MonthTable,
)
from tenants.selectors.archives import (
    archived_columns,
    audit_head,
    columns_of,
    copy_rows,
    months_before,
    require_partition,
    schema_version,
    sums_of,
)
from tenants.selectors.clock import database_now
from tenants.services.archives import record_archive


def due_archives(kept: Mapping[str, int], *, at: datetime) -> list[tuple[MonthTable, ArchiveMonth]]:
    """Return the months to be in an archive, table by table, the first one first.

    Args:
        kept: How many whole months of each table stay in the database alone.
        at: Now.
    """
    return [
        (TABLES[name], month)
        for name, months in kept.items()
        for month in due_months(name, kept_months=months, at=at)
    ]


def due_months(table_name: str, *, kept_months: int, at: datetime) -> list[ArchiveMonth]:
    """Return the months of a table that are in the database for longer than they are kept.

    Args:
        table_name: Whose.
        kept_months: How many whole months before this one.
        at: Now.
    """
    count = at.year * MONTHS_PER_YEAR + at.month - 1 - kept_months
    end_at = datetime(count // MONTHS_PER_YEAR, count % MONTHS_PER_YEAR + 1, 1, tzinfo=UTC)
    table = TABLES[table_name]
    return months_before(table, MONTHS[table.name], end_at)


def ensure_archive(
    table: MonthTable,
    month: ArchiveMonth,
    *,
    root: Path,
    progress: Progress,
    actor: Actor,
    check: FilesCheck = require_files,
) -> tuple[Path, ArchiveManifest]:
    """Return the archive of a month, which is written where it is not there yet.

    One that is there and was not recorded in the audit trail is recorded: the process that finished
    it ended before it could.

    Args:
        table: Whose.
        month: Which.
        root: Where archives are.
        progress: Takes how many rows are written or compared.
        actor: The person, or the service itself, for the audit trail.
        check: Holds the files of one that is there to its manifest.

    Raises:
        ArchiveBusyError: Another process writes it.
        MonthNotFinishedError: Something of the month can still change.
        ArchiveDiffersError: A file of the archive was altered, or it is not the recorded one.
    """
    if not (root / table.folder(month)).exists():
        return write_archive(table, month, root=root, progress=progress, actor=actor)
    folder, manifest, digest = read_archive(table, month, root=root, check=check)
    _record(table, month, root=root, manifest=manifest, digest=digest, actor=actor, is_new=False)
    return folder, manifest


def write_archive(
    table: MonthTable, month: ArchiveMonth, *, root: Path, progress: Progress, actor: Actor
) -> tuple[Path, ArchiveManifest]:
    """Write the archive of a month, read it back, record it, and return its folder and manifest.

    What an earlier attempt left is removed first. All is of one state of the database, which is
    read in a transaction that writes nothing; the audit entry is written after it, once the folder
    is complete.

    Args:
        table: Whose.
        month: Which.
        root: Where archives are.
        progress: Takes how many rows are written or compared.
        actor: The person, or the service itself, for the audit trail.

    Raises:
        ArchiveBusyError: Another process writes it.
        MonthNotFinishedError: Something of the month can still change.
        MonthArchivedError: It is detached.
        MonthNotArchivedError: There is no such partition.
        ArchiveDiffersError: The archive exists, or what was written is not what is read back.
    """
    folder = _write_folder(table, month, root=root, progress=progress)
    manifest, digest = read_manifest(folder)
    _record(table, month, root=root, manifest=manifest, digest=digest, actor=actor, is_new=True)
    return folder, manifest


def _write_folder(
    table: MonthTable, month: ArchiveMonth, *, root: Path, progress: Progress
) -> Path:
    with snapshot():
        if not try_tick_lock(f"archive {root / table.folder(month)}"):
            raise ArchiveBusyError(f"{root / table.folder(month)} is being written.")
        require_finished(table, month)
        require_partition(table, month)
        source = table.rows(month)
        folder = begin_folder(root / table.folder(month))
        columns = archived_columns(table)
        read = partial(copy_rows, source, columns, key=table.key)
        rows = write_table(folder / rows_file(table), read(), columns, progress=progress)
        facts = _write_facts(table, source, folder=folder, progress=progress)
        windows = write_lines(folder / WINDOWS, window_lines(month))
        count, sums = sums_of(source, table)
        manifest = ArchiveManifest(
            table=table.name,
            month=month.label,
            rows=count,
            sums=sums,
            schema_version=schema_version(table.app),
            columns=columns,
            windows=(folder / WINDOWS).read_bytes().count(b"\n") - 1,
            audit=audit_head(),
            files=(rows, *facts, windows),
        )
        require_files(folder, manifest)
        if require_same_rows(folder / rows.name, read(), columns, progress=progress) != count:
            raise ArchiveDiffersError(f"{folder} has other rows than were counted.")
        require_facts(table, source, folder=folder, progress=progress)
        return finish_folder(folder, manifest)


def _write_facts(
    table: MonthTable, source: str, *, folder: Path, progress: Progress
) -> list[ArchivedFile]:
    """Write what the rows of a relation name by id, a file for each kind."""
    files = []
    for facts in table.facts:
        columns = columns_of(facts.table)
        rows = copy_rows(facts.rows(source), columns, key="id")
        files.append(write_table(folder / facts.file, rows, columns, progress=progress))
    return files


def _record(  # noqa: PLR0913 - All are keyword only.
    table: MonthTable,
    month: ArchiveMonth,
    *,
    root: Path,
    manifest: ArchiveManifest,
    digest: str,
    actor: Actor,
    is_new: bool,
) -> None:
    record_archive(
        table=table,
        month=month,
        manifest=manifest,
        manifest_sha256=digest,
        location=str(root),
        is_new=is_new,
        actor=actor,
        at=database_now(),
    )

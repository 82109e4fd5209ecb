"""Detaching a month that is in an archive, and restoring it; for the owner of the tables."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

from django.db import IntegrityError, OperationalError, connection, transaction
from psycopg.errors import DeadlockDetected, LockNotAvailable

from tenants.domain.actors import Actor
from tenants.domain.archives import (
    ArchivedColumn,
    ArchiveDiffersError,
    ArchiveManifest,
    ArchiveMonth,
    ArchiveReasonMissingError,
    MonthNotArchivedError,
    MonthTable,
    NotTableOwnerError,
    TableBusyError,
)
from tenants.models import ArchivedMonth
from tenants.selectors.archives import (
    ARCHIVED,
    DETACHED,
    RESTORED,
    archive_digests,
    archived_columns,
    archived_month,
    copy_rows,
    owns_tables,
    require_partition,
    require_recorded,
    sums_of,
)
from tenants.selectors.locks import METERED_HOURS_LOCK, wait_advisory_lock
from tenants.services.audit import record

ARCHIVE_LOCK: Final = 0x7465_0001_0000_0001
"""One process at a time records archives, so that each is recorded once."""
LOCK_SECONDS: Final = 5
"""How long a change of a table waits for its readers: all others wait behind it."""
SECONDS_MAX: Final = 6 * 3600
"""Of one statement: a month is read, or written, in one."""
_STAGED: Final = "restored_rows"
Compare = Callable[[Iterator[bytes], Sequence[ArchivedColumn]], int]
"""Compares the rows of the database, as CSV, with the archive; returns their number, or refuses."""


@transaction.atomic
def record_archive(  # noqa: PLR0913 - All are keyword only.
    *,
    table: MonthTable,
    month: ArchiveMonth,
    manifest: ArchiveManifest,
    manifest_sha256: str,
    location: str,
    is_new: bool,
    actor: Actor,
    at: datetime,
) -> bool:
    """Record in the audit trail that the archive of a month is complete; each digest once.

    Call it once the folder has its name. One that was finished by a process that ended before this
    is recorded by the next call that finds it.

    Args:
        table: Of which the month is archived.
        month: Which.
        manifest: Of its archive.
        manifest_sha256: Of the manifest's file.
        location: Where the archive is.
        is_new: Whether the caller has written it, and not found it.
        actor: The person, or the service itself.
        at: When.

    Returns:
        Whether an entry was written.

    Raises:
        ArchiveDiffersError: It was found, and is not the one that was recorded last at this
            location.
    """
    wait_advisory_lock(key=ARCHIVE_LOCK)
    name = table.folder(month)
    if not is_new:
        require_recorded(name, manifest_sha256=manifest_sha256, location=location)
    if any(digest == manifest_sha256 for digest, _ in archive_digests(name)):
        return False
    record(
        actor=actor,
        at=at,
        action=ARCHIVED,
        object_kind="archive",
        object_id=name,
        facts={
            "table": table.name,
            "month": month.label,
            "rows": manifest.rows,
            "manifest_sha256": manifest_sha256,
            "location": location,
        },
    )
    return True


@transaction.atomic
def detach_month(  # noqa: PLR0913 - All are keyword only.
    *,
    table: MonthTable,
    month: ArchiveMonth,
    manifest: ArchiveManifest,
    manifest_sha256: str,
    windows_sha256: str,
    location: str,
    compare: Compare,
    require_finished: Callable[[], None],
    reason: str,
    actor: Actor,
    at: datetime,
) -> ArchivedMonth:
    """Return the row of a month whose partition was detached and dropped.

    Nothing is written to the month while it is compared.

    Args:
        table: Of which the month is detached.
        month: A closed one.
        manifest: Of its archive, whose files are as they were written.
        manifest_sha256: Of the manifest's file.
        windows_sha256: Of the file of windows, which are still those of the database.
        location: Where the archive is, for those that look for the rows.
        compare: Holds the rows to the archive.
        require_finished: Refuses a month that can change again, once the rows are compared.
        reason: Why, for the audit trail.
        actor: The person.
        at: When.

    Raises:
        ArchiveReasonMissingError: There is no reason.
        NotTableOwnerError: The database role does not own the table.
        MonthArchivedError: It is detached already.
        MonthNotArchivedError: There is no such partition.
        MonthNotFinishedError: Something of the month can change again.
        ArchiveDiffersError: The archive is not what the database has, or not the recorded one.
        TableBusyError: The table is read or written for so long.
    """
    note = _begin(table, reason)
    partition = require_partition(table, month)
    _lock(f"LOCK TABLE {partition} IN SHARE MODE")
    _require_same(table, month, manifest, archived_columns(table), compare)
    require_recorded(table.folder(month), manifest_sha256=manifest_sha256, location=location)
    # Comparing takes up to hours, in which a cluster may have got an earlier first hour.
    _lock(f"SELECT pg_advisory_xact_lock({METERED_HOURS_LOCK})")
    require_finished()
    row = ArchivedMonth.objects.create(
        table_name=table.name,
        label=month.label,
        begin_at=month.begin_at,
        end_at=month.end_at,
        row_count=manifest.rows,
        sums=dict(manifest.sums),
        manifest_sha256=manifest_sha256,
        windows_sha256=windows_sha256,
        location=location,
        detached_at=at,
        detached_by=actor.label,
        reason=note,
    )
    _lock(f"ALTER TABLE {table.table} DETACH PARTITION {partition}")
    _lock(f"DROP TABLE {partition}")
    _record(row, DETACHED, reason=note, location=location, actor=actor, at=at)
    return row


@transaction.atomic
def restore_month(  # noqa: PLR0913 - All are keyword only.
    *,
    table: MonthTable,
    month: ArchiveMonth,
    manifest: ArchiveManifest,
    manifest_sha256: str,
    rows: Iterator[bytes],
    compare: Compare,
    changed_windows: Callable[[ArchiveMonth], Sequence[str]],
    reason: str,
    location: str,
    actor: Actor,
    at: datetime,
) -> ArchivedMonth:
    """Return the row of a month whose rows are in a partition again, all of them or none.

    Args:
        table: Of which the month is restored.
        month: One that was detached.
        manifest: Of its archive, whose files are as they were written.
        manifest_sha256: Of the manifest's file.
        rows: Of the archive, as CSV without a header, with the columns of the manifest.
        compare: Holds the rows that were written to the archive.
        changed_windows: Names windows whose records are not those that were sealed.
        reason: Why, for the audit trail.
        location: Where the archive is.
        actor: The person.
        at: When.

    Raises:
        ArchiveReasonMissingError: There is no reason.
        NotTableOwnerError: The database role does not own the table.
        MonthNotArchivedError: The month is not detached.
        ArchiveDiffersError: It is another archive, or its rows do not fit.
        TableBusyError: The table is read or written for so long.
    """
    note = _begin(table, reason)
    row = archived_month(table.name, month)
    if row is None:
        raise MonthNotArchivedError(
            f"The {table.name} of {month.label} were not detached.", field="month"
        )
    if manifest_sha256 != row.manifest_sha256:
        raise ArchiveDiffersError(
            f"The manifest in {location} has the SHA-256 {manifest_sha256}; the month was detached"
            f" with {row.manifest_sha256}."
        )
    partition = table.partition(month)
    _write(partition, table, manifest, rows)
    row.restored_at, row.restored_by, row.restore_reason = at, actor.label, note
    row.save(update_fields=["restored_at", "restored_by", "restore_reason"])
    hours = f"FROM ('{month.begin_at.isoformat()}') TO ('{month.end_at.isoformat()}')"
    _lock(f"ALTER TABLE {table.table} ATTACH PARTITION {partition} FOR VALUES {hours}")
    _lock(f"SELECT {table.guard}('{partition}')")
    _require_same(table, month, manifest, manifest.columns, compare)
    if changed := changed_windows(month):
        raise ArchiveDiffersError(f"Restored, {changed[0]} would have other records than its seal.")
    _record(row, RESTORED, reason=note, location=location, actor=actor, at=at)
    return row


def _begin(table: MonthTable, reason: str) -> str:
    note = reason.strip()
    if not note:
        raise ArchiveReasonMissingError("There is no reason.", field="reason")
    if not owns_tables(table.table):
        raise NotTableOwnerError(f"This database role does not own {table.table}.")
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute(f"SET LOCAL {name} = '{SECONDS_MAX}s'")
    # One month is moved at a time. Two that compare the same month would wait for each other when
    # both drop it, and two that restore it would meet at the name of its partition.
    _lock("LOCK TABLE tenants_archivedmonth IN SHARE ROW EXCLUSIVE MODE")
    return note


def _require_same(
    table: MonthTable,
    month: ArchiveMonth,
    manifest: ArchiveManifest,
    columns: Sequence[ArchivedColumn],
    compare: Compare,
) -> None:
    rows = table.rows(month)
    count = compare(copy_rows(rows, columns, key=table.key), columns)
    totals = sums_of(rows, table)
    if (count, dict(manifest.sums)) != (manifest.rows, totals[1]) or count != totals[0]:
        raise ArchiveDiffersError(
            f"{table.partition(month)} has {totals[0]} rows with {totals[1]}, the manifest"
            f" {manifest.rows} with {dict(manifest.sums)}."
        )


def _write(
    partition: str, table: MonthTable, manifest: ArchiveManifest, rows: Iterator[bytes]
) -> None:
    """Write the rows into a table of their own, which becomes the partition when it is whole."""
    names = [column.name for column in manifest.columns]
    known = {column.name for column in archived_columns(table)}
    if unknown := sorted(set(names) - known):
        raise ArchiveDiffersError(f"{table.table} has no column {unknown[0]}, as the archive has.")
    made = f"TEMPORARY TABLE {_STAGED}" if table.restore else f"TABLE {partition}"
    into = _STAGED if table.restore else partition
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                f"CREATE {made} (LIKE {table.relation} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
            )
            with cursor.copy(f"COPY {into} ({', '.join(names)}) FROM STDIN (FORMAT csv)") as copy:
                for block in rows:
                    copy.write(block)
            if table.restore:
                cursor.execute(f"SELECT {table.restore}(%s, %s)", [_STAGED, partition])
                cursor.execute(f"DROP TABLE {_STAGED}")
    except IntegrityError as error:
        reason = str(error).partition("\n")[0]
        raise ArchiveDiffersError(f"The rows of the archive are refused: {reason}.") from error


def _lock(statement: str) -> None:
    """Run a statement that waits for others, for a few seconds.

    Raises:
        TableBusyError: Others hold the table for longer, or wait for this transaction too: the
            database ends one of two that wait for each other.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            message = f"The table was in use for {LOCK_SECONDS} seconds; nothing was changed."
        elif isinstance(error.__cause__, DeadlockDetected):
            message = "Another process used the table and waited for this one; nothing was changed."
        else:
            raise
        raise TableBusyError(message) from error


def _record(
    row: ArchivedMonth, action: str, *, reason: str, location: str, actor: Actor, at: datetime
) -> None:
    record(
        actor=actor,
        at=at,
        action=action,
        object_kind="archived_month",
        object_id=row.pk,
        facts={
            "table": row.table_name,
            "month": row.label,
            "rows": row.row_count,
            "manifest_sha256": row.manifest_sha256,
            "location": location,
            "reason": reason,
        },
    )

"""Archives of months: the tables that have them, and what reads, checks and restores an archive."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from django.conf import settings

from billing.adapters.archive_files import (
    FilesCheck,
    Progress,
    read_manifest,
    read_rows,
    require_files,
    require_same_rows,
)
from billing.selectors.archive import CHARGE_MONTHS, CHARGES, unfinished_billing
from metering.domain.efficiency.rules import thresholds_of
from metering.selectors.collection.archive import (
    USAGE,
    USAGE_MONTHS,
    changed_windows,
    unfinished_usage,
    windows_digest,
)
from metering.selectors.devices.archive import (
    DEVICE_MONTHS,
    DEVICES,
    changed_device_windows,
    unfinished_waste,
)
from tenants.domain.actors import Actor
from tenants.domain.archives import (
    ArchivedColumn,
    ArchiveDiffersError,
    ArchivedTable,
    ArchiveManifest,
    ArchiveMonth,
    MonthNotFinishedError,
    MonthTable,
)
from tenants.domain.errors import DomainError
from tenants.domain.verification import Check, CheckedBatch, Cursor
from tenants.models import ArchivedMonth
from tenants.selectors.archives import (
    archived_columns,
    archived_months,
    columns_of,
    copy_rows,
    entry_differences,
    missing_partitions,
    require_partition,
)
from tenants.selectors.clock import database_now
from tenants.services.archives import detach_month, restore_month

TABLES: Final[Mapping[str, MonthTable]] = {one.name.value: one for one in (USAGE, CHARGES, DEVICES)}
DETACHED: Final = (USAGE.name.value, DEVICES.name.value)
"""The tables whose months are detached: documents are still made of charges of earlier months."""
WINDOWS: Final = "windows.csv"
MONTHS: Final = {
    ArchivedTable.USAGE: USAGE_MONTHS,
    ArchivedTable.CHARGES: CHARGE_MONTHS,
    ArchivedTable.DEVICES: DEVICE_MONTHS,
}
"""SQL of the months of each table that have rows."""


def _unfinished_comparisons(month: ArchiveMonth) -> list[str]:
    """Return for how long the use of a month is still read without anybody asking, as a phrase."""
    thresholds = thresholds_of(settings.WASTE_THRESHOLDS)
    hours, reason = max(
        (thresholds.hoarding_hours, "quotas are compared with its use"),
        (thresholds.hours_max, "waste is derived from its use"),
    )
    left = month.end_at + timedelta(hours=hours) - database_now()
    days = -(-left // timedelta(days=1))
    return [f"{days} days in which {reason}"] if days > 0 else []


def _unfinished_waste(month: ArchiveMonth) -> list[str]:
    """Return what waste is still derived from the device rows of a month, as phrases."""
    hours = thresholds_of(settings.WASTE_THRESHOLDS).hours_max
    return unfinished_waste(month, hours=hours, at=database_now())


_UNFINISHED: Final[Mapping[ArchivedTable, Callable[[ArchiveMonth], Sequence[str]]]] = {
    ArchivedTable.USAGE: _unfinished_comparisons,
    ArchivedTable.DEVICES: _unfinished_waste,
}
"""What only some tables wait for."""
_CHANGED: Final[Mapping[ArchivedTable, Callable[[ArchiveMonth], Sequence[str]]]] = {
    ArchivedTable.USAGE: changed_windows,
    ArchivedTable.DEVICES: changed_device_windows,
}


def rows_file(table: MonthTable) -> str:
    """Return the name of the file with a table's rows."""
    return f"{table.name}.parquet"


def require_finished(table: MonthTable, month: ArchiveMonth) -> None:
    """Refuse a month of which anything can still change, or is read every day.

    Raises:
        MonthNotFinishedError: With all that is left to do.
    """
    left = [] if month.end_at <= database_now() else ["the month is not over"]
    left += [*unfinished_usage(month), *unfinished_billing(month)]
    if table.name in _UNFINISHED:
        left += _UNFINISHED[table.name](month)
    if left:
        raise MonthNotFinishedError(
            f"{month.label} is not finished: {', '.join(left)}.", field="month"
        )


def require_facts(table: MonthTable, source: str, *, folder: Path, progress: Progress) -> None:
    """Compare what the rows of a relation name by id with the files of an archive.

    Raises:
        ArchiveDiffersError: A row differs, or one of them has more.
    """
    for facts in table.facts:
        columns = columns_of(facts.table)
        rows = copy_rows(facts.rows(source), columns, key="id")
        require_same_rows(folder / facts.file, rows, columns, progress=progress)


def read_archive(
    table: MonthTable, month: ArchiveMonth, *, root: Path, check: FilesCheck = require_files
) -> tuple[Path, ArchiveManifest, str]:
    """Return folder, manifest and digest of the manifest of an archive whose files are unaltered.

    Raises:
        ArchiveDiffersError: A file is missing, altered or not in the manifest, or it is the archive
            of another month.
    """
    folder = root / table.folder(month)
    manifest, digest = read_manifest(folder)
    if (manifest.table, manifest.month) != (table.name, month.label):
        raise ArchiveDiffersError(f"{folder} is of {manifest.table} of {manifest.month}.")
    for name in (rows_file(table), WINDOWS, *(facts.file for facts in table.facts)):
        manifest.file(name)
    check(folder, manifest)
    return folder, manifest, digest


def archives_check(root: Path | None = None) -> Check:
    """Return the check of archived months.

    Args:
        root: Where their archives are, to read them too; None without.
    """

    def check(_: Cursor) -> CheckedBatch:
        months = archived_months()
        found = entry_differences()
        for row in months:
            found += _differences(row)
            if root is not None:
                found += _file_differences(row, root)
        for table in TABLES.values():
            found += [
                f"{name} is missing, and its month is not archived."
                for name in missing_partitions(table, MONTHS[table.name])
            ]
        return CheckedBatch(len(months), tuple(found))

    return check


def _differences(row: ArchivedMonth) -> list[str]:
    table, month = TABLES[row.table_name], ArchiveMonth.parse(row.label)
    found = []
    if columns_of(table.partition(month)):
        found.append(f"The {row.table_name} of {row.label} is archived, and has a partition.")
    if windows_digest(month) != row.windows_sha256:
        found.append(f"The windows of {row.label} are not those of the archive of {row}.")
    return found


def _file_differences(row: ArchivedMonth, root: Path) -> list[str]:
    table, month = TABLES[row.table_name], ArchiveMonth.parse(row.label)
    try:
        folder, manifest, digest = read_archive(table, month, root=root)
    except DomainError as error:
        return [error.message]
    if digest != row.manifest_sha256:
        return [f"The manifest in {folder} is not that of the archived month {row.pk}."]
    if manifest.rows != row.row_count or dict(manifest.sums) != row.sums:
        return [f"The archived month {row.pk} has other sums than its manifest in {folder}."]
    return []


def detach_archived(
    table_name: str,
    label: str,
    *,
    root: Path,
    progress: Progress,
    reason: str,
    actor: Actor,
) -> ArchivedMonth:
    """Drop the partition of a month whose archive is complete, and return its row.

    Raises:
        MonthArchivedError: It is detached already.
        MonthNotArchivedError: There is no such partition.
        MonthNotFinishedError: Something of the month can change again.
        ArchiveDiffersError: A file is missing or altered, or differs from the database.
    """
    table, month = TABLES[table_name], ArchiveMonth.parse(label)
    require_partition(table, month)
    folder, manifest, digest = read_archive(table, month, root=root)
    windows = manifest.file(WINDOWS).sha256

    def require_unchanged() -> None:
        if windows_digest(month) != windows:
            raise ArchiveDiffersError(f"{folder / WINDOWS} differs from the windows of {label}.")
        require_finished(table, month)

    def compare(blocks: Iterator[bytes], columns: Sequence[ArchivedColumn]) -> int:
        count = require_same_rows(folder / rows_file(table), blocks, columns, progress=progress)
        # Hours may lie between the digests and the rows: another file may be there by then.
        require_files(folder, manifest)
        return count

    require_unchanged()
    if manifest.columns != archived_columns(table):
        # By them the rows are written back, once the archive is all that is left of them.
        raise ArchiveDiffersError(f"{folder} has other columns than the database.")
    require_facts(table, table.rows(month), folder=folder, progress=progress)
    return detach_month(
        table=table,
        month=month,
        manifest=manifest,
        manifest_sha256=digest,
        windows_sha256=windows,
        location=str(root),
        compare=compare,
        require_finished=require_unchanged,
        reason=reason,
        actor=actor,
        at=database_now(),
    )


def restore_archived(
    table_name: str,
    label: str,
    *,
    root: Path,
    progress: Progress,
    reason: str,
    actor: Actor,
) -> ArchivedMonth:
    """Write a detached month back from its archive, and return its row.

    Raises:
        ArchiveDiffersError: A file is missing or altered.
    """
    table, month = TABLES[table_name], ArchiveMonth.parse(label)
    folder, manifest, digest = read_archive(table, month, root=root)
    path = folder / rows_file(table)

    def changed(month: ArchiveMonth) -> Sequence[str]:
        # Hours may lie between the digests and the rows: another file may be there by then.
        require_files(folder, manifest)
        require_facts(table, table.rows(month), folder=folder, progress=progress)
        return _CHANGED[table.name](month)

    return restore_month(
        table=table,
        month=month,
        manifest=manifest,
        manifest_sha256=digest,
        rows=read_rows(path, manifest.columns),
        compare=partial(require_same_rows, path, progress=progress),
        changed_windows=changed,
        reason=reason,
        location=str(root),
        actor=actor,
        at=database_now(),
    )

"""Archived months: the rows of one table of a closed UTC month in files, with a manifest."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, Self

import msgspec

from tenants.domain.errors import ConflictError, ForbiddenError, InvalidInputError

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
_LABEL: Final = re.compile(r"(20\d\d|21\d\d)-(0[1-9]|1[0-2])", re.ASCII)
_FILE: Final = re.compile(r"[a-z_]+\.(?:parquet|csv)", re.ASCII)
"""Names of the files of an archive; they lie beside the manifest."""
MONTHS_PER_YEAR: Final = 12
MONTHS_KEPT_MAX: Final = 1_200


class ArchivedTable(StrEnum):
    """The tables whose months are archived."""

    USAGE = "usage"
    CHARGES = "charges"
    DEVICES = "devices"


class ArchiveMonthInvalidError(InvalidInputError):
    """The text names no month."""

    code = "archive_month_invalid"
    remedy = "Write year and month, such as 2025-09."


class MonthNotFinishedError(ConflictError):
    """Rows of the month can still be added, so it is not archived."""

    code = "month_not_finished"
    remedy = "Finish what is named, then archive the month."


class MonthArchivedError(ConflictError):
    """The rows are not in the database but in an archive."""

    code = "month_archived"
    remedy = "Ask a platform administrator to run manage.py restore_month for the month."


class MonthNotArchivedError(ConflictError):
    """No archived month is registered, or its partition is not there."""

    code = "month_not_archived"
    remedy = "Compare the month and the table with those of manage.py verify."


class ArchiveDiffersError(ConflictError):
    """A file of an archive is missing, was altered, or is not what the database has."""

    code = "archive_differs"
    remedy = "Use an unaltered copy of the archive, or archive the month anew."


class ArchiveBusyError(ConflictError):
    """Another process writes the archive of the month."""

    code = "archive_busy"
    remedy = "Wait until it has ended."


class NotTableOwnerError(ForbiddenError):
    """The database role does not own the table."""

    code = "not_table_owner"
    remedy = "Run the command with DATABASE_URL of the owner of the tables."


class TableBusyError(ConflictError):
    """Others read or write the table for longer than a change of it may wait."""

    code = "table_busy"
    remedy = "Run the command again when no long report or backup reads the table."


class ArchiveReasonMissingError(InvalidInputError):
    """A month is detached and restored for a reason that stands in the audit trail."""

    code = "archive_reason_missing"
    remedy = "Say in a sentence why, with --reason."


@dataclass(frozen=True)
class ArchiveMonth:
    """A month in UTC, as partitions are divided."""

    label: str
    begin_at: datetime
    end_at: datetime

    @classmethod
    def parse(cls, label: str) -> Self:
        """Return the month of a label such as "2025-09".

        Raises:
            ArchiveMonthInvalidError: It names none.
        """
        if (found := _LABEL.fullmatch(label)) is None:
            raise ArchiveMonthInvalidError(f"{label} is not a month.", field="month")
        year, month = int(found[1]), int(found[2])
        following = (year + month // MONTHS_PER_YEAR, month % MONTHS_PER_YEAR + 1)
        return cls(label, datetime(year, month, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC))

    @property
    def ending(self) -> str:
        """The end of the names of its partitions, such as "2025_09"."""
        return self.label.replace("-", "_")


@dataclass(frozen=True)
class ArchivedFacts:
    """Rows that the rows of a month name by id; they stay in the database, and are archived too.

    Attributes:
        name: Of their file.
        table: In the database.
        column: Of the month's rows, with the id.
    """

    name: str
    table: str
    column: str

    @property
    def file(self) -> str:
        """The name of their file."""
        return f"{self.name}.parquet"

    def rows(self, relation: str) -> str:
        """Return SQL of those that the rows of a relation name."""
        named = f"SELECT {self.column} FROM {relation} named"  # noqa: S608 - Ours.
        return f"(SELECT * FROM {self.table} WHERE id IN ({named}))"  # noqa: S608 - Ours.


@dataclass(frozen=True)
class MonthTable:
    """A table with a partition for each UTC month.

    Attributes:
        table: Its name in the database.
        key: The columns that its rows are archived in the order of.
        sums: SQL of a JSON object: what is added up over the rows, as texts.
        guard: The SQL function that gives a new partition its triggers and privileges.
        relation: The relation with the columns that are archived: a view, or the table itself.
        facts: What its rows name by id.
        restore: The SQL function that writes rows of that relation, which stand in a temporary
            table, into the table of a partition; "" where the partition has the same columns.
        left_out: Columns of the relation that only say where a row is stored.
    """

    name: ArchivedTable
    app: str
    table: str
    key: str
    sums: str
    guard: str
    relation: str
    facts: Sequence[ArchivedFacts] = ()
    restore: str = ""
    left_out: tuple[str, ...] = ()

    def partition(self, month: ArchiveMonth) -> str:
        """Return the name of a month's partition."""
        return f"{self.table}_{month.ending}"

    def rows(self, month: ArchiveMonth) -> str:
        """Return SQL of a month's rows, which roles without rights on the partition may read."""
        hours = f"'{month.begin_at.isoformat()}' AND window_start < '{month.end_at.isoformat()}'"
        return f"(SELECT * FROM {self.relation} WHERE window_start >= {hours})"  # noqa: S608 - Ours.

    def folder(self, month: ArchiveMonth) -> str:
        """Return the name of the folder of a month's archive."""
        return f"{self.name}-{month.label}"


@dataclass(frozen=True)
class ArchivedColumn:
    """A column with its type as PostgreSQL writes it, such as "numeric(20,10)"."""

    name: str
    type: str


@dataclass(frozen=True)
class ArchivedFile:
    """A file of an archive."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class ArchiveManifest:
    """What an archive has, and what of the database it was made of.

    Attributes:
        rows: How many.
        sums: Of the rows, exact, by name: unit-seconds, and money by currency.
        schema_version: The newest migration of the table's app.
        windows: How many sealed windows of the month, whose digests are in a file of the archive.
        audit: The newest audit entry with its leaf, and count and digest of the last verification.
    """

    table: str
    month: str
    rows: int
    sums: Mapping[str, str]
    schema_version: str
    columns: tuple[ArchivedColumn, ...]
    windows: int
    audit: Mapping[str, Any]
    files: tuple[ArchivedFile, ...]
    format: int = FORMAT

    def text(self) -> str:
        """Return it as JSON, always the same."""
        return json.dumps(asdict(self), indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the manifest of a text.

        Raises:
            ArchiveDiffersError: It is none of this format.
        """
        try:
            values = json.loads(text)
            if values["format"] != FORMAT:
                raise ArchiveDiffersError(f"{MANIFEST} has the format {values['format']}.")
            if unknown := sorted(values.keys() - {field.name for field in fields(cls)}):
                raise ArchiveDiffersError(f"{MANIFEST} cannot be read: {unknown[0]} is not known.")
            manifest = msgspec.convert(values, cls)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ArchiveDiffersError(f"{MANIFEST} cannot be read.") from error
        for file in manifest.files:
            if _FILE.fullmatch(file.name) is None:
                raise ArchiveDiffersError(f"{MANIFEST} names {file.name!r}, no file of an archive.")
        return manifest

    def file(self, name: str) -> ArchivedFile:
        """Return the entry of a file.

        Raises:
            ArchiveDiffersError: It has none.
        """
        for one in self.files:
            if one.name == name:
                return one
        raise ArchiveDiffersError(f"{MANIFEST} has no file {name}.")

"""Archived months: where they are, the rows of a month as they are archived, and their check."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django.db import connection

from tenants.domain.archives import (
    ArchivedColumn,
    ArchiveDiffersError,
    ArchivedTable,
    ArchiveMonth,
    MonthArchivedError,
    MonthNotArchivedError,
    MonthTable,
)
from tenants.domain.errors import FieldProblem
from tenants.models import ArchivedMonth, AuditEntry, Cluster, Verification

ARCHIVED: Final = "tenants:month:archive"
DETACHED: Final = "tenants:month:detach"
RESTORED: Final = "tenants:month:restore"
_TIME: Final = "timestamp with time zone"
_AS_TEXT: Final = re.compile(r"uuid|boolean|text|character varying\(\d+\)")
_COLUMNS: Final = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
 WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def archived_hour(table: ArchivedTable, hour: str) -> str:
    """Return SQL of whether the rows of an hour are archived.

    Args:
        table: Whose rows.
        hour: SQL of ours, the start of the hour.
    """
    return f"""EXISTS (
    SELECT FROM tenants_archivedmonth archived
     WHERE archived.table_name = '{table}' AND archived.restored_at IS NULL
       AND {hour} >= archived.begin_at AND {hour} < archived.end_at)"""


def archived_month(table: ArchivedTable, month: ArchiveMonth) -> ArchivedMonth | None:
    """Return the row of a month that is archived and not restored, or None."""
    rows = ArchivedMonth.objects.filter(table_name=table, restored_at=None)
    return rows.filter(begin_at=month.begin_at).first()


def is_archived(table: ArchivedTable, begin_at: datetime) -> bool:
    """Whether the rows of the month that begins at a time are archived and not restored."""
    rows = ArchivedMonth.objects.filter(table_name=table, restored_at=None)
    return rows.filter(begin_at=begin_at).exists()


def require_rows(
    *tables: ArchivedTable, begin_at: datetime | None, end_at: datetime | None
) -> None:
    """Refuse to read hours of which some are archived; one statement.

    Args:
        tables: Whose rows are read.
        begin_at: Start of the first hour; None for all before the end.
        end_at: End of the last hour, excluded; None for all since the start.

    Raises:
        MonthArchivedError: Some of these rows are in an archive.
    """
    rows = ArchivedMonth.objects.filter(table_name__in=tables, restored_at=None)
    if begin_at is not None:
        rows = rows.filter(end_at__gt=begin_at)
    if end_at is not None:
        rows = rows.filter(begin_at__lt=end_at)
    first = rows.order_by("begin_at", "table_name").first()
    if first is not None:
        raise MonthArchivedError(
            f"The {first.table_name} of {first.label} is archived."
            if first.table_name == ArchivedTable.USAGE
            else f"The {first.table_name} of {first.label} are archived.",
            facts={"month": first.label, "table": first.table_name},
        )


def archived_problems(
    cluster: Cluster, *, before: Cluster | None = None
) -> tuple[FieldProblem, ...]:
    """Return the problems of hours that a cluster would be metered in, and that are archived.

    Neither usage nor device figures are added to a month that is not in the database.

    Args:
        cluster: As it will be, with the hours that are metered of it.
        before: As it is; None for a new one.
    """
    begin_at, end_at = cluster.metered_from, cluster.metered_until
    if begin_at.tzinfo is None or (end_at is not None and end_at.tzinfo is None):
        return ()
    problems: list[FieldProblem] = []
    former_at = None if before is None else before.metered_from
    if former_at is None or begin_at < former_at:
        months = _archived_between(begin_at, min(filter(None, (former_at, end_at)), default=None))
        if months:
            first_at = min(filter(None, (months[-1].end_at, former_at)))
            problems.append(_archived("metered_from", months, f"an hour from {_hour(first_at)} on"))
    former_at = None if before is None else before.metered_until
    if former_at is not None and (end_at is None or end_at > former_at):
        months = _archived_between(max(begin_at, former_at), end_at)
        if months:
            last_at = _hour(max(months[0].begin_at, former_at))
            problems.append(_archived("metered_until", months, f"{last_at} or an earlier hour"))
    return tuple(problems)


def _archived_between(begin_at: datetime, end_at: datetime | None) -> list[ArchivedMonth]:
    rows = ArchivedMonth.objects.filter(restored_at=None, end_at__gt=begin_at)
    if end_at is not None:
        rows = rows.filter(begin_at__lt=end_at)
    return list(rows.order_by("begin_at", "table_name"))


def _archived(field: str, months: Sequence[ArchivedMonth], otherwise: str) -> FieldProblem:
    labels = list(dict.fromkeys(month.label for month in months))
    named = labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}"
    message = (
        f"Usage or devices of {named} are archived, so that these hours cannot be metered. Restore"
        f" what is archived first (manage.py restore_month), or use {otherwise}."
    )
    return FieldProblem(field, "month_archived", message)


def _hour(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def columns_of(table: str) -> tuple[ArchivedColumn, ...]:
    """Return the columns of a table, in their order."""
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS, [table])
        return tuple(ArchivedColumn(*row) for row in cursor.fetchall())


def archived_columns(table: MonthTable) -> tuple[ArchivedColumn, ...]:
    """Return the columns of a table that are archived, in their order."""
    return tuple(one for one in columns_of(table.relation) if one.name not in table.left_out)


def copy_rows(relation: str, columns: Sequence[ArchivedColumn], *, key: str) -> Iterator[bytes]:
    """Yield the rows of a table as CSV in blocks of whole rows, after a header.

    Times are microseconds since 1970.

    Args:
        relation: Its name or a query in brackets, ours.
        columns: Which.
        key: The columns they are in the order of.
    """
    chosen = ", ".join(_expression(column) for column in columns)
    yield from _copied(f"SELECT {chosen} FROM {relation} r ORDER BY {key}")  # noqa: S608 - Names of ours.


def _copied(query: str) -> Iterator[bytes]:
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)") as copy,
    ):
        yield from map(bytes, copy)


def _expression(column: ArchivedColumn) -> str:
    if column.type == _TIME:
        return f"(extract(epoch FROM {column.name}) * 1000000)::bigint AS {column.name}"
    return f"{column.name}::text" if _AS_TEXT.fullmatch(column.type) else column.name


def sums_of(relation: str, table: MonthTable) -> tuple[int, dict[str, str]]:
    """Return how many rows a month has, and their sums."""
    sums = table.sums.format(relation=relation)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*), ({sums}) FROM {relation} r")  # noqa: S608 - Ours.
        count, totals = cursor.fetchone()
    return int(count), {name: str(total) for name, total in json.loads(totals).items()}


def require_partition(table: MonthTable, month: ArchiveMonth) -> str:
    """Return the name of the partition of a month.

    Raises:
        MonthArchivedError: It was archived and detached.
        MonthNotArchivedError: There is none, and the month is not archived.
    """
    name = table.partition(month)
    if columns_of(name):
        return name
    require_rows(table.name, begin_at=month.begin_at, end_at=month.end_at)
    raise MonthNotArchivedError(f"The database has no table {name}.", field="month")


def schema_version(app: str) -> str:
    """Return the newest migration of an app."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name FROM django_migrations WHERE app = %s ORDER BY id DESC LIMIT 1", [app]
        )
        return str(cursor.fetchone()[0])


def audit_head() -> dict[str, Any]:
    """Return the newest audit entry, and what the last verification found of all before."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, encode(leaf, 'hex') FROM tenants_auditentry ORDER BY id DESC LIMIT 1"
        )
        entry_id, leaf = cursor.fetchone() or (0, "")
    last = Verification.objects.exclude(ended_at=None).order_by("-id").first()
    return {
        "entry": entry_id,
        "leaf": leaf,
        "verified_count": 0 if last is None else last.audit_count,
        "verified_digest": "" if last is None else last.audit_digest,
    }


def owns_tables(table: str) -> bool:
    """Whether the role of this session may detach and attach partitions of a table."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)",
            [table],
        )
        (is_owner,) = cursor.fetchone()
    return bool(is_owner)


_ENTRIES: Final = """
SELECT e.object_id, e.facts ->> 'month', e.facts ->> 'table'
  FROM tenants_auditentry e
  LEFT JOIN tenants_archivedmonth m
    ON m.id::text = e.object_id AND m.manifest_sha256 = e.facts ->> 'manifest_sha256'
   AND (e.action = %(detached)s OR m.restored_at IS NOT NULL)
 WHERE e.object_kind = 'archived_month' AND e.action IN (%(detached)s, %(restored)s)
   AND m.id IS NULL
 ORDER BY e.id
"""
_ROWS: Final = """
SELECT m.id, count(e.id) FILTER (WHERE e.action = %(detached)s),
       count(e.id) FILTER (WHERE e.action = %(restored)s)
  FROM tenants_archivedmonth m
  LEFT JOIN tenants_auditentry e
    ON (e.object_kind, e.object_id) = ('archived_month', m.id::text)
   AND e.facts ->> 'manifest_sha256' = m.manifest_sha256
   AND (e.facts ->> 'month', e.facts ->> 'table') = (m.label, m.table_name)
 GROUP BY m.id
"""


def entry_differences() -> list[str]:
    """Return in what archived months differ from the audit trail, a sentence each."""
    values = {"detached": DETACHED, "restored": RESTORED}
    with connection.cursor() as cursor:
        cursor.execute(_ENTRIES, values)
        found = [
            f"The {table} of {label} was detached or restored by the audit trail, and its row"
            f" {row_id} is not there, or is another."
            for row_id, label, table in cursor.fetchall()
        ]
        cursor.execute(_ROWS, values)
        entries = {row_id: counts for row_id, *counts in cursor.fetchall()}
    return found + [
        f"The archived month {row.pk}, {row}, is not that of the audit trail."
        for row in ArchivedMonth.objects.order_by("id")
        if entries[row.pk] != [1, 1 if row.restored_at else 0]
    ]


def archive_digests(name: str) -> list[tuple[str, str]]:
    """Return the digests of an archive's manifests in the audit trail with their locations.

    Args:
        name: Of its folder, such as "usage-2025-09".
    """
    entries = AuditEntry.objects.filter(object_kind="archive", object_id=name, action=ARCHIVED)
    return list(entries.order_by("id").values_list("facts__manifest_sha256", "facts__location"))


def require_recorded(name: str, *, manifest_sha256: str, location: str) -> None:
    """Refuse an archive that is not the one that was recorded last at its location, if any was.

    Args:
        name: Of its folder, such as "usage-2025-09".
        manifest_sha256: Of the manifest's file.
        location: Where the archive is.

    Raises:
        ArchiveDiffersError: It took the place of the recorded one.
    """
    recorded = [digest for digest, place in archive_digests(name) if place == location]
    if recorded and recorded[-1] != manifest_sha256:
        raise ArchiveDiffersError(
            f"The manifest of {name} in {location} has the SHA-256 {manifest_sha256}; the audit"
            f" trail has {recorded[-1]}."
        )


def archived_months() -> list[ArchivedMonth]:
    """Return the months that are archived and not restored, the first one first."""
    return list(ArchivedMonth.objects.filter(restored_at=None).order_by("begin_at", "table_name"))


def months_before(table: MonthTable, months: str, end_at: datetime) -> list[ArchiveMonth]:
    """Return the months of a table that ended by a time and are not detached, the first one first.

    Args:
        table: Whose.
        months: SQL of ours, of its months as `begin_at`.
        end_at: The end of the last month.
    """
    query = f"""
      SELECT to_char(m.begin_at AT TIME ZONE 'UTC', 'YYYY-MM') FROM ({months}) m
       WHERE m.begin_at < %s AND NOT {archived_hour(table.name, "m.begin_at")} ORDER BY 1"""  # noqa: S608 - Ours.
    with connection.cursor() as cursor:
        cursor.execute(query, [end_at])
        found = [ArchiveMonth.parse(label) for (label,) in cursor.fetchall()]
    return [month for month in found if month.end_at <= end_at]


def missing_partitions(table: MonthTable, months: str) -> list[str]:
    """Return the partitions that months with rows have to have, and have not.

    Args:
        table: With its partitions.
        months: SQL of ours: `begin_at` of each month that has rows.
    """
    query = f"""
SELECT to_char(n.begin_at AT TIME ZONE 'UTC', 'YYYY_MM') FROM ({months}) n
 WHERE to_regclass('public.{table.table}_' || to_char(n.begin_at AT TIME ZONE 'UTC', 'YYYY_MM'))
       IS NULL
   AND NOT {archived_hour(table.name, "n.begin_at")}
 ORDER BY 1
"""  # noqa: S608 - Put together from constants only.
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [f"{table.table}_{ending}" for (ending,) in cursor.fetchall()]

"""Usage and capacity totals: unit-seconds added up in the database, by tenant, size and time."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Count, DecimalField, ExpressionWrapper, F, Q, QuerySet, Sum
from django.db.models.functions import TruncDay, TruncHour

from metering.domain.catalogue.units import GPUSize
from metering.models import CapacityRecord, UsageRecord
from tenants.models import Project

_RATIO_STEP = Decimal("0.000001")


class UsageGroup(StrEnum):
    """Dimensions by which totals can be grouped."""

    ORGANIZATION = "organization"
    PROJECT = "project"
    OWNER = "owner"
    CLUSTER = "cluster"
    SIZE = "size"
    PRICE_GROUP = "price_group"
    DAY = "day"
    HOUR = "hour"


_COLUMNS = {
    UsageGroup.ORGANIZATION: "organization_id",
    UsageGroup.PROJECT: "project_id",
    UsageGroup.OWNER: "owner",
    UsageGroup.CLUSTER: "cluster_id",
    UsageGroup.SIZE: "size",
    UsageGroup.PRICE_GROUP: "price_group",
    UsageGroup.DAY: "bucket_at",
    UsageGroup.HOUR: "bucket_at",
}
USE_COLUMNS: Final = tuple(dict.fromkeys(_COLUMNS.values()))
"""Every column that use can be grouped by."""


@dataclass(frozen=True)
class UsageTotal:
    """One sum of usage; dimensions it is not grouped by are None.

    Attributes:
        bucket_at: Start of the UTC hour or day.
        busy_ratio: Mean busy share of its devices, weighted by unit-seconds, over the part for
            which it is known; None when it is known for none.
        busy_unit_seconds: That part.
        energy_millijoules: Of whole GPUs only; None when known for none.
    """

    organization_id: UUID | None
    project_id: UUID | None
    owner: str | None
    cluster_id: UUID | None
    size: str | None
    price_group: str | None
    bucket_at: datetime | None
    records: int
    unit_seconds: int
    busy_ratio: Decimal | None
    busy_unit_seconds: int
    energy_millijoules: int | None


def usage_totals(
    *,
    begin_at: datetime,
    end_at: datetime,
    group_by: Sequence[UsageGroup],
    projects: QuerySet[Project] | None = None,
    organization_id: UUID | None = None,
    project_id: UUID | None = None,
) -> tuple[UsageTotal, ...]:
    """Return sums over the windows that start in [begin_at, end_at), ordered by their groups.

    One statement, whatever the number of records. Windows not sealed yet are counted as known so
    far. With both day and hour, the hour wins.

    Args:
        begin_at: First hour, included.
        end_at: End, excluded.
        group_by: Dimensions; an empty value gives one total, or none without records.
        projects: Only these; None for all.
        organization_id: Only this organization's.
        project_id: Only this project's.
    """
    rows = UsageRecord.objects.filter(window_start__gte=begin_at, window_start__lt=end_at)
    if projects is not None:
        rows = rows.filter(project__in=projects.values("pk"))
    if organization_id is not None:
        rows = rows.filter(organization_id=organization_id)
    if project_id is not None:
        rows = rows.filter(project_id=project_id)
    return _totals(rows, groups=tuple(dict.fromkeys(group_by)))


def metered_records(window_id: int, *, start_at: datetime) -> list[UsageRecord]:
    """Return what was metered of a window, without corrections, by pod and resource."""
    rows = UsageRecord.objects.filter(window_start=start_at, window_id=window_id, revision=0)
    return list(rows.order_by("pod_uid", "resource"))


def group_columns(
    rows: QuerySet[Any], groups: Sequence[UsageGroup]
) -> tuple[tuple[str, ...], QuerySet[Any]]:
    """Return the columns of groups, and rows of windows that have them: hours in UTC."""
    if UsageGroup.HOUR in groups:
        rows = rows.annotate(bucket_at=TruncHour("window_start"))
    elif UsageGroup.DAY in groups:
        rows = rows.annotate(bucket_at=TruncDay("window_start"))
    return tuple(dict.fromkeys(_COLUMNS[group] for group in groups)), rows


def _totals(rows: QuerySet[UsageRecord], *, groups: Sequence[UsageGroup]) -> tuple[UsageTotal, ...]:
    columns, rows = group_columns(rows, groups)
    known = Q(activity__busy_ratio__isnull=False)
    weighted = ExpressionWrapper(
        F("activity__busy_ratio") * F("unit_seconds"),
        output_field=DecimalField(max_digits=38, decimal_places=6),
    )
    sums = {
        "records": Count("id"),
        "total": Sum("unit_seconds"),
        "busy_known": Sum("unit_seconds", filter=known),
        "busy_weighted": Sum(weighted, filter=known),
        "energy": Sum("activity__energy_millijoules", filter=Q(revision=0)),
    }
    if not columns:
        whole = rows.aggregate(**sums)
        return (_total(whole, columns=columns),) if whole["records"] else ()
    summed = rows.order_by(*columns).values(*columns).annotate(**sums)
    return tuple(_total(row, columns=columns) for row in summed)


def _total(row: dict[str, object], *, columns: Sequence[str]) -> UsageTotal:
    values = {name: row[name] if name in columns else None for name in USE_COLUMNS}
    known, weighted = row["busy_known"], row["busy_weighted"]
    ratio = None
    if isinstance(weighted, Decimal) and known:
        ratio = (weighted / int(str(known))).quantize(_RATIO_STEP, rounding=ROUND_HALF_UP)
    energy = row["energy"]
    return UsageTotal(
        **values,  # type: ignore[arg-type]
        records=int(str(row["records"])),
        unit_seconds=int(str(row["total"])),
        busy_ratio=ratio,
        busy_unit_seconds=int(str(known)) if known else 0,
        energy_millijoules=None if energy is None else int(str(energy)),
    )


# A window that is not collected yet has no records; from there on usage comes from the allocations,
# by the current binding of the namespace. Seconds are whole, as records count them.
_MONTH_USE: Final = """
WITH known AS (
  SELECT k.id AS cluster_id,
         greatest(%(begin)s, coalesce(max(w.start_at) + interval '1 hour', %(begin)s)) AS until_at
    FROM tenants_cluster k
    LEFT JOIN metering_meteringwindow w
      ON w.cluster_id = k.id AND w.start_at >= %(begin)s AND w.start_at < %(at)s
     AND w.state IN ('collected', 'reconciled', 'sealed')
   GROUP BY k.id),
used AS (
  SELECT r.organization_id, r.project_id, r.owner AS username, r.cluster_id, r.size,
         r.price_group, r.unit_seconds
    FROM metering_usage r JOIN known USING (cluster_id)
   WHERE r.window_start >= %(begin)s AND r.window_start < known.until_at
  UNION ALL
  SELECT p.organization_id, p.id, coalesce(nullif(a.owner, ''), u.username, ''), a.cluster_id,
         a.size, a.price_group,
         a.units * floor(extract(epoch FROM least(coalesce(a.end_at, %(at)s), %(at)s)
                                        - greatest(a.begin_at, known.until_at)))::bigint
    FROM metering_podallocation a
    JOIN known USING (cluster_id)
    JOIN tenants_namespacebinding b
      ON b.cluster_id = a.cluster_id AND b.namespace = a.namespace AND b.valid @> %(at)s
    JOIN tenants_project p ON p.id = b.project_id
    LEFT JOIN auth_user u ON u.id = b.default_owner_id
   WHERE a.size <> '' AND a.begin_at < %(at)s
     AND (a.end_at IS NULL OR a.end_at > known.until_at)
     AND greatest(a.begin_at, known.until_at) < %(at)s)
SELECT organization_id, project_id, username, cluster_id, size,
       split_part(price_group, '/', 1) AS model_group, sum(unit_seconds)::bigint
  FROM used
 GROUP BY 1, 2, 3, 4, 5, 6
HAVING sum(unit_seconds) <> 0
 ORDER BY 1, 2, 3, 4, 5, 6
"""


@dataclass(frozen=True)
class MonthUse:
    """Unit-seconds that one user of a project used of one size and GPU model on one cluster."""

    organization_id: UUID
    project_id: UUID
    username: str
    cluster_id: UUID
    size: str
    model_group: str
    unit_seconds: int


def month_use(*, month_begin: datetime, at: datetime) -> tuple[MonthUse, ...]:
    """Return what was used since the begin of a month, by tenant, person, size and model.

    One statement. Corrections that were posted count in their hour.

    Args:
        month_begin: The first moment of a UTC month.
        at: Up to when, UTC; decides whose a namespace is where no window was collected yet.
    """
    with connection.cursor() as cursor:
        cursor.execute(_MONTH_USE, {"begin": month_begin, "at": at})
        return tuple(MonthUse(*row) for row in cursor.fetchall())


# A retraction has no time of its own, so the time stays known if usage is added again.
NET_USAGE: Final = """
WITH reported AS (
  SELECT DISTINCT ON (r.pod_uid, r.resource) r.*, sum(r.unit_seconds) OVER k AS net_unit_seconds,
         min(r.id) OVER k AS record_id
    FROM metering_usage r
   WHERE r.window_id = %(window)s AND r.window_start = %(start)s
  WINDOW k AS (PARTITION BY r.pod_uid, r.resource)
   ORDER BY r.pod_uid, r.resource, (r.seconds > 0) DESC, r.revision DESC),
net AS MATERIALIZED (
  SELECT * FROM reported WHERE net_unit_seconds > 0)"""


# The hours without use count as 0: only the ranks above them are read.
_PEAKS: Final = """
WITH by_hour AS (
  SELECT project_id, size, window_start,
         ceil(sum(unit_seconds) / 3600) AS units
    FROM metering_usage
   WHERE window_start >= %(begin)s AND window_start < %(end)s
   GROUP BY 1, 2, 3),
ranked AS (
  SELECT project_id, size, units,
         row_number() OVER (PARTITION BY project_id, size ORDER BY units DESC) AS rank
    FROM by_hour)
SELECT project_id, size, GREATEST(0, units)::bigint FROM ranked WHERE rank = %(rank)s
"""


def peak_units(*, before: datetime, hours: int, percent: int) -> dict[tuple[UUID, GPUSize], int]:
    """Return the units that each project and size used in all but its busiest hours; one statement.

    Units of an hour are its unit-seconds over 3,600, rounded up. A key that is not there peaked
    at 0: it was used in too few hours.

    Args:
        before: End of the range, excluded.
        hours: How long it is.
        percent: The percentile, such as 95.
    """
    given: dict[str, datetime | int] = {
        "begin": before - timedelta(hours=hours),
        "end": before,
        "rank": hours - (hours * percent + 99) // 100 + 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PEAKS, given)
        return {(project, GPUSize(size)): int(units) for project, size, units in cursor.fetchall()}


_DAILY: Final = """
WITH by_hour AS (
  SELECT project_id, size, window_start, ceil(sum(unit_seconds) / 3600) AS units
    FROM metering_usage
   WHERE window_start >= %(begin)s AND window_start < %(end)s AND project_id = ANY(%(projects)s)
     AND price_group NOT LIKE '%%/burst'
   GROUP BY 1, 2, 3)
SELECT project_id, size, (window_start AT TIME ZONE 'UTC')::date, GREATEST(0, max(units))::bigint
  FROM by_hour
 GROUP BY 1, 2, 3
"""


def daily_peaks(
    project_ids: Collection[UUID], *, begin: date, end: date
) -> dict[tuple[UUID, GPUSize], dict[date, int]]:
    """Return the most units used in an hour of each UTC day, by project and size; one statement.

    A day that is not there was a day without use.

    Args:
        project_ids: The projects.
        begin: First day.
        end: The day after the last one.
    """
    given: dict[str, Any] = {
        "begin": datetime.combine(begin, time(), tzinfo=UTC),
        "end": datetime.combine(end, time(), tzinfo=UTC),
        "projects": list(project_ids),
    }
    peaks: dict[tuple[UUID, GPUSize], dict[date, int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_DAILY, given)
        for project_id, size, day, units in cursor.fetchall():
            peaks.setdefault((project_id, GPUSize(size)), {})[day] = int(units)
    return peaks


@dataclass(frozen=True)
class CapacityTotal:
    """One cluster's one size: capacity = billed + held + idle, in unit-seconds of that size."""

    cluster_id: UUID
    size: str
    price_group: str
    capacity_unit_seconds: int
    billed_unit_seconds: int
    held_unit_seconds: int
    idle_unit_seconds: int


def capacity_totals(*, begin_at: datetime, end_at: datetime) -> tuple[CapacityTotal, ...]:
    """Return totals over the windows that start in [begin_at, end_at), by cluster, size and group.

    What no rule could size has the size "".
    """
    rows = (
        CapacityRecord.objects.filter(window_start__gte=begin_at, window_start__lt=end_at)
        .order_by("cluster_id", "size", "price_group")
        .values_list("cluster_id", "size", "price_group")
        .annotate(
            capacity=Sum("capacity_unit_seconds"),
            billed=Sum("billed_unit_seconds"),
            held=Sum("held_unit_seconds"),
            idle=Sum("idle_unit_seconds"),
        )
    )
    return tuple(
        CapacityTotal(cluster_id, size, group, *(int(total) for total in totals))
        for cluster_id, size, group, *totals in rows
    )

"""Usage totals: unit-seconds added up by organization, project, size and time, in the database."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from uuid import UUID

from django.db.models import Count, DecimalField, ExpressionWrapper, F, Q, QuerySet, Sum
from django.db.models.functions import TruncDay, TruncHour

from metering.models import UsageRecord
from tenants.models import Project

_RATIO_STEP = Decimal("0.000001")


class UsageGroup(StrEnum):
    """What totals can be told apart by."""

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


@dataclass(frozen=True)
class UsageTotal:
    """One sum of usage; what it was not told apart by is None.

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

    One statement, whatever the number of records. Windows not sealed yet are counted as they are
    known so far. A time cannot be told apart both by day and by hour; the hour wins.

    Args:
        begin_at: First hour, included.
        end_at: End, excluded.
        group_by: What to tell apart; nothing gives one total, or none without records.
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


def _totals(rows: QuerySet[UsageRecord], *, groups: Sequence[UsageGroup]) -> tuple[UsageTotal, ...]:
    if UsageGroup.HOUR in groups:
        rows = rows.annotate(bucket_at=TruncHour("window_start"))
    elif UsageGroup.DAY in groups:
        rows = rows.annotate(bucket_at=TruncDay("window_start"))
    columns = tuple(dict.fromkeys(_COLUMNS[group] for group in groups))
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
    names = ("organization_id", "project_id", "owner", "cluster_id", "size", "price_group")
    told = {name: row[name] if name in columns else None for name in (*names, "bucket_at")}
    known, weighted = row["busy_known"], row["busy_weighted"]
    ratio = None
    if isinstance(weighted, Decimal) and known:
        ratio = (weighted / int(str(known))).quantize(_RATIO_STEP, rounding=ROUND_HALF_UP)
    energy = row["energy"]
    return UsageTotal(
        **told,  # type: ignore[arg-type]
        records=int(str(row["records"])),
        unit_seconds=int(str(row["total"])),
        busy_ratio=ratio,
        busy_unit_seconds=int(str(known)) if known else 0,
        energy_millijoules=None if energy is None else int(str(energy)),
    )

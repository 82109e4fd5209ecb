"""Device figures for reports: how busy devices were, their events, sizes and cluster health."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Final
from uuid import UUID

from django.db.models import Count, DecimalField, ExpressionWrapper, F, Max, Q, QuerySet, Sum
from django.db.models.functions import Cast

from metering.domain.catalogue.units import CLAIM_PREFIX, GPUSize, SharingMode
from metering.domain.devices.attribution import Kind, Place, profile_in
from metering.domain.devices.events import LevelKey
from metering.domain.devices.figures import COVERAGE_MIN, Attribution
from metering.models import CapacityRecord, ClusterHealth, DeviceEvent, DeviceUsage, UsageRecord
from tenants.domain.archives import ArchivedTable
from tenants.selectors.archives import require_rows

_STEP = Decimal("0.000001")
_EXACT: DecimalField = DecimalField(max_digits=38, decimal_places=6)  # type: ignore[type-arg]
_COVERAGE_MIN = Decimal(COVERAGE_MIN.numerator) / COVERAGE_MIN.denominator
_FIGURES = {
    "busy": ("busy_ratio", "busy_coverage"),
    "sm": ("sm_active_ratio", "sm_active_coverage"),
    "dram": ("dram_active_ratio", "dram_active_coverage"),
    "power": ("power_mean_milliwatts", "power_coverage"),
}


@dataclass(frozen=True)
class KnownMean:
    """A mean over device-seconds, and over how many of them it is known.

    Attributes:
        value: None when it is known for none: that is no data, not 0.
    """

    value: Decimal | None
    seconds: int


@dataclass(frozen=True)
class ProjectDevices:
    """What one project used, and what its own devices did meanwhile.

    Attributes:
        unit_seconds: All sizes together, shared devices too.
        energy_millijoules: Of its usage records that know; None when none does.
        device_seconds: Of devices that served its pods alone.
        memory_peak_ratio: The largest share of a device's memory in use at a sample.
        power: Mean milliwatts of the physical GPUs, whole ones only.
    """

    project_id: UUID
    unit_seconds: int
    energy_millijoules: int | None
    device_seconds: int
    busy: KnownMean
    sm_active: KnownMean
    dram_active: KnownMean
    memory_peak_ratio: Decimal | None
    power: KnownMean


def project_devices(
    *, begin_at: datetime, end_at: datetime, cluster_id: UUID | None = None
) -> tuple[ProjectDevices, ...]:
    """Return each project's use and its devices' activity, by project id; three statements.

    Only stretches of which at least 80 % was sampled count towards a mean, each by its seconds.

    Args:
        begin_at: First hour, included.
        end_at: End, excluded.
        cluster_id: Only this cluster's; None for all.

    Raises:
        MonthArchivedError: Some of these hours are in an archive.
    """
    require_rows(ArchivedTable.USAGE, ArchivedTable.DEVICES, begin_at=begin_at, end_at=end_at)
    span = {"window_start__gte": begin_at, "window_start__lt": end_at}
    where = span if cluster_id is None else {**span, "cluster_id": cluster_id}
    energy = Sum("activity__energy_millijoules", filter=Q(revision=0))
    used = (
        UsageRecord.objects.filter(**where)
        .order_by("project_id")
        .values("project_id")
        .annotate(units=Sum("unit_seconds"), energy=energy)
    )
    devices = {row["project_id"]: row for row in _summed(DeviceUsage.objects.filter(**where))}
    return tuple(_project({**row}, devices.get(row["project_id"], {})) for row in used)


def _summed(rows: QuerySet[DeviceUsage]) -> Iterable[dict[str, object]]:
    sums: dict[str, object] = {"all_seconds": Sum("seconds")}
    for name, (column, coverage) in _FIGURES.items():
        known = Q(**{f"{column}__isnull": False, f"{coverage}__gte": _COVERAGE_MIN})
        if name == "power":
            known &= Q(instance_id="")
        weighted = ExpressionWrapper(Cast(column, _EXACT) * F("seconds"), output_field=_EXACT)
        sums[f"{name}_seconds"] = Sum("seconds", filter=known)
        sums[f"{name}_weighted"] = Sum(weighted, filter=known)
    share = Cast("memory_used_peak_mebibytes", _EXACT) / Cast("memory_total_mebibytes", _EXACT)
    sums["memory_peak"] = Max(
        ExpressionWrapper(share, output_field=_EXACT), filter=Q(memory_total_mebibytes__gt=0)
    )
    summed = (
        rows.filter(attribution=Attribution.EXCLUSIVE.value)
        .order_by("project_id")
        .values("project_id")
        .annotate(**sums)
    )
    return ({**row} for row in summed)


def _project(used: dict[str, object], devices: dict[str, object]) -> ProjectDevices:
    energy, peak = used["energy"], devices.get("memory_peak")
    return ProjectDevices(
        project_id=used["project_id"],  # type: ignore[arg-type]
        unit_seconds=_whole(used["units"]),
        energy_millijoules=None if energy is None else _whole(energy),
        device_seconds=_whole(devices.get("all_seconds")),
        busy=_mean(devices, "busy"),
        sm_active=_mean(devices, "sm"),
        dram_active=_mean(devices, "dram"),
        memory_peak_ratio=None if peak is None else _rounded(Decimal(str(peak))),
        power=_mean(devices, "power"),
    )


def _mean(row: dict[str, object], name: str) -> KnownMean:
    seconds = _whole(row.get(f"{name}_seconds"))
    weighted = row.get(f"{name}_weighted")
    if not seconds or not isinstance(weighted, Decimal):
        return KnownMean(None, 0)
    return KnownMean(_rounded(weighted / seconds), seconds)


def _whole(value: object) -> int:
    return int(str(value)) if value is not None else 0


def _rounded(value: Decimal) -> Decimal:
    return value.quantize(_STEP, rounding=ROUND_HALF_UP)


def device_kinds(window_id: int) -> dict[Place, Kind]:
    """Return by node and MIG profile what one unit of its devices is, as the window was sealed."""
    rows = (
        CapacityRecord.objects.filter(window_id=window_id, allocatable_units__gt=0)
        .exclude(sharing_mode="")
        .exclude(resource__startswith=CLAIM_PREFIX)
        .order_by("node", "resource")
        .values_list("node", "resource", "size", "price_group", "sharing_mode")
    )
    return {
        (node, profile_in(price_group)): Kind(resource, size, price_group, SharingMode(mode))
        for node, resource, size, price_group, mode in rows
    }


def nodes_with_held_usage(window_id: int) -> frozenset[str]:
    """Return the nodes on which pods held what is not billed, but kept in an exception."""
    return frozenset(
        CapacityRecord.objects.filter(window_id=window_id, held_unit_seconds__gt=0).values_list(
            "node", flat=True
        )
    )


def known_levels(cluster_id: UUID, *, before: datetime) -> dict[LevelKey, Decimal]:
    """Return the level each metric of a device last rose to before a time, in one statement."""
    rows = (
        DeviceEvent.objects.filter(cluster_id=cluster_id, begin_at__lt=before)
        .order_by("uuid", "instance_id", "metric", "-begin_at", "-pk")
        .distinct("uuid", "instance_id", "metric")
        .values_list("uuid", "instance_id", "metric", "value_after")
    )
    return {(uuid, instance, metric): value for uuid, instance, metric, value in rows}


SEEN_WITHIN: Final = timedelta(hours=48)
"""Long enough to outlast a maintenance, short enough to follow a re-partitioning."""


def sizes_seen(*, at: datetime) -> dict[tuple[UUID, str], frozenset[GPUSize]]:
    """Return the sizes each cluster's nodes lately offered under each name, in one statement.

    Keys are cluster id and resource name, as Kubernetes spells it.
    """
    rows = (
        CapacityRecord.objects.filter(window_start__gte=at - SEEN_WITHIN, window_start__lte=at)
        .exclude(size="")
        .values_list("cluster_id", "resource", "size")
        .order_by("cluster_id", "resource", "size")
        .distinct()
    )
    seen: dict[tuple[UUID, str], frozenset[GPUSize]] = {}
    for cluster_id, resource, size in rows:
        key = (cluster_id, resource)
        seen[key] = seen.get(key, frozenset()) | {GPUSize(size)}
    return seen


@dataclass(frozen=True)
class HealthTotal:
    """One cluster over a range of hours; what no source knew is None.

    Attributes:
        pending_pods_max: Most GPU pods that waited at the end of an hour.
    """

    cluster_id: UUID
    hours: int
    expected_seconds: int | None
    ready_seconds: int | None
    pending_pods_max: int | None
    wait_seconds_max: int | None
    memory_errors: int
    failures: int


def health_totals(*, begin_at: datetime, end_at: datetime) -> tuple[HealthTotal, ...]:
    """Return each cluster's health over the hours that start in [begin_at, end_at), by its id."""
    rows = (
        ClusterHealth.objects.filter(window_start__gte=begin_at, window_start__lt=end_at)
        .order_by("cluster_id")
        .values_list("cluster_id")
        .annotate(
            hours=Count("pk"),
            expected=Sum("expected_seconds"),
            ready=Sum("ready_seconds"),
            pending=Max("pending_pods"),
            waited=Max("wait_seconds_max"),
            memory=Sum("memory_errors"),
            failed=Sum("failures"),
        )
    )
    return tuple(
        HealthTotal(
            cluster_id,
            hours,
            _to_whole(expected),
            _to_whole(ready),
            pending,
            waited,
            *counts,
        )
        for cluster_id, hours, expected, ready, pending, waited, *counts in rows
    )


def _to_whole(total: object) -> int | None:
    return None if total is None else int(str(total))

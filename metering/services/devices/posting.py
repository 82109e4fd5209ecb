"""Posting devices: the device figures of an hour, replaced whole in one transaction."""

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from functools import lru_cache
from typing import Final

from django.db import connection

from metering.domain.allocations.timeline import seconds_between
from metering.domain.devices.figures import Activity, Attribution
from metering.models import UsageRecord
from metering.protocols import DeviceObservation, Figure
from metering.services.devices.composition import DeviceRow
from metering.services.devices.leasing import LeasedDevices

_COLUMNS: Final = (
    "window_id, window_start, cluster_id, node, uuid, model, instance_id, instance_profile,"
    " attribution, namespace, pod_name, pod_uid, resource, organization_id, project_id, owner,"
    " size, price_group, sharing_mode, begin_at, end_at, seconds, busy_ratio, busy_coverage,"
    " is_busy_uncertain, sm_active_ratio, sm_active_coverage, tensor_active_ratio,"
    " tensor_active_coverage, dram_active_ratio, dram_active_coverage, memory_used_peak_mebibytes,"
    " memory_total_mebibytes, memory_coverage, power_mean_milliwatts, power_coverage,"
    " energy_millijoules, energy_coverage"
)
_STEP: Final = Decimal("0.00001")
UUID_MAX: Final = 64
MODEL_MAX: Final = 128
INSTANCE_MAX: Final = 16
PROFILE_MAX: Final = 32
NODE_MAX: Final = 253
NAMESPACE_MAX: Final = 63
"""What the table can keep. A label too long for it loses a device, not the hour."""


_ACTIVITY_COLUMNS: Final = (
    "window_id, window_start, pod_uid, resource, busy_ratio, busy_coverage, energy_millijoules"
)


def replace_activities(
    leased: LeasedDevices, *, rows: Sequence[tuple[UsageRecord, Activity]]
) -> None:
    """Replace what is known of the devices of the window's usage; two statements at most."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM metering_usageactivity WHERE window_id = %s", [leased.id])
        if rows:
            copying = f"COPY metering_usageactivity ({_ACTIVITY_COLUMNS}) FROM STDIN"
            with cursor.copy(copying) as copy:
                for usage, activity in rows:
                    copy.write_row(
                        (
                            leased.id,
                            leased.start_at,
                            usage.pod_uid,
                            usage.resource,
                            activity.busy_ratio,
                            activity.coverage,
                            activity.energy_millijoules,
                        )
                    )


def replace_devices(leased: LeasedDevices, *, rows: Sequence[DeviceRow]) -> None:
    """Replace the window's device usage; two statements, whatever the number of rows."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM metering_deviceusage WHERE window_id = %s", [leased.id])
        if rows:
            with cursor.copy(f"COPY metering_deviceusage ({_COLUMNS}) FROM STDIN") as copy:
                for row in rows:
                    if _is_storable(row.device):
                        copy.write_row(_values(leased, row=row))


def _is_storable(device: DeviceObservation) -> bool:
    """Whether a device's name fits; a shortened one could be confused with another."""
    return (
        len(device.uuid) <= UUID_MAX
        and len(device.instance_id) <= INSTANCE_MAX
        and len(device.instance_profile) <= PROFILE_MAX
    )


def _values(leased: LeasedDevices, *, row: DeviceRow) -> tuple[object, ...]:
    device = row.device
    return (
        leased.id,
        leased.start_at,
        leased.cluster_id,
        device.node[:NODE_MAX],
        device.uuid,
        device.model[:MODEL_MAX],
        device.instance_id,
        device.instance_profile,
        row.attribution.value,
        *_holder_values(row),
        *_kind_values(row),
        row.begin_at,
        row.end_at,
        seconds_between(row.begin_at, row.end_at),
        *_activity_values(device),
        *_figure_values(device, Figure.SM_ACTIVE, device.sm_active_ratio),
        *_figure_values(device, Figure.TENSOR_ACTIVE, device.tensor_active_ratio),
        *_figure_values(device, Figure.DRAM_ACTIVE, device.dram_active_ratio),
        device.memory_used_peak_mebibytes,
        *_figure_values(device, Figure.MEMORY, device.memory_total_mebibytes),
        *_figure_values(device, Figure.POWER, device.power_mean_milliwatts),
        row.energy,
        None
        if row.attribution is Attribution.OVERHEAD
        else _coverage(device, device.figure_samples.get(Figure.ENERGY, 0)),
    )


def _holder_values(row: DeviceRow) -> tuple[object, ...]:
    """Return namespace, pod, uid, resource, organization, project and owner."""
    usage, device = row.usage, row.device
    if usage is None:
        resource = row.kind.resource if row.kind else ""
        # The pod an exporter names for a shared device is an arbitrary one of several.
        is_arbitrary = row.attribution is Attribution.SHARED
        named = ("", "") if is_arbitrary else _name_of(device)
        return *named, "", resource, None, None, ""
    return (
        usage.namespace,
        usage.pod_name,
        usage.pod_uid,
        usage.resource,
        usage.organization_id,
        usage.project_id,
        usage.owner,
    )


def _name_of(device: DeviceObservation) -> tuple[str, str]:
    return device.namespace[:NAMESPACE_MAX], device.pod[:NODE_MAX]


def _kind_values(row: DeviceRow) -> tuple[object, ...]:
    """Return size, price group and sharing mode: what was held goes before what is offered now."""
    if row.usage is not None:
        return row.usage.size, row.usage.price_group, row.usage.sharing_mode
    if row.kind is None:
        return "", "", ""
    return row.kind.size, row.kind.price_group, row.kind.sharing_mode.value


def _activity_values(device: DeviceObservation) -> tuple[object, ...]:
    """Return busy ratio, its coverage, and whether it is uncertain: then there is no ratio."""
    ratio = None if device.is_busy_uncertain else device.busy_ratio
    return ratio, _coverage(device, device.samples), device.is_busy_uncertain


def _figure_values(
    device: DeviceObservation, figure: Figure, value: Decimal | int | None
) -> tuple[object, ...]:
    return value, _coverage(device, device.figure_samples.get(figure, 0))


def _coverage(device: DeviceObservation, samples: int) -> Decimal | None:
    return _ratio(samples, device.expected_samples)


@lru_cache(maxsize=4_096)
def _ratio(samples: int, expected: int) -> Decimal | None:
    """Return a share of scrapes; most devices of an hour have the same few."""
    if expected <= 0:
        return None
    seen = Decimal(min(samples, expected))
    return (seen / expected).quantize(_STEP, rounding=ROUND_DOWN)

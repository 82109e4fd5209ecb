"""Posting devices: the device figures of an hour, replaced whole in one transaction."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from django.db import connection

from metering.domain.devices.figures import Activity, Attribution
from metering.models import UsageRecord
from metering.protocols import DeviceObservation, Figure
from metering.services.devices.composition import DeviceRow
from metering.services.devices.leasing import LeasedDevices

FIGURES: Final = (
    "id, window_start, energy_millijoules, device_id, holder_id, coverage_id, begin_milliseconds,"
    " end_milliseconds, busy_millionths, sm_active_millionths, tensor_active_millionths,"
    " dram_active_millionths, memory_used_peak_mebibytes, memory_total_mebibytes,"
    " power_mean_milliwatts"
)
NUMBER_BITS: Final = 22
"""Of an id of device usage, the lowest: its number in its window, whose id is the rest."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_COVERAGE: Final = 100_000
"""Coverage is stored in hundred thousandths, rounded down."""
NO_DATA: Final = -1
"""A coverage that is not known."""
UUID_MAX: Final = 64
MODEL_MAX: Final = 128
INSTANCE_MAX: Final = 16
PROFILE_MAX: Final = 32
NODE_MAX: Final = 253
NAMESPACE_MAX: Final = 63
"""What the table can keep. A label too long for it loses a device, not the hour."""


_COVERED: Final = (
    Figure.SM_ACTIVE,
    Figure.TENSOR_ACTIVE,
    Figure.DRAM_ACTIVE,
    Figure.MEMORY,
    Figure.POWER,
)
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


@dataclass(frozen=True)
class FactTable:
    """A table of what repeats from hour to hour; see ADR 0108.

    Attributes:
        types: Its columns but the id, with their types.
        nullable: Those that may be NULL.
    """

    name: str
    types: Mapping[str, str]
    nullable: Collection[str] = ()


DEVICE_FACTS: Final = FactTable(
    "metering_devicefact",
    {
        "cluster_id": "uuid",
        "node": "text",
        "uuid": "text",
        "model": "text",
        "instance_id": "text",
        "instance_profile": "text",
    },
)
HOLDERS: Final = FactTable(
    "metering_deviceholder",
    {
        "attribution": "text",
        "namespace": "text",
        "pod_name": "text",
        "pod_uid": "text",
        "resource": "text",
        "organization_id": "uuid",
        "project_id": "uuid",
        "owner": "text",
        "size": "text",
        "price_group": "text",
        "sharing_mode": "text",
    },
    nullable=("organization_id", "project_id"),
)
COVERAGES: Final = FactTable(
    "metering_devicecoverage",
    {
        "busy": "integer",
        "sm_active": "integer",
        "tensor_active": "integer",
        "dram_active": "integer",
        "memory": "integer",
        "power": "integer",
        "energy": "integer",
        "is_busy_uncertain": "boolean",
    },
)
# Two posts at once may add the same fact twice; the first of them is taken then.
_FACTS: Final = """
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest({arrays}) WITH ORDINALITY AS a({columns}, number)),
known AS MATERIALIZED (
  SELECT a.number, min(f.id) AS id FROM asked a JOIN {table} f ON {match} GROUP BY a.number),
added AS (
  INSERT INTO {table} ({columns})
  SELECT {columns} FROM asked WHERE number NOT IN (SELECT number FROM known) ORDER BY number
  RETURNING id, {columns})
SELECT number, id FROM known
 UNION ALL
SELECT a.number, f.id FROM asked a JOIN added f ON {match}
 ORDER BY number
"""
Fact = tuple[object, ...]


def replace_devices(leased: LeasedDevices, *, rows: Sequence[DeviceRow]) -> None:
    """Replace the window's device usage; at most six statements, whatever the number of rows.

    Raises:
        ValueError: There are more rows than ids of the window.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_device_partition(%s)", [leased.start_at])
        cursor.execute(
            "DELETE FROM metering_devicefigure WHERE window_start = %s AND id >> %s = %s",
            [leased.start_at, NUMBER_BITS, leased.id],
        )
    stored = [row for row in rows if _is_storable(row.device)]
    if not stored:
        return
    if len(stored) > 1 << NUMBER_BITS:
        raise ValueError(f"window {leased.id} has {len(stored)} rows of devices")
    facts = zip(
        fact_ids(DEVICE_FACTS, [_device_of(leased, device=row.device) for row in stored]),
        fact_ids(HOLDERS, [_holder_of(row) for row in stored]),
        fact_ids(COVERAGES, [_coverage_of(row) for row in stored]),
        stored,
        strict=True,
    )
    copying = f"COPY metering_devicefigure ({FIGURES}) FROM STDIN"
    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        for row_id, (*ids, row) in enumerate(facts, leased.id << NUMBER_BITS):
            values = _figures_of(row, start_at=leased.start_at)
            copy.write_row((row_id, leased.start_at, row.energy, *ids, *values))


def fact_ids(table: FactTable, facts: Sequence[Fact]) -> list[int]:
    """Return the id of each fact, and add those that are new; one statement."""
    numbers = {fact: number for number, fact in enumerate(dict.fromkeys(facts))}
    match = " AND ".join(
        f"f.{name} IS NOT DISTINCT FROM a.{name}"
        if name in table.nullable
        else f"f.{name} = a.{name}"
        for name in table.types
    )
    query = _FACTS.format(
        table=table.name,
        columns=", ".join(table.types),
        arrays=", ".join(f"%s::{kind}[]" for kind in table.types.values()),
        match=match,
    )
    with connection.cursor() as cursor:
        cursor.execute(query, [list(column) for column in zip(*numbers, strict=True)])
        ids = [fact_id for _, fact_id in cursor.fetchall()]
    return [ids[numbers[fact]] for fact in facts]


def _is_storable(device: DeviceObservation) -> bool:
    """Whether a device's name fits; a shortened one could be confused with another."""
    return (
        len(device.uuid) <= UUID_MAX
        and len(device.instance_id) <= INSTANCE_MAX
        and len(device.instance_profile) <= PROFILE_MAX
    )


def _device_of(leased: LeasedDevices, *, device: DeviceObservation) -> Fact:
    return (
        leased.cluster_id,
        device.node[:NODE_MAX],
        device.uuid,
        device.model[:MODEL_MAX],
        device.instance_id,
        device.instance_profile,
    )


def _holder_of(row: DeviceRow) -> Fact:
    *holder, owner = _holder_values(row)
    return (row.attribution.value, *holder, owner, *_kind_values(row))


def _figures_of(row: DeviceRow, *, start_at: datetime) -> tuple[int | None, ...]:
    """Return begin and end, ratios, memory and power."""
    device = row.device
    return (
        (row.begin_at - start_at) // _MILLISECOND,
        (row.end_at - start_at) // _MILLISECOND,
        # An uncertain activity has no ratio.
        None if device.is_busy_uncertain else _millionths(device.busy_ratio),
        _millionths(device.sm_active_ratio),
        _millionths(device.tensor_active_ratio),
        _millionths(device.dram_active_ratio),
        device.memory_used_peak_mebibytes,
        device.memory_total_mebibytes,
        device.power_mean_milliwatts,
    )


def _coverage_of(row: DeviceRow) -> Fact:
    device = row.device
    seen = [device.samples, *(device.figure_samples.get(one, 0) for one in _COVERED)]
    shares = [_share(samples, device.expected_samples) for samples in seen]
    is_bare = row.attribution is Attribution.OVERHEAD
    energy = device.figure_samples.get(Figure.ENERGY, 0)
    return (
        *shares,
        NO_DATA if is_bare else _share(energy, device.expected_samples),
        device.is_busy_uncertain,
    )


def _millionths(ratio: Decimal | None) -> int | None:
    return None if ratio is None else int(ratio.scaleb(6).to_integral_value(ROUND_HALF_UP))


def _share(samples: int, expected: int) -> int:
    """Return a share of scrapes."""
    return NO_DATA if expected <= 0 else min(samples, expected) * _COVERAGE // expected


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

"""Composing devices: from device samples and pod holdings to the attribution of each device.

Nothing here changes a bill. Each usage record gets the activity of its devices; every device gets
its own row, and the energy rows of one physical GPU add up to its consumption.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from metering.domain.catalogue.mig_geometry import compute_slices_of, geometry_of
from metering.domain.catalogue.units import SharingMode
from metering.domain.devices.attribution import (
    SHARED_MODES,
    Attributed,
    Kind,
    Place,
    attribute_devices,
    place_of,
    profile_in,
)
from metering.domain.devices.energy import EnergyPart, share_out, split_device
from metering.domain.devices.figures import (
    NOTHING_KNOWN,
    Activity,
    Attribution,
    PodDeviceUse,
    activities,
)
from metering.models import UsageRecord
from metering.protocols import DeviceFigures, DeviceObservation, EnergyObservation

SLICES: Final = 7
"""Compute slices of a GPU of unknown geometry."""


@dataclass(frozen=True)
class DeviceRow:
    """One row of device usage before it is written; see models.DeviceUsage.

    Attributes:
        device: The observation; an overhead row has only device, node and model.
        usage: The usage that held it alone.
        energy: This row's part in millijoules.
    """

    device: DeviceObservation
    attribution: Attribution
    begin_at: datetime
    end_at: datetime
    kind: Kind | None = None
    usage: UsageRecord | None = None
    energy: int | None = None


@dataclass(frozen=True)
class MeasuredHour:
    """What devices did in one hour: by device, and by usage record of which something is known."""

    devices: list[DeviceRow]
    activities: list[tuple[UsageRecord, Activity]]


def measure_devices(
    rows: Sequence[UsageRecord],
    *,
    figures: DeviceFigures,
    kinds: Mapping[Place, Kind],
    held_nodes: Collection[str] = (),
) -> MeasuredHour:
    """Return one row for each device, and what is known of the devices of each usage record.

    Args:
        rows: What is billed.
        figures: What the devices did.
        kinds: What nodes handed devices out as.
        held_nodes: Nodes of pods that are held in an exception instead.
    """
    holdings = [_holding_of(row) for row in rows]
    attributed = attribute_devices(
        figures.devices, holdings=holdings, kinds=kinds, held_nodes=held_nodes
    )
    energies, overheads = _energies(figures, attributed=attributed)
    known = activities(holdings, devices=figures.devices, energies=energies)
    devices = [
        DeviceRow(
            device=device,
            attribution=one.attribution,
            begin_at=device.begin_at,
            end_at=device.end_at,
            kind=one.kind,
            usage=None if one.holding is None else rows[one.holding],
            energy=energy,
        )
        for device, one, energy in zip(figures.devices, attributed, energies, strict=True)
    ]
    shared = _shared_energies(rows, devices=devices)
    measured = [
        (row, _with_share(activity, shared=shared.get(index)))
        for index, (row, activity) in enumerate(zip(rows, known, strict=True))
    ]
    return MeasuredHour(
        devices=devices + overheads,
        activities=[(row, activity) for row, activity in measured if activity != NOTHING_KNOWN],
    )


def _holding_of(row: UsageRecord) -> PodDeviceUse:
    return PodDeviceUse(
        namespace=row.namespace,
        pod_name=row.pod_name,
        sharing_mode=SharingMode(row.sharing_mode),
        begin_at=row.begin_at,
        end_at=row.end_at,
        unit_seconds=row.unit_seconds,
        node=row.node,
        split_among=row.split_among,
    )


def _energies(
    figures: DeviceFigures, *, attributed: Sequence[Attributed]
) -> tuple[list[int | None], list[DeviceRow]]:
    """Return each device's part of its GPU's energy, and rows for what no device accounts for."""
    energies = [device.energy_millijoules for device in figures.devices]
    members: dict[str, list[int]] = defaultdict(list)
    for index, device in enumerate(figures.devices):
        members[device.uuid].append(index)
    overheads = []
    for energy in figures.energies:
        indexes = members.get(energy.uuid, [])
        if indexes:
            devices = [figures.devices[index] for index in indexes]
            held = [attributed[index].attribution is not Attribution.IDLE for index in indexes]
            slices = _slices_of(devices)
            parts = [
                _part_of(device, slices=slices, is_held=is_held)
                for device, is_held in zip(devices, held, strict=True)
            ]
            split = split_device(energy, parts=parts, slices=slices)
            for index, amount in zip(indexes, split.parts, strict=True):
                energies[index] = amount
            if split.overhead:
                overheads.append(_overhead(energy, device=devices[0], amount=split.overhead))
    return energies, overheads


def _slices_of(devices: Sequence[DeviceObservation]) -> int:
    """Return the compute slices of a GPU: 1 when it is not partitioned."""
    if not any(device.instance_id for device in devices):
        return 1
    geometry = geometry_of(devices[0].model.replace(" ", "-"))
    return geometry.compute_slices if geometry else SLICES


def _part_of(device: DeviceObservation, *, slices: int, is_held: bool) -> EnergyPart:
    own = compute_slices_of(device.instance_profile) if device.instance_profile else slices
    return EnergyPart(
        begin_at=device.begin_at,
        end_at=device.end_at,
        slices=own,
        activity=None if device.is_busy_uncertain else device.busy_ratio,
        is_held=is_held,
    )


def _overhead(energy: EnergyObservation, *, device: DeviceObservation, amount: int) -> DeviceRow:
    bare = DeviceObservation(
        uuid=device.uuid,
        node=device.node,
        model=device.model,
        instance_id="",
        instance_profile="",
        namespace="",
        pod="",
        begin_at=energy.marks[0],
        end_at=energy.marks[-1],
        busy_ratio=None,
        samples=0,
        expected_samples=0,
    )
    return DeviceRow(bare, Attribution.OVERHEAD, energy.marks[0], energy.marks[-1], energy=amount)


def _shared_energies(
    rows: Sequence[UsageRecord], *, devices: Sequence[DeviceRow]
) -> dict[int, int]:
    """Return the energy of each pod that shares devices, by index: its share of the time.

    It is unknown on which of a node's shared devices a pod ran, so their energy is summed. The part
    without a holder stays with the devices. The result is empty where one device's energy is
    unknown.
    """
    pools: dict[Place, list[DeviceRow]] = defaultdict(list)
    for row in devices:
        if row.attribution is Attribution.SHARED:
            pools[place_of(row.device)].append(row)
    sharers: dict[Place, list[int]] = defaultdict(list)
    for index, usage in enumerate(rows):
        if SharingMode(usage.sharing_mode) in SHARED_MODES:
            sharers[usage.node, profile_in(usage.price_group)].append(index)
    found: dict[int, int] = {}
    for place, indexes in sharers.items():
        known = [row.energy for row in pools.get(place, ()) if row.energy is not None]
        if known and len(known) == len(pools[place]):
            parts = _shares([rows[index] for index in indexes], sum(known), pools[place])
            found.update(zip(indexes, parts, strict=True))
    return found


def _shares(usages: Sequence[UsageRecord], total: int, pool: Sequence[DeviceRow]) -> Sequence[int]:
    """Return whole parts by share and time; all shares of a node's kind are of one size."""
    replicas = usages[0].share_denominator
    whole = sum(_replica_seconds(row, replicas=replicas) for row in pool)
    weights = [usage.share_numerator * usage.unit_seconds for usage in usages]
    rest = max(0, whole - sum(weights))
    return share_out(total, weights=[*weights, rest])[:-1]


def _replica_seconds(row: DeviceRow, *, replicas: int) -> int:
    """Return how long a device's replicas together lasted, in the smallest share's seconds."""
    seconds = int((row.end_at - row.begin_at).total_seconds())
    slices = _slices_of([row.device])
    own = compute_slices_of(row.device.instance_profile) if row.device.instance_profile else slices
    return seconds * replicas * own // slices


def _with_share(activity: Activity, *, shared: int | None) -> Activity:
    return activity if shared is None else replace(activity, energy_millijoules=shared)

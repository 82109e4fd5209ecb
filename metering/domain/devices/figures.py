"""Device figures: how busy a pod's own devices were and what energy they took, where that is known.

It can for whole GPUs and for MIG instances, which serve one pod at a time. Under time-slicing and
MPS the exporter names an arbitrary pod or copies the device's value to each, so no figures are
stored. No data is None, never 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from enum import StrEnum
from fractions import Fraction
from math import lcm
from typing import Final, Protocol

from metering.domain.allocations.timeline import seconds_between
from metering.domain.catalogue.units import SharingMode

COVERAGE_MIN: Final = Fraction(8, 10)
RATIO_STEP: Final = Decimal("0.000001")
COVERAGE_STEP: Final = Decimal("0.00001")


class Attribution(StrEnum):
    """Which pod a device's figures are attributed to.

    Attributes:
        EXCLUSIVE: One pod alone: a whole GPU or a MIG instance.
        SHARED: Several pods at once, by time-slicing or MPS.
        IDLE: No pod held it.
        UNATTRIBUTED: A pod may have held it, but the exporter does not name it.
        OVERHEAD: Energy of a partitioned GPU that no instance accounts for.
    """

    EXCLUSIVE = "exclusive"
    SHARED = "shared"
    IDLE = "idle"
    UNATTRIBUTED = "unattributed"
    OVERHEAD = "overhead"


class Timed(Protocol):
    """Anything that lasts."""

    @property
    def begin_at(self) -> datetime:
        """Return from when."""
        ...

    @property
    def end_at(self) -> datetime:
        """Return until when."""
        ...


class NamedDevice(Timed, Protocol):
    """One device over the time its exporter named one workload; see protocols."""

    @property
    def instance_id(self) -> str:
        """Return the MIG instance, "" for a whole GPU."""
        ...

    @property
    def namespace(self) -> str:
        """Return the pod's namespace, "" when idle."""
        ...

    @property
    def pod(self) -> str:
        """Return the pod's name."""
        ...

    @property
    def is_shared(self) -> bool:
        """Return whether several pods were named at once."""
        ...


class DeviceFact(NamedDevice, Protocol):
    """A device with its busy figure."""

    @property
    def busy_ratio(self) -> Decimal | None:
        """Return the mean share of time in use, None without a series."""
        ...

    @property
    def is_busy_uncertain(self) -> bool:
        """Return whether nothing may be concluded from it."""
        ...

    @property
    def samples(self) -> int:
        """Return the number of samples."""
        ...

    @property
    def expected_samples(self) -> int:
        """Return the samples there should have been."""
        ...


@dataclass(frozen=True)
class PodDeviceUse:
    """One pod's usage of one resource, as devices are matched to it.

    Attributes:
        split_among: Pods that shared it at once; device figures are attributed to a pod only when
            it is 1.
    """

    namespace: str
    pod_name: str
    sharing_mode: SharingMode
    begin_at: datetime
    end_at: datetime
    unit_seconds: int
    node: str = ""
    split_among: int = 1


@dataclass(frozen=True)
class Activity:
    """What is known of a usage's devices.

    Attributes:
        busy_ratio: 0 to 1; None when fewer than 80 % of its time was sampled.
        coverage: Sampled share of its time, 0 to 1; None when no device was matched.
        energy_millijoules: None when a part is unknown.
    """

    busy_ratio: Decimal | None = None
    coverage: Decimal | None = None
    energy_millijoules: int | None = None


NOTHING_KNOWN: Final = Activity()
_ATTRIBUTABLE: Final = frozenset({SharingMode.WHOLE, SharingMode.MIG})


@dataclass(frozen=True)
class _DeviceOverlap:
    """A device's overlap with one usage."""

    device: DeviceFact
    seconds: int
    energy: int | None


def activities(
    holdings: Sequence[PodDeviceUse],
    *,
    devices: Sequence[DeviceFact],
    energies: Sequence[int | None],
) -> tuple[Activity, ...]:
    """Return what is known of each usage's devices, in the order of the usages.

    Args:
        holdings: The usages.
        devices: What was observed.
        energies: Each device's own part of its GPU's energy; None when unknown.
    """
    parts: dict[int, list[_DeviceOverlap]] = {}
    matched = matching_holdings(holdings, devices=devices)
    for device, energy, index in zip(devices, energies, matched, strict=True):
        if index is not None:
            seconds = overlap_seconds(device, holding=holdings[index])
            parts.setdefault(index, []).append(_DeviceOverlap(device, seconds, energy))
    return tuple(
        _activity(holding, parts=parts[index]) if index in parts else NOTHING_KNOWN
        for index, holding in enumerate(holdings)
    )


def matching_holdings(
    holdings: Sequence[PodDeviceUse], *, devices: Sequence[NamedDevice]
) -> tuple[int | None, ...]:
    """Return for each device the index of the usage that held it alone, or None when unknown.

    A device is matched by pod name, namespace and time. One that overlaps two usages of the same
    name, as after a quick restart, is matched to neither.
    """
    by_name: dict[tuple[str, str, bool], list[int]] = {}
    for index, holding in enumerate(holdings):
        if holding.sharing_mode in _ATTRIBUTABLE and holding.split_among == 1:
            key = (holding.namespace, holding.pod_name, holding.sharing_mode is SharingMode.MIG)
            by_name.setdefault(key, []).append(index)
    return tuple(_match(device, holdings=holdings, by_name=by_name) for device in devices)


def _match(
    device: NamedDevice,
    *,
    holdings: Sequence[PodDeviceUse],
    by_name: Mapping[tuple[str, str, bool], Sequence[int]],
) -> int | None:
    if device.is_shared:
        return None
    key = (device.namespace, device.pod, bool(device.instance_id))
    overlaps = [
        index
        for index in by_name.get(key, ())
        if overlap_seconds(device, holding=holdings[index]) > 0
    ]
    return overlaps[0] if len(overlaps) == 1 else None


def overlap_seconds(device: Timed, *, holding: Timed) -> int:
    """Return the whole seconds two stretches have in common; 0 or less for none."""
    return seconds_between(
        max(device.begin_at, holding.begin_at), min(device.end_at, holding.end_at)
    )


def _activity(holding: PodDeviceUse, *, parts: Sequence[_DeviceOverlap]) -> Activity:
    """Return the activity of a usage's devices, computed in whole numbers over one denominator."""
    sampled = [part.device for part in parts if _shows_activity(part.device)]
    steps = lcm(*(device.expected_samples for device in sampled))
    weights = [_sampled_steps(part, steps=steps) for part in parts if _shows_activity(part.device)]
    whole = holding.unit_seconds * steps
    covered = min(sum(weights), whole)
    return Activity(
        busy_ratio=_busy_ratio(sampled, weights=weights) if _is_enough(covered, whole) else None,
        coverage=_quotient(covered, whole, step=COVERAGE_STEP, rounding=ROUND_DOWN),
        energy_millijoules=_energy(holding, parts=parts),
    )


def _shows_activity(device: DeviceFact) -> bool:
    is_sampled = device.busy_ratio is not None and not device.is_busy_uncertain
    return is_sampled and device.expected_samples > 0


def _sampled_steps(part: _DeviceOverlap, *, steps: int) -> int:
    """Return the seconds that were sampled, counted in steps of a second."""
    expected = part.device.expected_samples
    return part.seconds * min(part.device.samples, expected) * (steps // expected)


def _is_enough(covered: int, whole: int) -> bool:
    return covered * COVERAGE_MIN.denominator >= COVERAGE_MIN.numerator * whole


def _busy_ratio(devices: Sequence[DeviceFact], *, weights: Sequence[int]) -> Decimal:
    ratios = [(device.busy_ratio or Decimal(0)).as_integer_ratio() for device in devices]
    steps = lcm(*(denominator for _, denominator in ratios))
    busy = sum(
        numerator * (steps // denominator) * weight
        for (numerator, denominator), weight in zip(ratios, weights, strict=True)
    )
    return _quotient(busy, steps * sum(weights), step=RATIO_STEP, rounding=ROUND_HALF_UP)


def _energy(holding: PodDeviceUse, *, parts: Sequence[_DeviceOverlap]) -> int | None:
    if not _is_enough(sum(part.seconds for part in parts), holding.unit_seconds):
        return None
    known = [part.energy for part in parts if part.energy is not None]
    return sum(known) if len(known) == len(parts) else None


def _quotient(numerator: int, denominator: int, *, step: Decimal, rounding: str) -> Decimal:
    return (Decimal(numerator) / Decimal(denominator)).quantize(step, rounding=rounding)


POWER_MILLIWATTS_MIN: Final = 150_000
"""More than data-centre GPUs take idle, with a context open and memory full."""
CLOCK_MEGAHERTZ_MIN: Final = 1_000
"""An idle GPU falls to a few hundred; one with an open context may not, so power must agree."""
UTILIZATION_MILLIONTHS_MIN: Final = 50_000


@dataclass(frozen=True)
class Activeness:
    """Means over one stretch; None for what was not sampled.

    Attributes:
        engine_total: Sum over the samples of the profiling counter; 0 when it stayed at 0.
    """

    engine_total: int | None
    power_milliwatts: int | None = None
    clock_megahertz: int | None = None
    utilization_millionths: int | None = None


def is_contradicted(seen: Activeness) -> bool:
    """Whether the profiling counter shows idle while another metric shows activity."""
    if seen.engine_total != 0:
        return False
    if (seen.utilization_millionths or 0) >= UTILIZATION_MILLIONTHS_MIN:
        return True
    is_fast = seen.clock_megahertz is None or seen.clock_megahertz >= CLOCK_MEGAHERTZ_MIN
    return is_fast and (seen.power_milliwatts or 0) >= POWER_MILLIWATTS_MIN

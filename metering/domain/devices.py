"""Devices: how busy a pod's own devices were and what energy they took, where that can be said.

It can for whole GPUs and for MIG instances, which serve one pod at a time. Under time-slicing and
MPS the exporter names an arbitrary pod or copies the device's value to each, so nothing is said.
Energy is counted per physical GPU, so only whole GPUs have one. No data is None, never 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Final, Protocol

from metering.domain.gpu_sizes import SharingMode
from metering.domain.window import seconds_between

COVERAGE_MIN: Final = Fraction(8, 10)
RATIO_STEP: Final = Decimal("0.000001")
COVERAGE_STEP: Final = Decimal("0.00001")


class DeviceFact(Protocol):
    """One device over the time it served one workload; see protocols.DeviceObservation."""

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
    def begin_at(self) -> datetime:
        """Return from when."""
        ...

    @property
    def end_at(self) -> datetime:
        """Return until when."""
        ...

    @property
    def busy_ratio(self) -> Decimal | None:
        """Return the mean share of time in use, None without a series."""
        ...

    @property
    def samples(self) -> int:
        """Return the samples seen."""
        ...

    @property
    def expected_samples(self) -> int:
        """Return the samples there should have been."""
        ...

    @property
    def energy_millijoules(self) -> int | None:
        """Return the energy, None when unknown."""
        ...


@dataclass(frozen=True)
class Holding:
    """One pod's usage of one resource, as devices are matched to it."""

    namespace: str
    pod_name: str
    sharing_mode: SharingMode
    begin_at: datetime
    end_at: datetime
    unit_seconds: int


@dataclass(frozen=True)
class Activity:
    """What is known of a usage's devices.

    Attributes:
        busy_ratio: 0 to 1; None when fewer than 80 % of its time was sampled.
        coverage: Sampled share of its time, 0 to 1; None when no device was matched.
        energy_millijoules: None for anything but whole GPUs, and when a part is unknown.
    """

    busy_ratio: Decimal | None = None
    coverage: Decimal | None = None
    energy_millijoules: int | None = None


NOTHING_KNOWN: Final = Activity()
_ATTRIBUTABLE: Final = frozenset({SharingMode.WHOLE, SharingMode.MIG})


@dataclass(frozen=True)
class _Part:
    """A device's overlap with one usage."""

    device: DeviceFact
    seconds: int


def activities(
    holdings: Sequence[Holding], *, devices: Iterable[DeviceFact]
) -> tuple[Activity, ...]:
    """Return what is known of each usage's devices, in the order of the usages.

    A device is matched by pod name, namespace and time. One that overlaps two usages of the same
    name, as after a quick restart, is given to neither.
    """
    by_name: dict[tuple[str, str, bool], list[int]] = {}
    for index, holding in enumerate(holdings):
        if holding.sharing_mode in _ATTRIBUTABLE:
            key = (holding.namespace, holding.pod_name, holding.sharing_mode is SharingMode.MIG)
            by_name.setdefault(key, []).append(index)
    parts: dict[int, list[_Part]] = {}
    for device in devices:
        _match(device, holdings=holdings, by_name=by_name, parts=parts)
    return tuple(
        _activity(holding, parts=parts[index]) if index in parts else NOTHING_KNOWN
        for index, holding in enumerate(holdings)
    )


def _match(
    device: DeviceFact,
    *,
    holdings: Sequence[Holding],
    by_name: Mapping[tuple[str, str, bool], Sequence[int]],
    parts: dict[int, list[_Part]],
) -> None:
    key = (device.namespace, device.pod, bool(device.instance_id))
    overlaps = [
        (index, seconds)
        for index in by_name.get(key, ())
        if (seconds := _overlap(device, holding=holdings[index])) > 0
    ]
    if len(overlaps) == 1:
        index, seconds = overlaps[0]
        parts.setdefault(index, []).append(_Part(device=device, seconds=seconds))


def _overlap(device: DeviceFact, *, holding: Holding) -> int:
    return seconds_between(
        max(device.begin_at, holding.begin_at), min(device.end_at, holding.end_at)
    )


def _activity(holding: Holding, *, parts: Sequence[_Part]) -> Activity:
    sampled = [
        (part, _sampled_seconds(part)) for part in parts if part.device.busy_ratio is not None
    ]
    covered = min(sum((s for _, s in sampled), Fraction(0)), Fraction(holding.unit_seconds))
    coverage = covered / holding.unit_seconds
    return Activity(
        busy_ratio=_busy_ratio(sampled) if coverage >= COVERAGE_MIN else None,
        coverage=_decimal(coverage, step=COVERAGE_STEP, rounding=ROUND_DOWN),
        energy_millijoules=_energy(holding, parts=parts),
    )


def _sampled_seconds(part: _Part) -> Fraction:
    if part.device.expected_samples <= 0:
        return Fraction(0)
    return part.seconds * min(
        Fraction(1), Fraction(part.device.samples, part.device.expected_samples)
    )


def _busy_ratio(sampled: Sequence[tuple[_Part, Fraction]]) -> Decimal:
    weight = sum((seconds for _, seconds in sampled), Fraction(0))
    busy = sum(
        (Fraction(part.device.busy_ratio or 0) * seconds for part, seconds in sampled), Fraction(0)
    )
    return _decimal(busy / weight, step=RATIO_STEP, rounding=ROUND_HALF_UP)


def _energy(holding: Holding, *, parts: Sequence[_Part]) -> int | None:
    if holding.sharing_mode is not SharingMode.WHOLE:
        return None
    if sum(part.seconds for part in parts) < COVERAGE_MIN * holding.unit_seconds:
        return None
    known = [part.device.energy_millijoules for part in parts]
    return None if None in known else sum(value for value in known if value is not None)


def _decimal(value: Fraction, *, step: Decimal, rounding: str) -> Decimal:
    return (Decimal(value.numerator) / Decimal(value.denominator)).quantize(step, rounding=rounding)

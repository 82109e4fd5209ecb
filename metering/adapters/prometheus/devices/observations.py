"""Observations: what is reported of devices, from their runs, their totals and their energy lines.

Raw samples and Prometheus' own aggregates both end in these totals, so that a figure is worked out
in one place.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.devices.columns import SEVERAL, Run, SampleTotals, unseen
from metering.adapters.prometheus.devices.energy import EnergyLine
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.samples import to_time
from metering.domain.devices.figures import Activeness, is_contradicted
from metering.protocols import DeviceObservation, EnergyObservation, Figure

Key = tuple[str, str, str]
"""UUID, instance and profile."""
Tallies = Mapping[str, SampleTotals]
"""Product metric name to its aggregates over one run."""
COUNTED: Final[Mapping[Figure, str]] = {
    Figure.SM_ACTIVE: known.SM_ACTIVE,
    Figure.TENSOR_ACTIVE: known.TENSOR_ACTIVE,
    Figure.DRAM_ACTIVE: known.DRAM_ACTIVE,
    Figure.MEMORY: known.MEMORY_USED,
    Figure.POWER: known.POWER,
    Figure.ENERGY: known.ENERGY,
}
"""Which metric's samples a figure's coverage is counted by."""
_COUNTED: Final = tuple((figure.value, metric) for figure, metric in COUNTED.items())
_DIGITS: Final = 6


def figures_of(tallies: Tallies, *, is_uncertain: bool, is_busy_by_engine: bool) -> dict[str, Any]:
    """Return the fields of a DeviceObservation for figures other than the busy ratio.

    Args:
        tallies: What was sampled.
        is_uncertain: The profiling counters are contradicted, so that their zeros mean nothing.
        is_busy_by_engine: Whether the busy figure is one of them.
    """
    return {
        "sm_active_ratio": _profiled(tallies.get(known.SM_ACTIVE), is_uncertain=is_uncertain),
        "tensor_active_ratio": _profiled(
            tallies.get(known.TENSOR_ACTIVE), is_uncertain=is_uncertain
        ),
        "dram_active_ratio": _profiled(tallies.get(known.DRAM_ACTIVE), is_uncertain=is_uncertain),
        "memory_used_peak_mebibytes": _peak(tallies.get(known.MEMORY_USED)),
        "memory_total_mebibytes": _memory_total(tallies),
        "power_mean_milliwatts": mean(tallies.get(known.POWER)),
        "figure_samples": {
            figure: tallies[metric].slots
            for figure, metric in _COUNTED
            if metric in tallies and tallies[metric].slots
        },
        "is_busy_uncertain": is_uncertain and is_busy_by_engine,
    }


def ratio(tally: SampleTotals | None) -> Decimal | None:
    """Return a mean of millionths as a ratio, rounded half up, None without samples."""
    if tally is None or tally.samples == 0:
        return None
    return Decimal((2 * tally.total + tally.samples) // (2 * tally.samples)).scaleb(-_DIGITS)


def mean(tally: SampleTotals | None) -> int | None:
    """Return a mean rounded down to a whole number, None without samples."""
    return tally.total // tally.samples if tally is not None and tally.samples else None


def is_stuck(tallies: Tallies) -> bool:
    """Whether the engine's counter stayed at 0 over a run that another metric shows busy."""
    engine = tallies.get(known.BUSY_RATIO)
    return is_contradicted(
        Activeness(
            engine_total=engine.total if engine is not None and engine.samples else None,
            power_milliwatts=mean(tallies.get(known.POWER)),
            clock_megahertz=mean(tallies.get(known.SM_CLOCK)),
            utilization_millionths=mean(tallies.get(known.BUSY_PERCENT)),
        )
    )


def _profiled(tally: SampleTotals | None, *, is_uncertain: bool) -> Decimal | None:
    if is_uncertain and tally is not None and tally.total == 0:
        return None
    return ratio(tally)


def _peak(tally: SampleTotals | None) -> int | None:
    return tally.peak if tally is not None and tally.samples else None


def _memory_total(tallies: Tallies) -> int | None:
    """Return used + free + reserved of one scrape interval; older exporters lack the latter."""
    used, free = tallies.get(known.MEMORY_USED), tallies.get(known.MEMORY_FREE)
    if used is None or free is None or not used.samples or used.early_at != free.early_at:
        return None
    reserved = tallies.get(known.MEMORY_RESERVED)
    is_reported = reserved is not None and reserved.samples and reserved.early_at == used.early_at
    return used.early + free.early + (reserved.early if reserved is not None and is_reported else 0)


def key_of(labels: Mapping[str, str], names: Names) -> Key:
    """Return the device that a series is of."""
    return (
        names.label(labels, "uuid"),
        names.label(labels, "instance_id"),
        names.label(labels, "instance_profile"),
    )


@dataclass
class MeasuredDevice:
    """One device: its runs inside the window, and by metric what was sampled over each of them."""

    node: str
    model: str
    runs: tuple[Run, ...] = ()
    tallies: dict[str, Sequence[SampleTotals]] = field(default_factory=dict)

    @classmethod
    def of(cls, labels: Mapping[str, str], names: Names) -> "MeasuredDevice":
        """Return the device that some labels describe."""
        return cls(node=names.label(labels, "hostname"), model=names.label(labels, "model"))

    def has(self, metric: str) -> bool:
        """Whether a metric was sampled over some run."""
        return any(one.samples for one in self.tallies.get(metric, ()))


@dataclass
class Measured:
    """Devices, and by UUID what is the physical GPU's.

    Attributes:
        lines: What it took.
        idle_milliwatts: Its lowest power in the window.
    """

    devices: dict[Key, MeasuredDevice] = field(default_factory=dict)
    lines: dict[str, EnergyLine] = field(default_factory=dict)
    idle_milliwatts: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Measured") -> None:
        """Take over other GPUs."""
        self.devices |= other.devices
        self.lines |= other.lines
        self.idle_milliwatts |= other.idle_milliwatts


@dataclass(frozen=True)
class Devices:
    """The observation of a cluster's devices; see `DeviceFigures`."""

    observations: tuple[DeviceObservation, ...] = ()
    energies: tuple[EnergyObservation, ...] = ()
    missing_figures: tuple[str, ...] = ()


def observe(measured: Measured, *, scrape: int) -> Devices:
    """Return every device's runs, by UUID, instance and time.

    Args:
        measured: The devices.
        scrape: The scrape interval in milliseconds.
    """
    # Power is the physical GPU's: one active instance explains it for all of them.
    active = {
        uuid
        for (uuid, instance_id, _), device in measured.devices.items()
        if instance_id and any(one.total for one in device.tallies.get(known.BUSY_RATIO, ()))
    }
    return Devices(
        observations=tuple(
            observed
            for key, device in sorted(measured.devices.items())
            for observed in _runs(
                key,
                device,
                line=measured.lines.get(key[0]),
                is_active=key[0] in active,
                scrape=scrape,
            )
        ),
        energies=tuple(_energies(measured)),
        missing_figures=_missing(measured),
    )


def _runs(
    key: Key, device: MeasuredDevice, *, line: EnergyLine | None, is_active: bool, scrape: int
) -> Iterator[DeviceObservation]:
    uuid, instance_id, profile = key
    busy_metric = _busy_metric(device, is_instance=bool(instance_id))
    for index, run in enumerate(device.runs):
        tallies = {metric: tallied[index] for metric, tallied in device.tallies.items()}
        busy = tallies.get(busy_metric) or unseen(run, scrape=scrape)
        is_several = run.workload == SEVERAL
        yield DeviceObservation(
            uuid=uuid,
            node=device.node,
            model=device.model,
            instance_id=instance_id,
            instance_profile=profile,
            namespace=run.workload[0],
            pod="" if is_several else run.workload[1],
            begin_at=to_time(run.begin),
            end_at=to_time(run.end),
            busy_ratio=ratio(busy),
            samples=busy.slots,
            expected_samples=busy.expected,
            energy_millijoules=(
                None if instance_id or line is None else line.between(run.begin, run.end)
            ),
            is_shared=is_several,
            **figures_of(
                tallies,
                is_uncertain=is_stuck(tallies) and not is_active,
                is_busy_by_engine=busy_metric == known.BUSY_RATIO,
            ),
        )


def _busy_metric(device: MeasuredDevice, *, is_instance: bool) -> str:
    """Return GPU_UTIL where the device has one, else GR_ENGINE_ACTIVE; instances have none."""
    is_utilized = not is_instance and device.has(known.BUSY_PERCENT)
    return known.BUSY_PERCENT if is_utilized else known.BUSY_RATIO


def _energies(measured: Measured) -> Iterator[EnergyObservation]:
    """Yield each physical GPU's energy, marked wherever one of its runs begins or ends."""
    marks: dict[str, set[int]] = defaultdict(set)
    nodes: dict[str, str] = {}
    for (uuid, _, _), device in measured.devices.items():
        marks[uuid].update(mark for run in device.runs for mark in (run.begin, run.end))
        nodes[uuid] = device.node
    for uuid, found in sorted(marks.items()):
        line, at = measured.lines.get(uuid), sorted(found)
        if line is not None and at and line.between(at[0], at[-1]) is not None:
            yield EnergyObservation(
                uuid=uuid,
                node=nodes[uuid],
                marks=tuple(to_time(mark) for mark in at),
                taken_millijoules=tuple(line.at(mark) - line.at(at[0]) for mark in at),
                idle_milliwatts=measured.idle_milliwatts.get(uuid),
            )


def _missing(measured: Measured) -> tuple[str, ...]:
    """Return the figures that no device had inside the window; none where there are no devices."""
    devices = measured.devices.values()
    return tuple(
        sorted(
            figure
            for figure, metric in COUNTED.items()
            if devices and not any(device.has(metric) for device in devices)
        )
    )

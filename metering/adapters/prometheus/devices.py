"""Devices: what each showed and what energy it took, cut into runs of one workload.

A device's series come several times: once per pod under virtual GPUs, per copy of Prometheus, per
restart of the exporter. They are merged by (UUID, instance, profile) first, and only then cut.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from itertools import accumulate, pairwise
from operator import sub
from typing import Any, Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.columns import (
    RATIO,
    SEVERAL,
    WATTS_MAX,
    Column,
    ColumnReader,
    Exporters,
    Ruler,
    Run,
    SampleTotals,
    Workload,
    merged,
    runs_of,
)
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.samples import Series, to_time
from metering.domain.devices.figures import Activeness, is_contradicted
from metering.protocols import DeviceObservation, EnergyObservation, Figure

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
_STEP: Final = Decimal("0.000001")


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
    """Return a mean of millionths as a ratio, None without samples."""
    if tally is None or tally.samples == 0:
        return None
    return (Decimal(tally.total) / (tally.samples * RATIO)).quantize(_STEP, rounding=ROUND_HALF_UP)


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
    """Return used + free + reserved of one scrape; older exporters do not report the latter."""
    used, free = tallies.get(known.MEMORY_USED), tallies.get(known.MEMORY_FREE)
    if used is None or free is None or not used.samples or used.first_at != free.first_at:
        return None
    reserved = tallies.get(known.MEMORY_RESERVED)
    is_reported = reserved is not None and reserved.samples and reserved.first_at == used.first_at
    return used.first + free.first + (reserved.first if reserved is not None and is_reported else 0)


_HALVES_PER_MILLIJOULE: Final = 2_000
"""Milliwatts x milliseconds are microjoules, and a trapezoid is half of its two sides' sum."""


@dataclass(frozen=True, slots=True)
class EnergyLine:
    """Millijoules taken since the first sample, at each sample's time in Unix milliseconds."""

    times: tuple[int, ...]
    taken: tuple[int, ...]

    def between(self, begin: int, end: int) -> int | None:
        """Return the millijoules from begin to end, None where the line does not cover them.

        What lies outside the samples is not extrapolated.
        """
        if len(self.times) < 2 or begin >= self.times[-1] or end <= self.times[0]:  # noqa: PLR2004 - A line.
            return None
        return self.at(end) - self.at(begin)

    def at(self, moment: int) -> int:
        """Return what had been taken at a moment; before and after the samples nothing is."""
        if moment <= self.times[0]:
            return 0
        if moment >= self.times[-1]:
            return self.taken[-1]
        after = bisect_right(self.times, moment)
        begin, end = self.times[after - 1], self.times[after]
        low, high = self.taken[after - 1], self.taken[after]
        return low + (high - low) * (moment - begin) // (end - begin)


UNKNOWN: Final = EnergyLine((), ())


def energy_line(counter: Column) -> EnergyLine:
    """Return the line of a counter; a counter that fell restarted at 0.

    Source: nvml.h, nvmlDeviceGetTotalEnergyConsumption: millijoules since the driver was loaded. A
    line that rises faster than a GPU can draw power is discarded.
    """
    times, readings = tuple(counter.times), tuple(counter.values)
    steps = [high - low if high >= low else high for low, high in pairwise(readings)]
    lasting = map(sub, times[1:], times)
    # Millijoules per millisecond are watts.
    if any(step > WATTS_MAX * time for step, time in zip(steps, lasting, strict=True)):
        return UNKNOWN
    return EnergyLine(times, tuple(accumulate(steps, initial=0)) if times else ())


def power_line(power: Column, hours: Hours) -> EnergyLine:
    """Return the line of a GPU that has no counter, from its power in milliwatts by trapezoids.

    Power between samples far apart is not known, so a line with a gap has no value.
    """
    longest = hours.scrape * 5 // 2
    taken = [0] if power.times else []
    halves = 0
    samples = zip(power.times, power.values, strict=True)
    for (before, low), (after, high) in pairwise(samples):
        if after - before > longest:
            return UNKNOWN
        halves += (low + high) * (after - before)
        taken.append(halves // _HALVES_PER_MILLIJOULE)
    return EnergyLine(tuple(power.times), tuple(taken))


Key = tuple[str, str, str]
"""UUID, instance and profile."""


@dataclass(frozen=True)
class Devices:
    """The observation of a cluster's devices; see `Observation`."""

    observations: tuple[DeviceObservation, ...] = ()
    energies: tuple[EnergyObservation, ...] = ()
    missing_figures: tuple[str, ...] = ()


@dataclass
class _Device:
    """One device while its series arrive."""

    node: str
    model: str
    seen: list[tuple[Workload, Sequence[int]]] = field(default_factory=list)
    columns: dict[str, list[Column]] = field(default_factory=lambda: defaultdict(list))
    runs: tuple[Run, ...] = ()
    tallies: dict[str, list[SampleTotals]] = field(default_factory=dict)


def read_devices(
    presence: Iterable[Series],
    figures: Iterable[Series],
    exporters: Exporters,
    names: Names,
    hours: Hours,
) -> Devices:
    """Return every device's runs inside the window, by UUID, instance and time.

    Args:
        presence: Series of `names.PRESENCE`, which list the devices and their pods.
        figures: Series of `names.FIGURES`; read only after all of `presence`.
        exporters: The exporters' own pods, which are not workloads.
        names: The cluster's spelling.
        hours: The window.

    Raises:
        SourceUnavailableError: `bad_sample` for a value that is no number.
    """
    reading = _DeviceReading(exporters, names, hours)
    reading.take_presence(presence)
    reading.take_figures(figures)
    return reading.tell()


class _DeviceReading:
    """The devices of one window, from the first series to their observations."""

    def __init__(self, exporters: Exporters, names: Names, hours: Hours) -> None:
        self._exporters = exporters
        self._names = names
        self._hours = hours
        self._columns = ColumnReader()
        self._ruler = Ruler(hours)
        self._devices: dict[Key, _Device] = {}
        self._lines: dict[str, EnergyLine] = {}
        self._power_low: dict[str, int] = {}
        self._metrics: set[str] = set()
        self._active: set[str] = set()

    def take_presence(self, presence: Iterable[Series]) -> None:
        for one in presence:
            key = self._key(one)
            if key[0] and one.metric in known.PRESENCE:
                if key not in self._devices:
                    self._devices[key] = self._device(one.labels)
                workload = self._exporters.workload(one.labels, self._names)
                self._devices[key].seen.append((workload, one.times))
                self._keep(self._devices[key], one)
        for device in self._devices.values():
            device.runs = tuple(runs_of(device.seen, self._hours))
            device.seen.clear()
        self._lines = {
            uuid: energy_line(column) for uuid, column in self._by_gpu(known.ENERGY).items()
        }
        self._measure()

    def take_figures(self, figures: Iterable[Series]) -> None:
        for one in figures:
            device = self._devices.get(self._key(one))
            if device is not None and one.metric in known.FIGURES:
                self._keep(device, one)
        for uuid, power in self._by_gpu(known.POWER).items():
            self._power_low[uuid] = min(power.values)
            if uuid not in self._lines:
                self._lines[uuid] = power_line(power, self._hours)
        self._measure()
        # Power is the physical GPU's: one active instance explains it for all of them.
        self._active = {
            uuid
            for (uuid, instance_id, _), device in self._devices.items()
            if instance_id and any(one.total for one in device.tallies.get(known.BUSY_RATIO, ()))
        }

    def tell(self) -> Devices:
        devices = sorted(self._devices.items())
        return Devices(
            observations=tuple(
                observed for key, device in devices for observed in self._observe(key, device)
            ),
            energies=tuple(self._energies()),
            missing_figures=self._missing() if devices else (),
        )

    def _missing(self) -> tuple[str, ...]:
        absent = (figure for figure, metric in COUNTED.items() if metric not in self._metrics)
        return tuple(sorted(absent))

    def _key(self, one: Series) -> Key:
        return (
            self._names.label(one.labels, "uuid"),
            self._names.label(one.labels, "instance_id"),
            self._names.label(one.labels, "instance_profile"),
        )

    def _device(self, labels: Mapping[str, str]) -> _Device:
        return _Device(
            node=self._names.label(labels, "hostname"), model=self._names.label(labels, "model")
        )

    def _keep(self, device: _Device, one: Series) -> None:
        column = self._columns.read(one)
        if column.times:
            device.columns[one.metric].append(column)
            self._metrics.add(one.metric)

    def _by_gpu(self, metric: str) -> Mapping[str, Column]:
        """Return the physical GPUs' columns: every instance repeats its parent's."""
        found: dict[str, list[Column]] = defaultdict(list)
        for (uuid, _, _), device in self._devices.items():
            found[uuid] += device.columns.get(metric, ())
        return {uuid: merged(columns) for uuid, columns in found.items() if columns}

    def _measure(self) -> None:
        """Convert the columns that have arrived into tallies, and free them."""
        for device in self._devices.values():
            for metric, columns in device.columns.items():
                column, is_counter = merged(columns), metric == known.ENERGY
                device.tallies[metric] = [
                    self._ruler.tally(column, run, is_counter=is_counter) for run in device.runs
                ]
            device.columns.clear()

    def _observe(self, key: Key, device: _Device) -> Iterator[DeviceObservation]:
        uuid, instance_id, profile = key
        busy_metric = _busy_metric(device, is_instance=bool(instance_id))
        for index, run in enumerate(device.runs):
            tallies = {metric: tallied[index] for metric, tallied in device.tallies.items()}
            busy = tallies.get(busy_metric) or self._unseen(run)
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
                energy_millijoules=None if instance_id else self._energy(uuid, run),
                is_shared=is_several,
                **figures_of(
                    tallies,
                    is_uncertain=is_stuck(tallies) and uuid not in self._active,
                    is_busy_by_engine=busy_metric == known.BUSY_RATIO,
                ),
            )

    def _unseen(self, run: Run) -> SampleTotals:
        return self._ruler.tally(Column((), ()), run)

    def _energy(self, uuid: str, run: Run) -> int | None:
        line = self._lines.get(uuid)
        return None if line is None else line.between(run.begin, run.end)

    def _energies(self) -> Iterator[EnergyObservation]:
        """Yield each physical GPU's energy, marked wherever one of its runs begins or ends."""
        marks: dict[str, set[int]] = defaultdict(set)
        nodes: dict[str, str] = {}
        for (uuid, _, _), device in self._devices.items():
            marks[uuid].update(mark for run in device.runs for mark in (run.begin, run.end))
            nodes[uuid] = device.node
        for uuid, found in sorted(marks.items()):
            line, at = self._lines.get(uuid), sorted(found)
            if line is not None and at and line.between(at[0], at[-1]) is not None:
                yield EnergyObservation(
                    uuid=uuid,
                    node=nodes[uuid],
                    marks=tuple(to_time(mark) for mark in at),
                    taken_millijoules=tuple(line.at(mark) - line.at(at[0]) for mark in at),
                    idle_milliwatts=self._power_low.get(uuid),
                )


def _busy_metric(device: _Device, *, is_instance: bool) -> str:
    """Return GPU_UTIL where the device has one, else GR_ENGINE_ACTIVE; instances have none."""
    utilization = () if is_instance else device.tallies.get(known.BUSY_PERCENT, ())
    return known.BUSY_PERCENT if any(one.samples for one in utilization) else known.BUSY_RATIO

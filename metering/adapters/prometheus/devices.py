"""Devices: what each showed, and what energy it took, cut into runs by the workload it served.

A device's series come several times: once per pod under virtual GPUs, per copy of Prometheus, per
restart of the exporter. They are merged by (UUID, instance, profile) first, and only then cut.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.columns import Column, ColumnReader, Ruler, Run, Tally, merged
from metering.adapters.prometheus.device_figures import COUNTED, figures_of, is_stuck, ratio
from metering.adapters.prometheus.energy import EnergyLine, energy_line, power_line
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.samples import Series, to_time
from metering.adapters.prometheus.workloads import SEVERAL, Exporters, Workload, runs_of
from metering.protocols import DeviceObservation, EnergyObservation

Key = tuple[str, str, str]
"""UUID, instance and profile."""


@dataclass(frozen=True)
class Devices:
    """What was seen of a cluster's devices; see `Observation`."""

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
    tallies: dict[str, list[Tally]] = field(default_factory=dict)


def read_devices(
    presence: Iterable[Series],
    figures: Iterable[Series],
    exporters: Exporters,
    names: Names,
    hours: Hours,
) -> Devices:
    """Return every device's runs inside the window, by UUID, instance and time.

    Args:
        presence: Series of `names.PRESENCE`, which tell the devices and whom they served.
        figures: Series of `names.FIGURES`; only taken once all of presence was.
        exporters: Whose pods name nobody.
        names: The cluster's spelling.
        hours: The window.

    Raises:
        SourceUnavailableError: `bad_sample` for a value that is no number.
    """
    reading = _Reading(exporters, names, hours)
    reading.take_presence(presence)
    reading.take_figures(figures)
    return reading.tell()


class _Reading:
    """The devices of one window, from the first series to what is told of them."""

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
        told = sorted(self._devices.items())
        return Devices(
            observations=tuple(
                observed for key, device in told for observed in self._observe(key, device)
            ),
            energies=tuple(self._energies()),
            missing_figures=self._missing() if told else (),
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
        """Turn the columns that have arrived into tallies, and let go of them."""
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
            tallies = {metric: told[index] for metric, told in device.tallies.items()}
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

    def _unseen(self, run: Run) -> Tally:
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

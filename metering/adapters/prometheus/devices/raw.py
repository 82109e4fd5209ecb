"""Raw samples of devices: merged into columns, cut into runs of one workload, and added up.

A device's series come several times: once per pod under virtual GPUs, per copy of Prometheus, per
restart of the exporter. They are merged by (UUID, instance, profile) first, and only then cut.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.devices.columns import (
    Column,
    ColumnReader,
    Exporters,
    Ruler,
    Workload,
    merged,
    runs_of,
)
from metering.adapters.prometheus.devices.energy import energy_line, power_line
from metering.adapters.prometheus.devices.observations import Measured, MeasuredDevice, key_of
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.samples import Series


def measure_raw(
    presence: Iterable[Series],
    figures: Iterable[Series],
    exporters: Exporters,
    names: Names,
    hours: Hours,
) -> Measured:
    """Return every device's runs inside the window, and their totals.

    Args:
        presence: Series of `names.PRESENCE`, which list the devices and their pods.
        figures: Series of `names.FIGURES`; read only after all of `presence`.
        exporters: The exporters' own pods, which are not workloads.
        names: The cluster's spelling.
        hours: The window.

    Raises:
        SourceUnavailableError: `bad_sample` for a value that is no number.
    """
    reading = _RawReading(exporters, names, hours)
    reading.take_presence(presence)
    reading.take_figures(figures)
    return reading.measured


@dataclass
class _Arriving:
    """The series of one device until they are added up."""

    seen: list[tuple[Workload, Sequence[int]]] = field(default_factory=list)
    columns: dict[str, list[Column]] = field(default_factory=lambda: defaultdict(list))


class _RawReading:
    """The devices of one window, from the first series to their totals."""

    def __init__(self, exporters: Exporters, names: Names, hours: Hours) -> None:
        self.measured = Measured()
        self._exporters = exporters
        self._names = names
        self._hours = hours
        self._columns = ColumnReader()
        self._ruler = Ruler(hours)
        self._arriving: dict[tuple[str, str, str], _Arriving] = defaultdict(_Arriving)

    def take_presence(self, presence: Iterable[Series]) -> None:
        for one in presence:
            key = key_of(one.labels, self._names)
            if key[0] and one.metric in known.PRESENCE:
                if key not in self.measured.devices:
                    self.measured.devices[key] = MeasuredDevice.of(one.labels, self._names)
                workload = self._exporters.workload(one.labels, self._names)
                self._arriving[key].seen.append((workload, one.times))
                self._keep(self._arriving[key], one)
        for key, device in self.measured.devices.items():
            device.runs = tuple(runs_of(self._arriving[key].seen, self._hours))
            self._arriving[key].seen.clear()
        for uuid, counter in self._by_gpu(known.ENERGY).items():
            self.measured.lines[uuid] = energy_line(counter)
        self._measure()

    def take_figures(self, figures: Iterable[Series]) -> None:
        for one in figures:
            key = key_of(one.labels, self._names)
            if key in self.measured.devices and one.metric in known.FIGURES:
                self._keep(self._arriving[key], one)
        for uuid, power in self._by_gpu(known.POWER).items():
            self._take_power(uuid, power)
        self._measure()

    def _take_power(self, uuid: str, power: Column) -> None:
        low = bisect_left(power.times, self._hours.start)
        high = bisect_left(power.times, self._hours.end)
        if low < high:
            self.measured.idle_milliwatts[uuid] = min(power.values[low:high])
        if uuid not in self.measured.lines:
            self.measured.lines[uuid] = power_line(power, self._hours)

    def _keep(self, arriving: _Arriving, one: Series) -> None:
        column = self._columns.read(one)
        if column.times:
            arriving.columns[one.metric].append(column)

    def _by_gpu(self, metric: str) -> Mapping[str, Column]:
        """Return the physical GPUs' columns: every instance repeats its parent's."""
        found: dict[str, list[Column]] = defaultdict(list)
        for (uuid, _, _), arriving in self._arriving.items():
            found[uuid] += arriving.columns.get(metric, ())
        return {uuid: merged(columns) for uuid, columns in found.items() if columns}

    def _measure(self) -> None:
        """Convert the columns that have arrived into totals, and free them."""
        for key, device in self.measured.devices.items():
            for metric, columns in self._arriving[key].columns.items():
                column, is_counter = merged(columns), metric == known.ENERGY
                device.tallies[metric] = [
                    self._ruler.tally(column, run, is_counter=is_counter) for run in device.runs
                ]
            self._arriving[key].columns.clear()

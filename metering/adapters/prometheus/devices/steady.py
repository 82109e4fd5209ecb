"""Steady GPUs: those whose window Prometheus' aggregates and samples at its edges show exactly.

A GPU is steady when each of its devices served one workload throughout, by one series a metric that
was there at every scrape of its counter, and the counter never fell. What is not steady is read
from raw samples: a pod that began or ended, an instance that changed, two exporters, a value that
cannot be, a figure that paused. So is every GPU about which the aggregates leave a doubt.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.asking import Asking
from metering.adapters.prometheus.devices.aggregates import (
    ANSWERS,
    BUSY,
    EARLY,
    IDLE,
    MEANS,
    UNSTEADY,
    Aggregates,
    Amount,
    read_amount,
)
from metering.adapters.prometheus.devices.columns import (
    SCALES,
    WATTS_MAX,
    Column,
    ColumnReader,
    Exporters,
    Run,
    SampleTotals,
    Workload,
)
from metering.adapters.prometheus.devices.energy import energy_line
from metering.adapters.prometheus.devices.observations import Key, Measured, MeasuredDevice, key_of
from metering.adapters.prometheus.devices.scrapes import Scrapes, count_scrapes
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.queries import ANSWER_LABEL
from metering.adapters.prometheus.samples import Range, Series
from metering.domain.devices.figures import POWER_MILLIWATTS_MIN, UTILIZATION_MILLIONTHS_MIN

EDGE_SCRAPES: Final = 2
"""How far to both sides of an edge samples are read: one on each side, with its neighbour."""
OTHERS_SHARE: Final = 2
"""Where more than one in so many GPUs is not steady, raw samples of all cost less."""


@dataclass(frozen=True)
class Steady:
    """What the aggregates show.

    Attributes:
        measured: The steady GPUs.
        others: The UUID of each further one, with the label that holds it.
    """

    measured: Measured
    others: Mapping[str, str]


def read_steady(asking: Asking, aggregates: Aggregates, exporters: Exporters) -> Steady | None:
    """Return the steady GPUs of a part of the devices; None where they are too few.

    Raises:
        SourceUnavailableError: No response, or an invalid one.
    """
    hours, plan = aggregates.hours, aggregates.plan
    margin = EDGE_SCRAPES * hours.scrape
    if hours.end - hours.start < 2 * margin:
        return None
    window = Range(hours.start // 1000, hours.end // 1000)
    reading = _SteadyReading(plan.names, exporters, hours)
    reading.take_rows(asking.rows(aggregates.presence(), window))
    for edge in (hours.start, hours.end):
        around = Range((edge - margin) // 1000, (edge + margin) // 1000)
        reading.take_edge(
            asking.matrix(
                lambda seconds: plan.devices((known.ENERGY,), aggregates.part, seconds), around
            )
        )
    reading.check_presence()
    if reading.is_mostly_others():
        return None
    reading.take_rows(asking.rows(aggregates.means(), window))
    reading.take_rows(asking.rows(aggregates.extremes(), window))
    steady = reading.finish()
    return None if reading.is_mostly_others() else steady


@dataclass
class _Shown:
    """What answers show of one device.

    Attributes:
        edges: Series of its counter around the window's start, then around its end.
    """

    amounts: dict[str, Amount | None] = field(default_factory=dict)
    edges: list[Series] = field(default_factory=list)
    workloads: set[Workload] = field(default_factory=set)
    is_doubtful: bool = False


@dataclass(frozen=True)
class _Spanning:
    """A device that served one workload throughout: its counter at the edges, and its scrapes."""

    device: MeasuredDevice
    counter: Column
    scrapes: Scrapes


class _SteadyReading:
    """The devices of one part, from the first row to those that are steady."""

    def __init__(self, names: Names, exporters: Exporters, hours: Hours) -> None:
        self.gpus: dict[str, list[Key]] = {}
        self.others: dict[str, str] = {}
        self._names = names
        self._exporters = exporters
        self._hours = hours
        self._columns = ColumnReader()
        self._shown: dict[Key, _Shown] = {}
        self._labelled: dict[tuple[tuple[str, str], ...], tuple[_Shown, Workload]] = {}
        self._labels: dict[str, str] = {}
        self._spanning: dict[Key, _Spanning] = {}

    def take_rows(self, rows: Iterable[tuple[dict[str, str], str]]) -> None:
        for labels, text in rows:
            answer = labels.pop(ANSWER_LABEL, UNSTEADY)
            shown, workload = self._of(labels)
            amounts = shown.amounts
            if answer not in ANSWERS or answer in amounts:
                shown.is_doubtful = True
                continue
            amount = amounts[answer] = read_amount(answer, text)
            if amount is None:
                shown.is_doubtful = True
            if answer in known.PRESENCE:
                shown.workloads.add(workload)

    def take_edge(self, counters: Iterable[Series]) -> None:
        for one in counters:
            self._of_device(one.labels).edges.append(one)

    def is_mostly_others(self) -> bool:
        return OTHERS_SHARE * len(self.others) > len(self.gpus)

    def check_presence(self) -> None:
        """Note the devices that served one workload throughout, by a counter that never fell."""
        for uuid, keys in self.gpus.items():
            for key in keys:
                spanning = self._span(self._shown[key])
                if spanning is None:
                    self.others[uuid] = self._labels[uuid]
                    break
                self._spanning[key] = spanning

    def finish(self) -> Steady:
        """Return the GPUs of which every device is steady."""
        measured = Measured()
        for uuid, keys in self.gpus.items():
            if uuid not in self.others and not self._add_gpu(measured, uuid, keys):
                self.others[uuid] = self._labels[uuid]
        return Steady(measured, self.others)

    def _of(self, labels: dict[str, str]) -> tuple[_Shown, Workload]:
        """Return the device and the workload of a row; rows of other metrics repeat the labels."""
        known_as = tuple(labels.items())
        found = self._labelled.get(known_as)
        if found is None:
            workload = self._exporters.workload(labels, self._names)
            found = self._labelled[known_as] = (self._of_device(labels), workload)
        return found

    def _of_device(self, labels: Mapping[str, str]) -> _Shown:
        key = key_of(labels, self._names)
        if key not in self._shown:
            self._shown[key] = _Shown()
            if key[0]:
                self.gpus.setdefault(key[0], []).append(key)
        if key[0]:
            label = next(one for one in self._names.labels["uuid"] if labels.get(one))
            if self._labels.setdefault(key[0], label) != label:
                # No one matcher selects all of its series.
                self._labels[key[0]] = ""
        return self._shown[key]

    def _span(self, shown: _Shown) -> _Spanning | None:
        """Return a device whose counter is one series from before the window to after it."""
        counted = shown.amounts.get(known.ENERGY)
        if shown.is_doubtful or not shown.edges or counted is None:
            return None
        labels = shown.edges[0].labels
        workload = self._exporters.workload(labels, self._names)
        if shown.workloads != {workload} or any(one.labels != labels for one in shown.edges):
            return None
        columns = [self._columns.read(one) for one in shown.edges]
        counter = Column(
            [at for one in columns for at in one.times],
            [value for one in columns for value in one.values],
        )
        scrapes = count_scrapes(counter.times, counted.samples, self._hours)
        if scrapes is None or any(low > high for low, high in pairwise(counter.values)):
            return None
        device = MeasuredDevice.of(labels, self._names)
        device.runs = (Run(workload, self._hours.start, self._hours.end),)
        return _Spanning(device, counter, scrapes)

    def _add_gpu(self, measured: Measured, uuid: str, keys: Sequence[Key]) -> bool:
        """Add a GPU; False where a device of it is not steady or they contradict each other."""
        shown = [self._shown[key] for key in keys]
        spanning = [self._spanning[key] for key in keys]
        lows = {one.amounts.get(IDLE) for one in shown}
        if any(one.counter != spanning[0].counter for one in spanning) or len(lows) != 1:
            return False
        if _is_undecided(keys, shown) or not all(map(_add_figures, spanning, shown)):
            return False
        measured.lines[uuid] = energy_line(spanning[0].counter)
        low = lows.pop()
        if low is not None:
            measured.idle_milliwatts[uuid] = low.amount
        measured.devices.update((key, one.device) for key, one in zip(keys, spanning, strict=True))
        return True


def _add_figures(spanning: _Spanning, shown: _Shown) -> bool:
    """Add a device's figures; False where one is not there at every scrape of its counter."""
    tallies, amounts = spanning.device.tallies, shown.amounts
    slots, expected, samples = spanning.scrapes
    tallies[known.ENERGY] = (SampleTotals(slots, expected, samples),)
    for metric in (*BUSY, *MEANS):
        found = amounts.get(metric)
        if found is not None:
            if found.samples != samples:
                return False
            tallies[metric] = (SampleTotals(slots, expected, samples, found.amount),)
    return not shown.is_doubtful and _is_explained(spanning) and _add_memory(spanning, amounts)


def _add_memory(spanning: _Spanning, amounts: Mapping[str, Amount | None]) -> bool:
    """Add a device's memory: its peak, and its parts at one scrape."""
    slots, expected, samples = spanning.scrapes
    peak = amounts.get(known.MEMORY_USED)
    early = {metric: amounts.get(answer) for metric, answer in EARLY.items()}
    if peak is None:
        return not any(early.values())
    if peak.samples != samples or early[known.MEMORY_USED] is None:
        return False
    for metric, found in early.items():
        if found is not None:
            tally = SampleTotals(slots, expected, samples, 0, peak.amount, 0, found.amount)
            spanning.device.tallies[metric] = (tally,)
            if max(found.amount, peak.amount) > SCALES[metric].value_max:
                return False
    return True


def _is_explained(spanning: _Spanning) -> bool:
    """Whether power explains the energy, to less than one step that is more than a GPU can take.

    So a counter that jumped between the edges is read step by step.
    """
    power = spanning.device.tallies.get(known.POWER)
    if power is None:
        return False
    times, readings = spanning.counter
    lasting = times[-1] - times[0]
    explained = power[0].total * lasting // (power[0].samples * 1_000)
    step = lasting // power[0].samples
    return abs(readings[-1] - readings[0] - explained) < WATTS_MAX * step


def _is_undecided(keys: Sequence[Key], shown: Sequence[_Shown]) -> bool:
    """Whether an engine stayed at 0 on a GPU in use, which only its clock explains.

    Of a GPU with instances, one active instance explains it.
    """
    engines = [one.amounts.get(known.BUSY_RATIO) for one in shown]
    is_still = any(one is not None and not one.amount for one in engines)
    is_active = any(key[1] and one and one.amount for key, one in zip(keys, engines, strict=True))
    return is_still and not is_active and any(map(_is_in_use, shown))


def _is_in_use(shown: _Shown) -> bool:
    power, used = (shown.amounts.get(one) for one in (known.POWER, known.BUSY_PERCENT))
    return (power is not None and power.amount >= POWER_MILLIWATTS_MIN * power.samples) or (
        used is not None and used.amount >= UTILIZATION_MILLIONTHS_MIN * used.samples
    )

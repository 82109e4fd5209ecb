"""Devices: how busy each was and what energy it took, cut into runs by the workload it served.

A device's series come several times: once per pod under virtual GPUs, per copy of Prometheus, per
restart of the exporter. They are merged by (UUID, instance, profile) first, and only then cut.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Final

from metering.adapters.prometheus.energy import energy_line
from metering.adapters.prometheus.names import BUSY_PERCENT, BUSY_RATIO, ENERGY, UP, Names
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.samples import Fact, Series, read_decimal, to_time
from metering.protocols import DeviceObservation

Workload = tuple[str, str]
"""Namespace and pod; both "" when idle or not attributable."""
NOBODY: Final[Workload] = ("", "")
EXPORTER_CONTAINERS: Final = frozenset({"nvidia-dcgm-exporter", "dcgm-exporter", "exporter"})
"""Names the exporter's container has in its charts, for sites that keep no `up` of it."""
_JITTER: Final = 1_000
"""Milliseconds by which a scrape may come early without counting as one more."""
_RATIO_STEP: Final = Decimal("0.000001")
_FULL: Final[Mapping[str, int]] = {BUSY_PERCENT: 100, BUSY_RATIO: 1}


@dataclass(frozen=True, slots=True)
class Exporters:
    """The exporters' own pods, whose names Prometheus puts on series that name no pod."""

    pods: frozenset[Workload]

    def workload(self, labels: Mapping[str, str], names: Names) -> Workload:
        """Return who a series belongs to.

        Without `honor_labels` the workload is in `exported_*` and plain labels are the exporter's;
        with it an idle device inherits the exporter's plain labels.
        """
        namespace, pod = names.label(labels, "namespace"), names.label(labels, "pod")
        if not pod or not namespace:
            return NOBODY
        is_plain = pod == labels.get("pod") and not labels.get("exported_pod")
        if is_plain and self._is_own(namespace, pod, labels.get("container", "")):
            return NOBODY
        return namespace, pod

    def _is_own(self, namespace: str, pod: str, container: str) -> bool:
        if self.pods:
            return (namespace, pod) in self.pods
        return container in EXPORTER_CONTAINERS


def read_exporters(facts: Iterable[Fact]) -> Exporters:
    """Return the pods that DCGM's metrics are scraped from."""
    return Exporters(
        frozenset(
            (fact.labels.get("namespace", ""), fact.labels["pod"])
            for fact in facts
            if fact.metric == UP and fact.labels.get("pod")
        )
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """A stretch over which one workload was named, Unix milliseconds."""

    workload: Workload
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class _Device:
    """All series of one device."""

    uuid: str
    instance_id: str
    profile: str
    series: Sequence[Series]

    def merged(self, metric: str) -> dict[int, Decimal]:
        """Return one value a time: the largest over copies; unbelievable ones count as unseen."""
        values: dict[int, Decimal] = {}
        for one in self.series:
            if one.metric != metric:
                continue
            for at, text in zip(one.times, one.values, strict=True):
                value = read_decimal(text)
                if value.is_finite() and value >= 0:
                    known = values.get(at)
                    values[at] = value if known is None or value > known else known
        return values


def read_devices(
    series: Iterable[Series], exporters: Exporters, names: Names, hours: Hours
) -> tuple[DeviceObservation, ...]:
    """Return every device's runs inside the window, by UUID, instance and time.

    Raises:
        SourceUnavailableError: `bad_sample` for a value that is no number.
    """
    grouped: dict[tuple[str, str, str], list[Series]] = defaultdict(list)
    for one in series:
        uuid = names.label(one.labels, "uuid")
        if uuid:
            instance = names.label(one.labels, "instance_id")
            profile = names.label(one.labels, "instance_profile")
            grouped[uuid, instance, profile].append(one)
    return tuple(
        observed
        for key, members in sorted(grouped.items())
        for observed in _observe(_Device(*key, members), exporters, names, hours)
    )


def _observe(
    device: _Device, exporters: Exporters, names: Names, hours: Hours
) -> Iterator[DeviceObservation]:
    busy = _busy_samples(device)
    line = energy_line({} if device.instance_id else device.merged(ENERGY))
    labels = device.series[0].labels
    for run in _runs(device.series, exporters, names, hours):
        samples, expected = _samples(busy, run, hours)
        ratios = [ratio for at, ratio in busy.items() if run.begin <= at < run.end]
        yield DeviceObservation(
            uuid=device.uuid,
            node=names.label(labels, "hostname"),
            model=names.label(labels, "model"),
            instance_id=device.instance_id,
            instance_profile=device.profile,
            namespace=run.workload[0],
            pod=run.workload[1],
            begin_at=to_time(run.begin),
            end_at=to_time(run.end),
            busy_ratio=_mean(ratios),
            samples=samples,
            expected_samples=expected,
            energy_millijoules=line.between(run.begin, run.end),
        )


def _busy_samples(device: _Device) -> dict[int, Decimal]:
    """Return the busy share by time: GPU_UTIL where there is one, else GR_ENGINE_ACTIVE.

    MIG instances have no GPU_UTIL; a value that is more than everything counts as unseen.
    """
    for metric in (BUSY_RATIO,) if device.instance_id else (BUSY_PERCENT, BUSY_RATIO):
        full = _FULL[metric]
        found = {at: value / full for at, value in device.merged(metric).items() if value <= full}
        if found:
            return found
    return {}


def _mean(ratios: Sequence[Decimal]) -> Decimal | None:
    if not ratios:
        return None
    return (sum(ratios, Decimal(0)) / len(ratios)).quantize(_RATIO_STEP, rounding=ROUND_HALF_UP)


def _samples(busy: Iterable[int], run: _Run, hours: Hours) -> tuple[int, int]:
    """Return how many scrapes of a run brought a sample, and how many there should have been.

    Scrapes are counted on the grid of the samples themselves, so that two copies of Prometheus, or
    a faster scrape, cannot hide a hole.
    """
    seen = sorted(at for at in busy if run.begin <= at < run.end)
    if not seen:
        return 0, max(1, (run.end - run.begin) // hours.scrape)
    phase, half = seen[0], hours.scrape // 2
    slots = {(at - phase + half) // hours.scrape for at in seen}
    before = (phase - run.begin) // hours.scrape
    after = (run.end - 1 - _JITTER - phase) // hours.scrape
    return len(slots), max(len(slots), before + 1 + after)


def _runs(
    series: Sequence[Series], exporters: Exporters, names: Names, hours: Hours
) -> Iterator[_Run]:
    """Yield the stretches of one workload, clipped to the window.

    A sample speaks for the time until the next one, but not across a hole of more than two and a
    half scrapes to another workload, and not for more than a scrape after the last one.
    """
    named = _workloads(series, exporters, names)
    times = sorted(named)
    begin = times[0]
    # Only where the workload changes, or the samples end, does a run end.
    for at, following in [*_changes(times, named), (times[-1], None)]:
        end = at + hours.scrape
        if following is not None and following - at <= hours.scrape * 5 // 2:
            end = following
        first, last = max(begin, hours.start), min(end, hours.end)
        if first < last:
            yield _Run(named[at], first, last)
        if following is not None:
            begin = following


def _changes(
    times: Sequence[int], named: Mapping[int, Workload]
) -> Iterator[tuple[int, int | None]]:
    """Yield the last time of each workload but the last, and the first time of the next."""
    if len(set(named.values())) > 1:
        for at, following in pairwise(times):
            if named[at] != named[following]:
                yield at, following


def _workloads(
    series: Sequence[Series], exporters: Exporters, names: Names
) -> Mapping[int, Workload]:
    """Return who each time belongs to: the only pod named then, or nobody when several are."""
    by_workload: dict[Workload, set[int]] = defaultdict(set)
    for one in series:
        by_workload[exporters.workload(one.labels, names)].update(one.times)
    idle = by_workload.pop(NOBODY, set())
    named: dict[int, Workload] = dict.fromkeys(idle, NOBODY)
    shared: set[int] = set()
    for workload, times in by_workload.items():
        shared |= {at for at in times if named.get(at, NOBODY) != NOBODY}
        named.update(dict.fromkeys(times, workload))
    named.update(dict.fromkeys(shared, NOBODY))
    return named

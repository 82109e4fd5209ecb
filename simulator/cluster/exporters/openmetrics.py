"""The history of simulated clusters as OpenMetrics text, for `promtool tsdb create-blocks-from`.

What Prometheus would hold had it scraped all along: labels as after the scrape, one sample per
successful scrape, series that stop when the object goes, `up` 0 or missing in an outage. No
staleness markers: the text format has none, so only raw range selectors are exact on it.

A sparse history meters to the same figures with a little more than half of the samples: what stays
as it is while its series lives has a sample at the first, the last and every second scrape.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, pairwise
from typing import BinaryIO, Final

from simulator.cluster.exporters.device_metrics import (
    BUSY,
    ENERGY,
    REMAP_FAILURE,
    device_labels,
)
from simulator.cluster.exporters.device_series import (
    DeviceTimeline,
    PowerTimeline,
    busy_at,
)
from simulator.cluster.exporters.exposition import ClusterExposition
from simulator.cluster.exporters.object_series import FAMILIES, SeriesInterval, cluster_spans
from simulator.cluster.exporters.prometheus_text import Labels, permille, render_labels
from simulator.cluster.exporters.scraping import (
    device_target,
    object_target,
    scraped_device,
    scraped_object,
)
from simulator.cluster.scenario import (
    OutageKind,
    Scenario,
    SimulatedCluster,
)

SLICE_SECONDS: Final = 162 * 3600
"""Slices begin at its multiples. promtool reads a text once per block it falls into, and 162 h is
one of TSDB's own block lengths, so each slice is read once and becomes one block."""
OBJECT_FAMILIES: Final = (
    "kube_pod_info",
    "kube_pod_container_resource_requests",
    "kube_pod_init_container_resource_requests",
    "kube_pod_init_container_info",
    "kube_pod_status_phase",
    "kube_pod_status_reason",
    "kube_pod_status_scheduled_time",
    "kube_pod_completion_time",
    "kube_pod_deletion_timestamp",
    "kube_pod_labels",
    "kube_node_labels",
    "kube_node_status_allocatable",
    "kube_namespace_labels",
)
"""What a meter reads and a little more: every family costs two million samples a month."""
_PHASES_KEPT: Final = frozenset({"Succeeded", "Failed"})
_EVERY_SCRAPE: Final = frozenset(
    {
        "kube_pod_container_resource_requests",
        "kube_pod_init_container_resource_requests",
        "kube_node_status_allocatable",
    }
)
"""Families whose samples say at which scrapes an object was there; never made sparse."""
_SPARSE_STEP: Final = 2
"""Scrapes: at 120 s an instant query, which looks back 5 minutes, still finds every series."""


@dataclass(frozen=True)
class HistorySlice:
    """A part [begin_at, end_at) of a history that one text holds."""

    begin_at: datetime
    end_at: datetime


@dataclass(frozen=True)
class SliceFigures:
    """What a text holds."""

    samples: int
    size_bytes: int


def history_slices(begin_at: datetime, until: datetime) -> tuple[HistorySlice, ...]:
    """Return the slices of [begin_at, until), oldest first, each within one TSDB block."""
    marks = [int(begin_at.timestamp())]
    end = int(until.timestamp())
    while (mark := (marks[-1] // SLICE_SECONDS + 1) * SLICE_SECONDS) < end:
        marks.append(mark)
    moments = [*(datetime.fromtimestamp(mark, UTC) for mark in marks), until]
    return tuple(HistorySlice(first, last) for first, last in pairwise(moments) if first < last)


class HistoryWriter:
    """Writes slices of one scenario's history; device allocations are computed once.

    Args:
        scenario: The scenario to write.
        is_sparse: Whether samples that no meter reads are left out.
    """

    def __init__(self, scenario: Scenario, *, is_sparse: bool = False) -> None:
        """Prepare the series of every cluster."""
        self._is_sparse = is_sparse
        self._expositions = [ClusterExposition(cluster) for cluster in scenario.clusters]
        self._spans: dict[str, defaultdict[str, list[SeriesInterval]]] = {}
        for cluster in scenario.clusters:
            spans = self._spans[cluster.slug] = defaultdict(list)
            for span in cluster_spans(cluster):
                if span.family in OBJECT_FAMILIES and _is_kept(span, is_sparse=is_sparse):
                    spans[span.family].append(span)

    def write(self, part: HistorySlice, out: BinaryIO) -> SliceFigures:
        """Write one slice, ending with # EOF, and return its contents."""
        figures = _Counter(out)
        grids = {
            exposition.cluster.slug: _Grid(exposition.cluster, part)
            for exposition in self._expositions
        }
        for name in OBJECT_FAMILIES:
            figures.add(_head(name, FAMILIES[name].kind))
            step = _SPARSE_STEP if self._is_sparse and name not in _EVERY_SCRAPE else 1
            for slug, spans in self._spans.items():
                figures.add_all(_span_lines(slug, spans[name], grids[slug], step=step))
        for metric in (BUSY, ENERGY):
            figures.add(_head(metric.family.name, metric.family.kind))
            for exposition in self._expositions:
                slug = exposition.cluster.slug
                figures.add_all(
                    chain.from_iterable(
                        _device_lines(metric.family.name, timeline, exposition, grids[slug])
                        for timeline in exposition.timelines
                    )
                )
        failing = [*self._failure_lines(grids)]
        if failing:
            figures.add(_head(REMAP_FAILURE.family.name, REMAP_FAILURE.family.kind))
            figures.add_all(failing)
        figures.add(_head("up", "gauge"))
        for slug, grid in grids.items():
            for target in (object_target(slug), device_target(slug)):
                figures.add_all(grid.up_lines(target))
        figures.add(b"# EOF\n")
        return SliceFigures(figures.samples, figures.size_bytes)

    def _failure_lines(self, grids: Mapping[str, "_Grid"]) -> Iterator[tuple[bytes, int]]:
        """Yield the samples of devices while they are broken; health has none."""
        for exposition in self._expositions:
            grid = grids[exposition.cluster.slug]
            for failure in exposition.cluster.failures:
                begin, end = int(failure.begin_at.timestamp()), int(failure.end_at.timestamp())
                for timeline in exposition.timelines:
                    if (timeline.gpu.uuid, timeline.instance_id) == (failure.gpu_uuid, ""):
                        yield from _broken_lines(timeline, grid, begin=begin, end=end)


class _Grid:
    """The scrapes of one cluster in a slice: seconds, and how each line of one ends."""

    def __init__(self, cluster: SimulatedCluster, part: HistorySlice) -> None:
        self.cluster = cluster
        due = list(cluster.scheduled_scrapes(part.begin_at, part.end_at))
        self.ticks = [int(at.timestamp()) for at in due if not cluster.is_blind(at)]
        self.tails = [b" %d\n" % second for second in self.ticks]
        self._down = [
            int(at.timestamp())
            for at in due
            if any(
                outage.covers(at) and outage.kind is OutageKind.EXPORTERS
                for outage in cluster.outages
            )
        ]

    def reach(self, begin: int, end: int) -> tuple[int, int]:
        """Return the range of scrapes in [begin, end)."""
        return bisect_left(self.ticks, begin), bisect_left(self.ticks, end)

    def up_lines(self, target: Labels) -> Iterator[tuple[bytes, int]]:
        """Yield a target's `up`: 1, or 0 where it did not answer, oldest first."""
        head = f"up{{{render_labels(target)}}} ".encode()
        answers = sorted([(at, 1) for at in self.ticks] + [(at, 0) for at in self._down])
        yield b"".join(b"%s%d %d\n" % (head, value, at) for at, value in answers), len(answers)


class _Counter:
    """Counts what goes out, and writes it in large pieces."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.samples = 0
        self.size_bytes = 0

    def add(self, text: bytes) -> None:
        self.size_bytes += len(text)
        self._out.write(text)

    def add_all(self, pieces: Iterable[tuple[bytes, int]]) -> None:
        for text, samples in pieces:
            self.samples += samples
            self.add(text)


def _is_kept(span: SeriesInterval, *, is_sparse: bool) -> bool:
    if span.family != "kube_pod_status_phase":
        return True
    return span.labels[-1][1] in _PHASES_KEPT and not (is_sparse and span.value == "0")


def _head(name: str, kind: str) -> bytes:
    """Return the family's header; in OpenMetrics only names ending in _total are counters."""
    type_name = "unknown" if kind == "counter" else kind
    return f"# TYPE {name} {type_name}\n".encode()


def _span_lines(
    slug: str, spans: Iterable[SeriesInterval], grid: _Grid, *, step: int
) -> Iterator[tuple[bytes, int]]:
    for span in spans:
        first, last = grid.reach(span.begin, span.end)
        if first < last:
            labels = render_labels(scraped_object(slug, span.labels))
            head = f"{span.family}{{{labels}}} {span.value}".encode()
            tails = grid.tails[first:last:step]
            if (last - 1 - first) % step:
                tails.append(grid.tails[last - 1])
            yield head + head.join(tails), len(tails)


def _device_lines(
    family: str, timeline: DeviceTimeline, exposition: ClusterExposition, grid: _Grid
) -> Iterator[tuple[bytes, int]]:
    power = exposition.powers[timeline.gpu.uuid]
    for segment in timeline.segments:
        first, last = grid.reach(segment.begin, segment.end)
        if first >= last:
            continue
        labels = scraped_device(grid.cluster.slug, device_labels(timeline, segment))
        head = f"{family}{{{render_labels(labels)}}} ".encode()
        values = (
            _busy_values(segment.level, grid.ticks[first:last])
            if family == BUSY.family.name
            else _energy_values(power, grid.ticks[first:last])
        )
        lines = zip(values, grid.tails[first:last], strict=True)
        yield b"".join([head + value + tail for value, tail in lines]), last - first


def _broken_lines(
    timeline: DeviceTimeline, grid: _Grid, *, begin: int, end: int
) -> Iterator[tuple[bytes, int]]:
    for segment in timeline.segments:
        first, last = grid.reach(max(segment.begin, begin), min(segment.end, end))
        if first < last:
            labels = scraped_device(grid.cluster.slug, device_labels(timeline, segment))
            head = f"{REMAP_FAILURE.family.name}{{{render_labels(labels)}}} 1".encode()
            yield head + head.join(grid.tails[first:last]), last - first


def _busy_values(level: int, seconds: list[int]) -> list[bytes]:
    return [permille(busy_at(level, second)).encode() for second in seconds]


def _energy_values(power: PowerTimeline, seconds: list[int]) -> list[bytes]:
    return [b"%d" % power.millijoules(second) for second in seconds]

"""Nodes: what they offered, for how long, and which labels they carried at a given time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from metering.adapters.prometheus.names import ALLOCATABLE, NODE_LABELS, Names
from metering.adapters.prometheus.samples import Fact, Series, read_units
from metering.protocols import NodeObservation

LABEL_PREFIX = "label_"
"""What kube-state-metrics puts before the name of an object's own label."""


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels a node carried, sanitised keys, and when; no times when it never carried others."""

    labels: Mapping[str, str]
    times: Sequence[int] = ()

    def distance(self, at: int) -> int:
        """Return the milliseconds from a time to the nearest sight of these labels."""
        return min((abs(at - time) for time in self.times), default=0)


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """Every set of labels each node carried in range."""

    sets: Mapping[str, Sequence[LabelSet]]

    def is_settled(self) -> bool:
        """Whether one answer per node will do, or times are needed to tell sets apart."""
        return all(len(sets) == 1 or sets[0].times for sets in self.sets.values())

    def nearest(self, node: str, at: int) -> Mapping[str, str]:
        """Return the labels at the sight nearest to a time in Unix milliseconds."""
        sets = self.sets.get(node, ())
        # Of two equally near the later set wins: a bind between two sights saw the change.
        return min(reversed(sets), key=lambda one: one.distance(at)).labels if sets else {}


def label_sets(facts: Iterable[Fact], names: Names) -> NodeLabels:
    """Return the sets of labels without their times."""
    sets: dict[str, list[LabelSet]] = defaultdict(list)
    for fact in facts:
        if fact.metric == NODE_LABELS:
            labels = LabelSet(plain_labels(fact.labels))
            known = sets[names.label(fact.labels, "node")]
            if labels not in known:
                known.append(labels)
    return NodeLabels(sets)


def timed_label_sets(details: Iterable[Series], names: Names) -> NodeLabels:
    """Return the sets of labels with the times they were seen at, first seen first."""
    times: dict[str, dict[frozenset[tuple[str, str]], set[int]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for one in details:
        if one.metric == NODE_LABELS:
            key = frozenset(plain_labels(one.labels).items())
            times[names.label(one.labels, "node")][key].update(one.times)
    return NodeLabels(
        {
            node: sorted(
                (LabelSet(dict(sorted(key)), sorted(seen)) for key, seen in sets.items()),
                key=lambda one: one.times[0],
            )
            for node, sets in times.items()
        }
    )


def plain_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return what kube-state-metrics prefixes with `label_`: the object's own labels."""
    return {
        key.removeprefix(LABEL_PREFIX): value
        for key, value in labels.items()
        if key.startswith(LABEL_PREFIX)
    }


@dataclass(frozen=True, slots=True)
class Hours:
    """The window in Unix milliseconds, and the scrape interval that time is counted in."""

    start: int
    end: int
    scrape: int


def read_nodes(
    sights: Sequence[Series], labels: NodeLabels, names: Names, hours: Hours
) -> tuple[NodeObservation, ...]:
    """Return the nodes that offered a GPU inside the window, by name.

    Raises:
        SourceUnavailableError: `bad_sample` for an offer that cannot be believed.
    """
    offers: dict[str, dict[str, list[Series]]] = defaultdict(lambda: defaultdict(list))
    for one in sights:
        if one.metric == ALLOCATABLE:
            node = names.label(one.labels, "node")
            offers[node][one.labels.get("resource", "")].append(one)
    return tuple(
        observed
        for node in sorted(offers)
        if (observed := _observe(node, offers[node], labels, hours)) is not None
    )


def _observe(
    node: str, offered: Mapping[str, Sequence[Series]], labels: NodeLabels, hours: Hours
) -> NodeObservation | None:
    last = {resource: _last_offer(series, hours) for resource, series in offered.items()}
    allocatable = {name: found[1] for name, found in sorted(last.items()) if found is not None}
    if not any(allocatable.values()):
        return None
    times = sorted({at for series in offered.values() for one in series for at in one.times})
    last_seen = max(found[0] for found in last.values() if found is not None)
    return NodeObservation(
        node=node,
        labels=labels.nearest(node, last_seen),
        allocatable=allocatable,
        covered_seconds=covered_seconds(times, hours),
    )


def _last_offer(series: Sequence[Series], hours: Hours) -> tuple[int, int] | None:
    """Return the time and units of the last sight inside the window; copies by their maximum."""
    inside = [(at, read_units(value)) for one in series for at, value in _last_inside(one, hours)]
    return max(inside, default=None)


def _last_inside(one: Series, hours: Hours) -> Iterable[tuple[int, str]]:
    for at, value in zip(reversed(one.times), reversed(one.values), strict=True):
        if hours.start <= at < hours.end:
            return ((at, value),)
    return ()


def covered_seconds(times: Sequence[int], hours: Hours) -> int:
    """Return the whole seconds of the window that sights speak for.

    Two sights at most two and a half scrapes apart speak for what lies between them; a sight at
    the edge of a hole speaks for half a scrape towards it.
    """
    half, longest = hours.scrape // 2, hours.scrape * 5 // 2
    covered = 0
    begin = previous = None
    for at in times:
        if begin is None or previous is None:
            begin = at
        elif at - previous > longest:
            covered += _clipped(begin - half, previous + half, hours)
            begin = at
        previous = at
    if begin is not None and previous is not None:
        covered += _clipped(begin - half, previous + half, hours)
    return covered // 1000


def _clipped(begin: int, end: int, hours: Hours) -> int:
    return max(0, min(end, hours.end) - max(begin, hours.start))

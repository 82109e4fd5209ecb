"""Nodes: what they offered, for how long, and their labels at a point in time."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final

from metering.adapters.prometheus.names import ALLOCATABLE, BUSY_PERCENT, NODE_LABELS, Names
from metering.adapters.prometheus.samples import Fact, Series, distinct, read_units, shown, to_time
from metering.domain.catalogue.sizing import names_product
from metering.protocols import NodeObservation

LABEL_PREFIX = "label_"
"""What kube-state-metrics puts before the name of an object's own label."""
OWN_INTERVAL_MAX: Final = 900_000
"""A series that is sampled more rarely, in milliseconds, shows too little between its samples."""
GAPS_MIN: Final = 2
"""Least number of gaps whose median is used as the sampling interval of a series."""


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Labels a node carried, sanitised keys, and when; no times when it never carried others."""

    labels: Mapping[str, str]
    times: Sequence[int] = ()

    def nearest(self, at: int) -> int:
        """Return the sample of these labels that is nearest to a time; of two the later one."""
        return min(reversed(self.times), key=lambda time: abs(at - time), default=at)

    def distance(self, at: int) -> int:
        """Return the milliseconds from a time to the nearest sample of these labels."""
        return abs(at - self.nearest(at))


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """Every set of labels each node carried in range.

    Attributes:
        beside: How far samples of two exporters may be apart, in milliseconds, to be of one moment.
    """

    sets: Mapping[str, Sequence[LabelSet]]
    beside: int = 0
    _merged: dict[tuple[int, ...], Mapping[str, str]] = field(default_factory=dict, compare=False)

    def is_settled(self) -> bool:
        """Whether one label set per node is enough, or times are needed to distinguish several."""
        return all(len(sets) == 1 or sets[0].times for sets in self.sets.values())

    def names_product(self, node: str) -> bool:
        """Whether some labels of a node name what its devices are."""
        return any(names_product(one.labels) for one in self.sets.get(node, ()))

    def nearest(self, node: str, at: int) -> Mapping[str, str]:
        """Return the labels at the sample nearest to a time, of those that name a product.

        Exporters beside each other show each what they are allowed to, some of them nothing; what
        they show at one moment is one set. Pods of a node share one mapping.

        Args:
            node: The node.
            at: Unix milliseconds.
        """
        sets = self.sets.get(node, ())
        if len(sets) == 1:
            return sets[0].labels
        sizing = [one for one in sets if names_product(one.labels)] or sets
        if not sizing:
            return {}
        # Of two equally near the later set wins: a bind between two samples saw the change.
        best = min(reversed(sizing), key=lambda one: one.distance(at))
        moment = best.nearest(at)
        others = [one for one in sets if one is not best and one.distance(moment) <= self.beside]
        key = tuple(id(one) for one in (*others, best))
        if key not in self._merged:
            self._merged[key] = {
                name: text for one in (*others, best) for name, text in one.labels.items()
            }
        return self._merged[key]

    def completed(self, later: "NodeLabels") -> "NodeLabels":
        """Return these labels, with later ones of nodes that none of these name a product of."""
        late = {
            node: (*self.sets.get(node, ()), *sets)
            for node, sets in later.sets.items()
            if not self.names_product(node)
        }
        return NodeLabels({**self.sets, **late}, self.beside)


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


def read_models(facts: Iterable[Fact], names: Names) -> Mapping[str, frozenset[str]]:
    """Return the GPU models each node's devices name."""
    models: dict[str, set[str]] = defaultdict(set)
    for fact in facts:
        if fact.metric == BUSY_PERCENT:
            models[names.label(fact.labels, "hostname")].add(names.label(fact.labels, "model"))
    return {node: frozenset(named) for node, named in models.items()}


def timed_label_sets(details: Iterable[Series], names: Names, *, beside: int = 0) -> NodeLabels:
    """Return the sets of labels with their sample times, in order of first sample."""
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
        },
        beside,
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
    observations: Sequence[Series], labels: NodeLabels, names: Names, hours: Hours
) -> tuple[NodeObservation, ...]:
    """Return the nodes that offered a GPU inside the window, by name.

    An invalid offer is skipped, and recorded on its node only.
    """
    offers: dict[str, dict[str, list[Series]]] = defaultdict(lambda: defaultdict(list))
    for one in observations:
        if one.metric == ALLOCATABLE:
            node = names.label(one.labels, "node")
            offers[node][one.labels.get("resource", "")].append(one)
    covering = _Covering(hours)
    return tuple(
        observed
        for node in sorted(offers)
        if (observed := _observe(node, offers[node], labels, names, covering)) is not None
    )


class _Covering:
    """How much of the window samples cover; series that were sampled together share their times."""

    def __init__(self, hours: Hours) -> None:
        self.hours = hours
        self._known: dict[int, tuple[Sequence[int], int]] = {}

    def seconds(self, times: Sequence[int]) -> int:
        """Return the whole seconds of the window that samples cover; see `covered_seconds`."""
        known = self._known.get(id(times))
        if known is None:
            known = self._known[id(times)] = (times, covered_seconds(times, self.hours))
        return known[1]


def _observe(
    node: str,
    offered: Mapping[str, Sequence[Series]],
    labels: NodeLabels,
    names: Names,
    covering: _Covering,
) -> NodeObservation | None:
    hours = covering.hours
    defects = {
        f"Its offer of {resource} cannot be {shown(value)}."
        for resource, series in offered.items()
        for one in series
        for value in distinct(one.values)
        if read_units(value) is None
    }
    most = {name: _most_offered(series, hours) for name, series in sorted(offered.items())}
    allocatable = {name: units for name, units in most.items() if units is not None}
    if not any(allocatable.values()) and not defects:
        return None
    parts = [one for series in offered.values() for one in series]
    times = parts[0].times if len(parts) == 1 else sorted({at for one in parts for at in one.times})
    targets = {names.label(one.labels, "instance") for one in parts}
    covered = covering.seconds(times)
    until = bisect_left(times, hours.end)
    is_inside = until > 0 and times[until - 1] >= hours.start
    return NodeObservation(
        node=node,
        labels=labels.nearest(node, times[until - 1] if is_inside else hours.end),
        allocatable=allocatable,
        covered_seconds=covered,
        offered_unit_seconds={
            name: unit_seconds
            for name, units in allocatable.items()
            if not _is_constant(offered[name], times)
            and abs((unit_seconds := _offered(offered[name], hours)) - units * covered) > units
        },
        first_seen_at=to_time(times[0]),
        last_seen_at=to_time(times[-1]),
        targets=tuple(sorted(filter(None, targets))),
        defects=tuple(sorted(defects)),
    )


def _is_constant(series: Sequence[Series], times: Sequence[int]) -> bool:
    """Whether one series alone shows an offer, at all these times and always the same."""
    return len(series) == 1 and len(distinct(series[0].values)) == 1 and series[0].times == times


def _most_offered(series: Sequence[Series], hours: Hours) -> int | None:
    """Return the most units that a sample inside the window showed; None without a sample."""
    return max((units for one in series for units in _units_inside(one, hours)), default=None)


def _units_inside(one: Series, hours: Hours) -> Iterator[int]:
    """Yield each amount that a sample inside the window showed."""
    low, high = bisect_left(one.times, hours.start), bisect_left(one.times, hours.end)
    texts = distinct(one.values)
    is_constant = len(texts) == 1 and low < high
    for text in texts if is_constant else set(one.values[low:high]):
        units = read_units(text)
        if units is not None:
            yield units


def _offered(series: Sequence[Series], hours: Hours) -> int:
    """Return the unit-seconds offered in the window: of copies, the one that offers most."""
    steps = [step for one in series for step in _steps(one, hours)]
    edges = sorted({edge for begin, end, _ in steps for edge in (begin, end)})
    unit_milliseconds = sum(
        _clipped(earlier, later, hours)
        * max((u for begin, end, u in steps if begin <= earlier and later <= end), default=0)
        for earlier, later in pairwise(edges)
    )
    return unit_milliseconds // 1000


def _steps(one: Series, hours: Hours) -> Iterator[tuple[int, int, int]]:
    """Yield begin, end and units of each stretch in which a series offered the same."""
    samples = dict(_samples(one))
    for begin, end in _spans(list(samples), hours):
        inside = [at for at in samples if begin <= at <= end]
        changes = [at for before, at in pairwise(inside) if samples[at] != samples[before]]
        stretches = pairwise([begin, *changes, end])
        for (first, last), at in zip(stretches, [inside[0], *changes], strict=True):
            yield first, last, samples[at]


def _samples(one: Series) -> Iterator[tuple[int, int]]:
    """Yield time and units of each sample that can be."""
    units_of = {text: read_units(text) for text in distinct(one.values)}
    for at, text in zip(one.times, one.values, strict=True):
        units = units_of[text]
        if units is not None:
            yield at, units


def covered_seconds(times: Sequence[int], hours: Hours) -> int:
    """Return the whole seconds of the window that samples cover; see `_spans`."""
    return sum(_clipped(begin, end, hours) for begin, end in _spans(times, hours)) // 1000


def _spans(times: Sequence[int], hours: Hours) -> Iterator[tuple[int, int]]:
    """Yield the intervals that samples cover, in Unix milliseconds.

    What a sample shows holds until the next one, unless they are more than two and a half intervals
    apart. At the edge of a gap a sample covers half a scrape towards it; one of a series that is
    sampled more rarely than it is scraped, for an interval of its own.
    """
    edge, longest = _reach(times, hours.scrape)
    begin = previous = None
    for at in times:
        if begin is None or previous is None:
            begin = at
        elif at - previous > longest:
            yield begin - edge, previous + edge
            begin = at
        previous = at
    if begin is not None and previous is not None:
        yield begin - edge, previous + edge


def _reach(times: Sequence[int], scrape: int) -> tuple[int, int]:
    """Return how much of a gap a sample covers, and how far two may be apart without a gap."""
    gaps = sorted(later - earlier for earlier, later in pairwise(times))
    own = gaps[len(gaps) // 2] if len(gaps) >= GAPS_MIN else scrape
    if own <= scrape * 5 // 2 or own > OWN_INTERVAL_MAX:
        return scrape // 2, scrape * 5 // 2
    return own, own * 5 // 2


def _clipped(begin: int, end: int, hours: Hours) -> int:
    return max(0, min(end, hours.end) - max(begin, hours.start))


def owner_of(labels: Mapping[str, str], user_label: str) -> str:
    """Return the value of the user label, spelled raw, sanitised or as kube-state-metrics does."""
    if not user_label:
        return ""
    first, second = _owner_labels(user_label)
    return labels.get(first) or labels.get(second, "")


@lru_cache(maxsize=64)
def _owner_labels(user_label: str) -> tuple[str, str]:
    """Return the labels to look under, best first."""
    sanitised = "".join(c if c.isascii() and c.isalnum() else "_" for c in user_label)
    return f"{LABEL_PREFIX}{sanitised}", f"{LABEL_PREFIX}{sanitised.removeprefix(LABEL_PREFIX)}"

"""Columns: the samples of one metric of one device, and the workload each belongs to.

An hour of a large cluster is millions of samples, so a column is an array of machine integers, and
what is worked out of the times that many columns share is worked out once.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import UP, Names
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.samples import Fact, Series, read_decimal

WATTS_MAX: Final = 5_000
"""No GPU takes more."""
RATIO: Final = 1_000_000
"""Ratios are kept in millionths."""
_UNSEEN: Final = -1
_TEXTS_MAX: Final = 100_000
"""Number texts cached at a time; a ratio has a million, a percentage a hundred."""
_JITTER: Final = 1_000
"""Milliseconds by which a scrape may come early without counting as one more."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A value becomes a whole number by this factor; one above the largest is invalid."""

    factor: int
    value_max: int
    is_counter: bool = False


SCALES: Final[Mapping[str, Scale]] = {
    known.BUSY_PERCENT: Scale(RATIO // 100, 100),
    known.BUSY_RATIO: Scale(RATIO, 1),
    known.SM_ACTIVE: Scale(RATIO, 1),
    known.TENSOR_ACTIVE: Scale(RATIO, 1),
    known.DRAM_ACTIVE: Scale(RATIO, 1),
    known.MEMORY_USED: Scale(1, 10_000_000),
    known.MEMORY_FREE: Scale(1, 10_000_000),
    known.MEMORY_RESERVED: Scale(1, 10_000_000),
    known.POWER: Scale(1_000, WATTS_MAX),
    known.SM_CLOCK: Scale(1, 10_000),
    known.ENERGY: Scale(1, 2**62, is_counter=True),
}


class Column(NamedTuple):
    """Believable samples, oldest first: Unix milliseconds and whole numbers."""

    times: Sequence[int]
    values: Sequence[int]


class Run(NamedTuple):
    """A stretch over which one workload was named, Unix milliseconds."""

    workload: tuple[str, str]
    begin: int
    end: int


class SampleTotals(NamedTuple):
    """Aggregates of the samples of a column over a run.

    Attributes:
        slots: Scrapes that brought a sample.
        expected: Scrapes that there should have been.
        samples: Those, which are more than scrapes where copies scraped too.
        early_at: The first scrape interval of the run that brought a sample, counted from 0; in
            the first one the last sample counts.
        early: The value there.
    """

    slots: int
    expected: int
    samples: int = 0
    total: int = 0
    peak: int = 0
    early_at: int = 0
    early: int = 0


def unseen(run: Run, *, scrape: int) -> SampleTotals:
    """Return the totals of a run without a sample; all times in milliseconds."""
    return SampleTotals(0, max(1, (run.end - run.begin) // scrape))


def expected_scrapes(run: Run, first: int, *, seen: int, scrape: int) -> int:
    """Return how many scrapes there should have been in a run, by the time of the first one."""
    before = (first - run.begin) // scrape
    after = (run.end - 1 - _JITTER - first) // scrape
    return max(seen, before + 1 + after)


class ColumnReader:
    """Makes columns of series; caches parsed numbers."""

    def __init__(self) -> None:
        """Start with empty caches."""
        self._spelled = {metric: _Numbers(scale) for metric, scale in SCALES.items()}

    def read(self, series: Series) -> Column:
        """Return a series' believable samples; others count as unseen.

        Raises:
            SourceUnavailableError: `bad_sample` for a value that is no number.
        """
        numbers = self._spelled[series.metric]
        values = numbers.read(series.values)
        if not numbers.has_unseen or min(values) >= 0:
            return Column(series.times, values)
        seen = [(at, value) for at, value in zip(series.times, values, strict=True) if value >= 0]
        return Column([at for at, _ in seen], array("q", [value for _, value in seen]))


class _Numbers(dict[str, int]):
    """Spellings of one metric's values to whole numbers, filled as they are met."""

    def __init__(self, scale: Scale) -> None:
        super().__init__()
        self.has_unseen = False
        self._scale = scale

    def read(self, texts: Iterable[str]) -> Sequence[int]:
        if len(self) > _TEXTS_MAX:
            self.clear()
        if self._scale.is_counter:
            return self._read_counter(list(texts))
        # A list of numbers that are spelled again and again is no larger than an array of them.
        return list(map(self.__getitem__, texts))

    def _read_counter(self, texts: Sequence[str]) -> Sequence[int]:
        """Return the readings of a counter, which are whole, large and never the same twice."""
        try:
            readings = array("q", map(int, texts))
        except (ValueError, OverflowError):
            return array("q", [self._number(text) for text in texts])
        self.has_unseen = self.has_unseen or min(readings) < 0
        return readings

    def __missing__(self, text: str) -> int:
        number = self[text] = self._number(text)
        return number

    def _number(self, text: str) -> int:
        value = read_decimal(text)
        if not value.is_finite() or not 0 <= value <= self._scale.value_max:
            self.has_unseen = True
            return _UNSEEN
        return int(value * self._scale.factor)


def merged(columns: Sequence[Column]) -> Column:
    """Return one value a time: the largest over copies."""
    first = columns[0]
    others = [one for one in columns[1:] if one != first]
    if not others:
        return first
    if (joined := _joined([first, *others])) is not None:
        return joined
    values: dict[int, int] = dict(zip(first.times, first.values, strict=True))
    for one in others:
        for at, value in zip(one.times, one.values, strict=True):
            if value > values.get(at, _UNSEEN):
                values[at] = value
    times = sorted(values)
    return Column(times, array("q", [values[at] for at in times]))


def _joined(columns: Sequence[Column]) -> Column | None:
    """Return columns that come one after another as one; None where some overlap.

    So a device's series follow each other whenever it serves another pod.
    """
    ordered = sorted(columns, key=lambda one: one.times[0])
    if any(later.times[0] <= earlier.times[-1] for earlier, later in pairwise(ordered)):
        return None
    return Column(
        list(chain.from_iterable(one.times for one in ordered)),
        array("q", chain.from_iterable(one.values for one in ordered)),
    )


class Ruler:
    """Measures runs by columns, on the grid of the column's own samples.

    So two copies of Prometheus, or a faster scrape, cannot hide a gap.
    """

    def __init__(self, hours: Hours) -> None:
        """Measure nothing yet."""
        self._scrape = hours.scrape
        self._counted: dict[tuple[int, int, int], tuple[Sequence[int], int, int]] = {}

    def tally(self, column: Column, run: Run, *, is_counter: bool = False) -> SampleTotals:
        """Return the aggregates of a column over a run; a counter's readings are not added up."""
        low = bisect_left(column.times, run.begin)
        high = bisect_left(column.times, run.end)
        if low == high:
            return unseen(run, scrape=self._scrape)
        slots, expected = self._count(column.times, run, low, high)
        if is_counter:
            return SampleTotals(slots, expected, samples=high - low)
        values = column.values[low:high]
        early = max(low, bisect_left(column.times, run.begin + self._scrape, low, high) - 1)
        return SampleTotals(
            slots=slots,
            expected=expected,
            samples=high - low,
            total=sum(values),
            peak=max(values),
            early_at=(column.times[early] - run.begin) // self._scrape,
            early=column.values[early],
        )

    def _count(self, times: Sequence[int], run: Run, low: int, high: int) -> tuple[int, int]:
        """Return scrapes seen and expected; the times are kept, so that their id stays theirs."""
        key = (id(times), run.begin, run.end)
        found = self._counted.get(key)
        if found is None:
            phase, half = times[low], self._scrape // 2
            slots = len({(at - phase + half) // self._scrape for at in times[low:high]})
            expected = expected_scrapes(run, phase, seen=slots, scrape=self._scrape)
            found = self._counted[key] = (times, slots, expected)
        return found[1], found[2]


Workload = tuple[str, str]
"""Namespace and pod."""
NOBODY: Final[Workload] = ("", "")
SEVERAL: Final[Workload] = ("", "*")
"""Several pods at once; no pod can be called so."""
EXPORTER_CONTAINERS: Final = frozenset({"nvidia-dcgm-exporter", "dcgm-exporter", "exporter"})
"""Names the exporter's container has in its charts, for sites that keep no `up` of it."""


@dataclass(frozen=True, slots=True)
class Exporters:
    """The exporters' own pods, whose names Prometheus puts on series that name no pod."""

    pods: frozenset[Workload]

    def workload(self, labels: Mapping[str, str], names: Names) -> Workload:
        """Return the workload a series belongs to.

        Without `honor_labels` the workload is in `exported_*` and plain labels are the exporter's;
        with it an idle device inherits the exporter's plain labels. A series that numbers the
        share of a device is one of several, also while it is the only one.
        """
        namespace, pod = names.label(labels, "namespace"), names.label(labels, "pod")
        if not pod or not namespace:
            return NOBODY
        is_plain = pod == labels.get("pod") and not labels.get("exported_pod")
        if is_plain and self._is_own(namespace, pod, labels.get("container", "")):
            return NOBODY
        return SEVERAL if names.label(labels, "share") else (namespace, pod)

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


def runs_of(seen: Sequence[tuple[Workload, Sequence[int]]], hours: Hours) -> Iterator[Run]:
    """Yield the stretches of one workload, clipped to the window.

    A sample covers the time until the next one, but not a gap of more than two and a half scrapes
    before another workload, and not more than one scrape after the last sample.

    Args:
        seen: The workload of each series of a device, with the times of its samples.
        hours: The window.
    """
    stretches = _apart(seen) or _stretches(_named(seen))
    joined = list(_merge_neighbours(stretches))
    for one, following in zip(joined, [*joined[1:], None], strict=True):
        end = one.last + hours.scrape
        if following is not None and following.first - one.last <= hours.scrape * 5 // 2:
            end = following.first
        begin, end = max(one.first, hours.start), min(end, hours.end)
        if begin < end:
            yield Run(one.workload, begin, end)


class _Stretch(NamedTuple):
    """The first and last sample that name one workload, with no other's between them."""

    first: int
    last: int
    workload: Workload


def _apart(seen: Sequence[tuple[Workload, Sequence[int]]]) -> Sequence[_Stretch]:
    """Return series that come one after another as they are; nothing where some overlap.

    That is nearly every device, and it avoids reading each sample.
    """
    found = sorted({_Stretch(times[0], times[-1], workload) for workload, times in seen})
    if any(later.first <= earlier.last for earlier, later in pairwise(found)):
        return ()
    return found


def _stretches(named: Mapping[int, Workload]) -> Sequence[_Stretch]:
    return [_Stretch(at, at, named[at]) for at in sorted(named)]


def _merge_neighbours(stretches: Iterable[_Stretch]) -> Iterator[_Stretch]:
    """Yield the stretches with those of one workload that follow each other as one."""
    for workload, group in groupby(stretches, key=attrgetter("workload")):
        ours = list(group)
        yield _Stretch(ours[0].first, ours[-1].last, workload)


def _named(seen: Sequence[tuple[Workload, Sequence[int]]]) -> Mapping[int, Workload]:
    """Return the workload at each time: the only pod named then, or several."""
    by_workload: dict[Workload, dict[int, Sequence[int]]] = defaultdict(dict)
    for workload, times in seen:
        by_workload[workload][id(times)] = times
    named: dict[int, Workload] = {}
    several: set[int] = set()
    for workload, parts in sorted(by_workload.items()):
        at_times = dict.fromkeys(at for times in parts.values() for at in times)
        several.update(at for at in at_times if named.get(at, NOBODY) != NOBODY)
        named.update(dict.fromkeys(at_times, workload))
    named.update(dict.fromkeys(several, SEVERAL))
    return named

"""Several hours of a cluster asked together: one raw range over all, and facts at each one's time.

The raw samples around all of them are one response, which is divided by time here. Facts, counts
and targets are the very queries of one hour, which Prometheus evaluates at the query time of each:
a range query with a step of an hour. So each hour gets what asking for it alone returns.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from metering.adapters.prometheus.asking import Arrived, Asking
from metering.adapters.prometheus.completeness import compare_counts, read_counts
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.pods.facts import PodFacts, note_fact
from metering.adapters.prometheus.pods.queries import (
    FACTS_OF_NODES,
    Facts,
    Observations,
    PodQueries,
    split_observations,
)
from metering.adapters.prometheus.pods.requests import RequestReader
from metering.adapters.prometheus.queries import FACTS, OBSERVATIONS, QueryPlan, counts
from metering.adapters.prometheus.samples import (
    Fact,
    Range,
    Series,
    Values,
    checked_metric,
    distinct,
    read_timestamp,
    stream_samples,
)
from metering.adapters.prometheus.targets import read_targets
from tenants.domain.errors import SourceUnavailableError

HOUR_SECONDS: Final = 3600
SERIES_HOURS_MAX: Final = 50_000
"""Series of pods and nodes in all hours together, which bounds what is in memory."""
DIVISIONS_MAX: Final = 64
"""Divided samples cached at a time: pods that were there all the time are spelled alike."""

_FLAGS: Final = frozenset({"0", "1"})

Row = tuple[Mapping[str, str], str]
HoursByValue = Mapping[str, int]
"""From a value to the hours in which a row has it: an integer with a bit for each."""


@dataclass(frozen=True)
class HourAnswers:
    """What the queries that were asked together returned for one hour.

    Attributes:
        names: Reads the labels that the hours share.
    """

    names: RequestReader
    series: Sequence[Series]
    facts: Facts
    arrived: Sequence[Arrived]
    counts: Sequence[Row]
    targets: Sequence[Row]


@dataclass(frozen=True)
class HourQueries(PodQueries):
    """The queries around one of several hours: what was asked together, and the rest alone."""

    answers: HourAnswers

    def observations(self) -> Observations:
        """Return this hour's part of the raw samples."""
        return split_observations(self.answers.series, self.answers.names)

    def facts(self, *, user_label: str) -> Facts:
        """Return the facts at this hour's time, which were read with the same label."""
        del user_label
        return self.answers.facts

    def check_counts(self) -> None:
        """Compare what arrived of this hour with the counts at its time."""
        compare_counts(read_counts(self.answers.counts), self.answers.arrived)
        super().check_counts()

    def targets(self) -> Mapping[str, int]:
        """Return the targets of the day before this hour's time."""
        return read_targets(self.answers.targets, self.plan.names)


def fit_together(around: Sequence[Range]) -> bool:
    """Whether some ranges, oldest first, are of one length and whole hours apart."""
    first = around[0]
    return all(
        one.seconds == first.seconds
        and (one.asked_seconds - first.asked_seconds) % HOUR_SECONDS == 0
        for one in around
    )


def ask_together(
    asking: Asking, plan: QueryPlan, around: Sequence[Range], *, user_label: str
) -> list[HourAnswers]:
    """Ask about several hours; return the answers for each.

    Args:
        asking: The conversation about all of them.
        plan: The queries of one.
        around: What they cover for each hour, oldest first; they fit together.
        user_label: Label that names the owning user; "" for none.

    Raises:
        SourceUnavailableError: No response, or an invalid one; `too_large` when there are more
            series than are read together.
    """
    seconds = around[0].seconds
    division = _Division(around)
    # A second more, so that what lies on the first hour's left edge is counted as on the others'.
    span = Range(around[0].first_seconds - 1, around[-1].asked_seconds)
    for one in asking.matrix(plan.observations, span):
        division.add(one)
    steps = _Steps(asking, [one.asked_seconds for one in around])
    facts = _FactsByHour(plan.names, around, user_label=user_label)
    for labels, hours_of in steps.rows(plan.facts(seconds)):
        facts.add(labels, hours_of)
    asked = {OBSERVATIONS: plan.observations(seconds), FACTS: plan.facts(seconds)}
    counted = steps.rows_by_hour(counts(asked))
    targets = steps.rows_by_hour(plan.targets())
    names = RequestReader(plan.names, is_shared=True)
    return [
        HourAnswers(
            names=names,
            series=division.series[hour],
            facts=facts.at(hour),
            arrived=(division.arrived(hour), facts.arrived(hour)),
            counts=counted[hour],
            targets=targets[hour],
        )
        for hour in range(len(around))
    ]


class _Steps:
    """Queries that are evaluated at the time of each hour, and of those between them."""

    def __init__(self, asking: Asking, asked_seconds: Sequence[int]) -> None:
        self._asking = asking
        self._steps = range(asked_seconds[0], asked_seconds[-1] + 1, HOUR_SECONDS)
        self._hours = {at * 1000: hour for hour, at in enumerate(asked_seconds)}

    def rows(self, query: str) -> Iterator[tuple[Mapping[str, str], HoursByValue]]:
        """Yield labels of each row, and its values with the hours they are of.

        Raises:
            SourceUnavailableError: `bad_sample` for a value at another time, or as `asking` does.
        """
        for answer, part in self._asking.steps(query, self._steps):
            samples = 0
            within = Range(part[0] - 1, part[-1])
            # Texts that are spelled alike were read to the same values.
            known: dict[int, tuple[Sequence[str], HoursByValue]] = {}
            for labels, times, values in stream_samples(answer, within):
                samples += len(times)
                found = known.get(id(values))
                if found is None:
                    if len(known) >= DIVISIONS_MAX:
                        known.clear()
                    found = known[id(values)] = values, self._hours_of(times, values, part)
                yield labels, found[1]
            self._asking.note_steps(query, part, answer, samples)

    def _hours_of(self, times: Sequence[int], values: Sequence[str], part: range) -> HoursByValue:
        hours_of: dict[str, int] = {}
        for at, value in zip(times, values, strict=True):
            if at % 1000 or at // 1000 not in part:
                raise SourceUnavailableError(
                    "A value is of another time than was asked for.", reason="bad_sample"
                )
            if at in self._hours:
                hours_of[value] = hours_of.get(value, 0) | 1 << self._hours[at]
        return hours_of

    def rows_by_hour(self, query: str) -> list[list[Row]]:
        """Return the rows of each hour; see `rows`."""
        found: list[list[Row]] = [[] for _ in self._hours]
        for labels, hours_of in self.rows(query):
            for value, hours in hours_of.items():
                for hour in each_hour(hours):
                    found[hour].append((labels, value))
        return found


def each_hour(hours: int) -> Iterator[int]:
    """Yield the positions of some hours."""
    return (hour for hour in range(hours.bit_length()) if hours >> hour & 1)


Samples = tuple[Sequence[int], Sequence[str]]


class _Part(NamedTuple):
    """What of one series lies in one hour's range; no samples where only its left edge has one."""

    hour: int
    samples: Samples | None


class _Division:
    """Raw samples by hour. What is alike is kept once, for most pods are there all of an hour.

    Args:
        around: The range of each hour.
    """

    def __init__(self, around: Sequence[Range]) -> None:
        self.series: list[list[Series]] = [[] for _ in around]
        self._around = around
        # Series are counted once where a refused query returned them in two pieces.
        self._inside: list[set[int]] = [set() for _ in around]
        self._with_edge: list[set[int]] = [set() for _ in around]
        self._size = 0
        self._divided: dict[int, tuple[Series, list[_Part]]] = {}
        self._times: dict[tuple[int, ...], Sequence[int]] = {}
        self._constant: dict[tuple[int, str], Values] = {}

    def add(self, one: Series) -> None:
        """Divide one series.

        Raises:
            SourceUnavailableError: `too_large` when there are more than are read together.
        """
        key = hash(frozenset(one.labels.items()))
        for hour, samples in self._parts(one):
            self._with_edge[hour].add(key)
            if samples is not None:
                self._inside[hour].add(key)
                self.series[hour].append(Series(one.metric, one.labels, *samples))
                self._size += 1
        if self._size > SERIES_HOURS_MAX:
            raise SourceUnavailableError(
                f"More than {SERIES_HOURS_MAX} series are not read together.", reason="too_large"
            )

    def arrived(self, hour: int) -> Arrived:
        """Return how many series there are of one hour."""
        inside, with_edge = len(self._inside[hour]), len(self._with_edge[hour])
        return Arrived(OBSERVATIONS, "", self._around[hour], with_edge, inside)

    def _parts(self, one: Series) -> list[_Part]:
        # Texts that are spelled alike were read to the same values.
        known = self._divided.get(id(one.values))
        if known is not None:
            return known[1]
        if len(self._divided) >= DIVISIONS_MAX:
            self._divided.clear()
        parts = list(self._divide(one))
        self._divided[id(one.values)] = (one, parts)
        return parts

    def _divide(self, one: Series) -> Iterator[_Part]:
        for hour, within in enumerate(self._around):
            first, last = within.first_seconds * 1000, within.asked_seconds * 1000
            low, high = bisect_right(one.times, first), bisect_right(one.times, last)
            if low < high:
                yield _Part(hour, self._samples(one, low, high))
            elif bisect_left(one.times, first) < low:
                yield _Part(hour, None)

    def _samples(self, one: Series, low: int, high: int) -> Samples:
        key = tuple(one.times[low:high])
        times = self._times.setdefault(key, list(key))
        values = Values(one.values[low:high])
        if len(distinct(values)) == 1:
            values = self._constant.setdefault((id(times), values[0]), values)
        return times, values


class _FactsByHour:
    """Facts of pods by hour. Hours in which all rows of a pod agree share its facts.

    Args:
        names: The cluster's spelling.
        around: The range of each hour.
        user_label: Label that names the owning user; "" for none.
    """

    def __init__(self, names: Names, around: Sequence[Range], *, user_label: str) -> None:
        self._names, self._around, self._user_label = names, around, user_label
        self._pods: dict[str, list[tuple[int, PodFacts]]] = defaultdict(list)
        self._others: list[list[Fact]] = [[] for _ in around]
        self._rows: dict[int, int] = defaultdict(int)

    def add(self, labels: Mapping[str, str], hours_of: HoursByValue) -> None:
        """Add a row, with the hours it has each value in."""
        metric = checked_metric(labels, self._names)
        uid = labels.get("uid")
        for value, hours in hours_of.items():
            self._rows[hours] += 1
            fact = Fact(metric, labels, value)
            if metric in FACTS_OF_NODES:
                for hour in each_hour(hours):
                    self._others[hour].append(fact)
            elif uid and self._is_read_alike(value, hours):
                self._note(uid, fact, hours)
            elif uid:
                for hour in each_hour(hours):
                    self._note(uid, fact, 1 << hour)

    def at(self, hour: int) -> Facts:
        """Return the facts at one hour's time."""
        return Facts(
            {
                uid: facts
                for uid, parts in self._pods.items()
                for hours, facts in parts
                if hours >> hour & 1
            },
            self._others[hour],
        )

    def arrived(self, hour: int) -> Arrived:
        """Return how many rows there are of one hour."""
        rows = sum(count for hours, count in self._rows.items() if hours >> hour & 1)
        return Arrived(FACTS, "", self._around[hour], rows, rows)

    def _is_read_alike(self, value: str, hours: int) -> bool:
        """Whether a value means the same in some hours: a time may be too late for the first."""
        is_alone = hours & (hours - 1) == 0
        return is_alone or read_timestamp(value, self._first(hours)) is not None or value in _FLAGS

    def _note(self, uid: str, fact: Fact, hours: int) -> None:
        """Add a fact to those of some hours, apart from what it does not hold for."""
        parts = self._pods[uid]
        if len(parts) == 1 and parts[0][0] == hours:
            self._read(parts[0][1], fact, hours)
            return
        for position, (there, known) in enumerate(list(parts)):
            both = there & hours
            if not both:
                continue
            facts = known
            if both != there:
                parts[position] = (there & ~hours, known)
                facts = replace(known)
                parts.append((both, facts))
            self._read(facts, fact, both)
            hours &= ~both
        if hours:
            facts = PodFacts()
            parts.append((hours, facts))
            self._read(facts, fact, hours)

    def _read(self, facts: PodFacts, fact: Fact, hours: int) -> None:
        note_fact(facts, fact, self._names, user_label=self._user_label, within=self._first(hours))

    def _first(self, hours: int) -> Range:
        return self._around[(hours & -hours).bit_length() - 1]

"""Coverage by scrapes: which targets observed a pod or node, and when nothing observed it.

A pod's absence means something only at a scrape of a target that would have shown it. So pods and
nodes are grouped by the targets that carried them, and each group has its own timeline: of two
shards one does not cover for the other, and a target that never carried anything covers for nothing
and hides nothing. A copy of the exporter, or one that returned under another address, carries the
same objects, and is joined to the first one by them.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Final, Protocol

from metering.domain.allocations.timeline import OpenInterval, seconds_between

UNSHOWN_SCRAPES_MAX: Final = 2
"""A target scraped more often than this while an object existed, without it, does not carry it. An
exporter may respond to its first scrapes before it has listed all objects."""

Names = frozenset[str]
_Reach = tuple[datetime, datetime]


class Carried(Protocol):
    """A pod or node as some targets carried it."""

    @property
    def targets(self) -> Sequence[str]:
        """Return the names of the targets; empty when not known."""
        ...

    @property
    def first_seen_at(self) -> datetime | None:
        """Return its first sample; None when not known."""
        ...

    @property
    def last_seen_at(self) -> datetime | None:
        """Return its last sample; None when not known."""
        ...


@dataclass(frozen=True)
class TargetGroup:
    """Targets of which each carried the same pods and nodes: a scrape of any observed them all.

    Attributes:
        targets: Their names; empty where the source cannot name them.
        ticks: Their successful scrapes, oldest first, and those of all targets for the time in
            which these carried nothing.
    """

    targets: Names
    ticks: tuple[datetime, ...]


@dataclass(frozen=True)
class Hole:
    """A time in a window in which some pods and nodes were not observed.

    Attributes:
        begin_at: Half a scrape after the last observation, or the window's begin.
        end_at: Half a scrape before the next one, or the window's end.
        seconds: Length of the whole hole, beyond the window too; a lower bound where it is not
            bounded.
        is_bounded: Whether there was an observation before it and after it.
        targets: Of which targets; empty where the source cannot name them.
        before_seconds: How much of it lies before the window.
        after_seconds: How much of it lies after the window.
    """

    begin_at: datetime
    end_at: datetime
    seconds: int
    is_bounded: bool
    targets: Names = frozenset()
    before_seconds: int = 0
    after_seconds: int = 0

    @property
    def inside_seconds(self) -> int:
        """Return how much of it lies in the window."""
        return seconds_between(self.begin_at, self.end_at)

    def exceeds(self, seconds: int) -> bool:
        """Whether it is longer than a limit, or its length is not known."""
        return not self.is_bounded or self.seconds > seconds


@dataclass(frozen=True)
class ScrapeCoverage:
    """The timelines of one observation; there is always at least one."""

    lines: tuple[TargetGroup, ...]

    @cached_property
    def joint(self) -> tuple[datetime, ...]:
        """Return scrapes between any two of which every line was scraped."""
        return _joint([line.ticks for line in self.lines])

    @cached_property
    def last_tick(self) -> datetime | None:
        """Return the last scrape of any target."""
        return max((line.ticks[-1] for line in self.lines if line.ticks), default=None)

    def ticks_for(self, targets: Sequence[str]) -> Sequence[datetime]:
        """Return when an object that these targets carried would have been observed."""
        key = tuple(targets)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._ticks_of(frozenset(key))
        return found

    def _ticks_of(self, names: Names) -> Sequence[datetime]:
        found = self._cache.get(names)
        if found is None:
            own = [line.ticks for line in self.lines if line.targets == names]
            wider = own or [line.ticks for line in self.lines if line.targets > names]
            found = self._cache[names] = _joint(wider) if names and wider else self.joint
        return found

    @cached_property
    def _known(self) -> dict[tuple[str, ...], Sequence[datetime]]:
        return {}

    @cached_property
    def _cache(self) -> dict[Names, Sequence[datetime]]:
        return {}

    def holes(
        self, *, start_at: datetime, end_at: datetime, scrape_interval_seconds: int
    ) -> tuple[Hole, ...]:
        """Return the holes that overlap [start_at, end_at), oldest first."""
        scrape = timedelta(seconds=scrape_interval_seconds)
        found = {
            hole
            for line in self.lines
            for hole in _holes_of(line, start_at=start_at, end_at=end_at, scrape=scrape)
        }
        return tuple(sorted(found, key=lambda one: (one.begin_at, one.end_at, sorted(one.targets))))


def coverage_of(
    ticks: Sequence[datetime],
    *,
    targets: Mapping[str, Sequence[datetime]],
    carried: Iterable[Carried],
    missed: Collection[str] = (),
) -> ScrapeCoverage:
    """Return the timelines of what was observed.

    Args:
        ticks: The scrapes as a whole, for objects whose targets are not known.
        targets: The scrapes of each target by its name, oldest first.
        carried: Every pod and node that was observed.
        missed: Names of targets that should have been scraped all the time, whatever they carried.
    """
    groups = _groups(carried, known=targets)
    absent = tuple(TargetGroup(frozenset({name}), tuple(targets[name])) for name in sorted(missed))
    if not groups:
        return ScrapeCoverage((TargetGroup(frozenset(), tuple(ticks)), *absent))
    heads = _heads(groups, by_name=targets)
    whole = _ticks_of(frozenset().union(*heads), by_name=targets)
    lines = (
        TargetGroup(names, _filled(_ticks_of(names, by_name=targets), heads[names], whole=whole))
        for names in sorted(heads, key=sorted)
    )
    return ScrapeCoverage((*lines, *absent))


def uncovered(holes: Iterable[Hole], *, spans: Sequence[OpenInterval]) -> tuple[Hole, ...]:
    """Return the parts of holes that another source did not observe either.

    Args:
        holes: Oldest first.
        spans: When the other source observed everything, oldest first.
    """
    return tuple(part for hole in holes for part in _parts_beside(hole, spans=spans))


def united_seconds(holes: Iterable[Hole]) -> int:
    """Return how many seconds lie in at least one hole."""
    return sum(seconds_between(begin, end) for begin, end in united(holes))


def united(holes: Iterable[Hole]) -> tuple[tuple[datetime, datetime], ...]:
    """Return holes of several targets as times that do not overlap, oldest first."""
    merged: list[tuple[datetime, datetime]] = []
    for begin, end in sorted((hole.begin_at, hole.end_at) for hole in holes):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return tuple(merged)


def _groups(carried: Iterable[Carried], *, known: Mapping[str, object]) -> dict[Names, set[_Reach]]:
    groups: dict[Names, set[_Reach]] = defaultdict(set)
    found: dict[tuple[str, ...], Names] = {}
    for one in carried:
        targets = tuple(one.targets)
        if targets not in found:
            found[targets] = frozenset(name for name in targets if name in known)
        names = found[targets]
        if names and one.first_seen_at is not None and one.last_seen_at is not None:
            groups[names].add((one.first_seen_at, one.last_seen_at))
    return groups


def _heads(
    groups: Mapping[Names, set[_Reach]], *, by_name: Mapping[str, Sequence[datetime]]
) -> dict[Names, set[_Reach]]:
    """Return the groups of which no wider one observed everything, with what they stand for.

    What lived through a restart was carried by the old target and the new one; what ended before it
    by the old one alone, and the wider group observed its end.
    """
    wider: dict[str, list[Names]] = defaultdict(list)
    for names in sorted(groups, key=lambda one: (-len(one), sorted(one))):
        for name in names:
            wider[name].append(names)
    heads: dict[Names, set[_Reach]] = {}
    for names, reaches in groups.items():
        hosts = [
            host
            for host in wider[min(names)]
            if host > names and _is_hosted(reaches, host - names, by_name=by_name)
        ]
        for head in hosts[:1] or [names]:
            heads.setdefault(head, set()).update(reaches)
    return heads


def _is_hosted(
    reaches: set[_Reach], others: Names, *, by_name: Mapping[str, Sequence[datetime]]
) -> bool:
    """Whether other targets were not scraped while objects existed that they did not carry."""
    return all(
        bisect_right(by_name[name], last) - bisect_left(by_name[name], first) <= UNSHOWN_SCRAPES_MAX
        for name in others
        for first, last in reaches
    )


def _ticks_of(names: Names, *, by_name: Mapping[str, Sequence[datetime]]) -> tuple[datetime, ...]:
    return tuple(sorted({at for name in names for at in by_name[name]}))


def _filled(
    ticks: Sequence[datetime], reaches: set[_Reach], *, whole: Sequence[datetime]
) -> tuple[datetime, ...]:
    """Return a group's scrapes, and those of all targets while it exported no objects."""
    first, last = min(first for first, _ in reaches), max(last for _, last in reaches)
    begin, end = bisect_left(ticks, first), bisect_right(ticks, last)
    before = whole[: bisect_left(whole, ticks[begin - 1])] if begin else ()
    after = whole[bisect_right(whole, ticks[end]) :] if end < len(ticks) else ()
    return (*before, *ticks[max(0, begin - 1) : end + 1], *after)


def _joint(lines: Sequence[Sequence[datetime]]) -> tuple[datetime, ...]:
    if len(lines) == 1:
        return tuple(lines[0])
    found: list[datetime] = []
    positions = [0] * len(lines)
    while all(at < len(ticks) for at, ticks in zip(positions, lines, strict=True)):
        moment = max(ticks[at] for at, ticks in zip(positions, lines, strict=True))
        found.append(moment)
        positions = [bisect_right(ticks, moment) for ticks in lines]
    return tuple(found)


def _holes_of(
    line: TargetGroup, *, start_at: datetime, end_at: datetime, scrape: timedelta
) -> Iterator[Hole]:
    for begin, end in _unobserved(line.ticks, scrape=scrape):
        first, last = max(begin or start_at, start_at), min(end or end_at, end_at)
        if seconds_between(first, last) > 0:
            seconds = seconds_between(begin or first, end or last)
            is_bounded = begin is not None and end is not None
            yield Hole(
                first,
                last,
                seconds,
                is_bounded,
                line.targets,
                before_seconds=seconds_between(begin or first, first),
                after_seconds=seconds_between(last, end or last),
            )


def _unobserved(
    ticks: Sequence[datetime], *, scrape: timedelta
) -> Iterator[tuple[datetime | None, datetime | None]]:
    """Yield the times between scrapes that should not have been that far apart.

    A scrape beside a hole covers half an interval; before the first one and after the last one
    another may have been due up to a whole interval away.
    """
    if not ticks:
        yield None, None
        return
    yield None, ticks[0] - scrape
    for earlier, later in pairwise(ticks):
        if later - earlier >= scrape * 3 / 2:
            yield earlier + scrape / 2, later - scrape / 2
    yield ticks[-1] + scrape, None


def _parts_beside(hole: Hole, *, spans: Sequence[OpenInterval]) -> Iterator[Hole]:
    begin = hole.begin_at
    parts = []
    for span in spans:
        if span.begin_at > begin:
            parts.append((begin, min(span.begin_at, hole.end_at)))
        begin = max(begin, span.end_at or hole.end_at)
    parts.append((begin, hole.end_at))
    for first, last in parts:
        inside = seconds_between(first, last)
        if (first, last) == (hole.begin_at, hole.end_at):
            yield hole
        elif inside > 0:
            before = hole.before_seconds if first == hole.begin_at else 0
            after = hole.after_seconds if last == hole.end_at else 0
            yield replace(
                hole,
                begin_at=first,
                end_at=last,
                seconds=before + inside + after,
                is_bounded=hole.is_bounded or (first > hole.begin_at and last < hole.end_at),
                before_seconds=before,
                after_seconds=after,
            )

"""Timelines: when a pod held its devices, from the timestamps of its own objects.

Samples show only whether a pod still existed; begin and end come from what the API server and the
kubelet wrote into the object. Where the end was not observed it is bounded, and the bound is
recorded.
"""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import msgspec

DAY_SECONDS: Final = 86_400
_GAP_NUMERATOR: Final = 5
_GAP_DENOMINATOR: Final = 2
"""Two scrapes 2.5 intervals apart have a gap between them."""


def whole_second(moment: datetime) -> datetime:
    """Return a moment without its fraction of a second, rounded down."""
    return moment.replace(microsecond=0) if moment.microsecond else moment


def seconds_between(begin_at: datetime, end_at: datetime) -> int:
    """Return the whole seconds from one moment to a later one, rounded down; 0 if not later."""
    between = end_at - begin_at
    return max(0, between.days * DAY_SECONDS + between.seconds)


class EndKind(StrEnum):
    """How the end of an allocation is known."""

    OPEN = "open"
    EXACT = "exact"
    VANISHED = "vanished"
    VANISHED_IN_GAP = "vanished_in_gap"


class ObservedPod(Protocol):
    """The times of one pod as a source saw them; see protocols.PodObservation."""

    @property
    def scheduled_at(self) -> datetime | None:
        """Return when it was bound; None if it never was."""
        ...

    @property
    def last_seen_at(self) -> datetime:
        """Return the last sample of the object."""
        ...

    @property
    def finished_at(self) -> datetime | None:
        """Return the last container's end, or None outside a terminal phase."""
        ...

    @property
    def terminal_seen_at(self) -> datetime | None:
        """Return the first sample of a terminal phase."""
        ...


class Life(msgspec.Struct, frozen=True):
    """From a pod's bind to its end, as far as one query shows.

    Attributes:
        end_at: None while it is open; excluded.
        slack_seconds: How far the true end may lie from `end_at`; 0 when exact or open.
    """

    begin_at: datetime
    end_at: datetime | None
    end_kind: EndKind
    slack_seconds: int = 0


class Interval(msgspec.Struct, frozen=True):
    """The part of a life inside one window; never empty."""

    begin_at: datetime
    end_at: datetime
    end_kind: EndKind
    slack_seconds: int

    @property
    def seconds(self) -> int:
        """Return its length in whole seconds."""
        return seconds_between(self.begin_at, self.end_at)


def life_of(
    pod: ObservedPod,
    *,
    ticks: Sequence[datetime],
    scrape_interval_seconds: int,
    observed_until: datetime | None = None,
) -> Life | None:
    """Return when a pod held its devices, or None when it never did.

    A pod that was never bound held nothing. Neither did one that the kubelet refused at admission:
    it turns terminal within two scrapes of its bind without any container ever having ended.

    Args:
        pod: Its observation.
        ticks: When it would have been observed, oldest first.
        scrape_interval_seconds: How far ticks should be apart.
        observed_until: The last scrape of anything. A pod whose own ticks end long before it
            vanished with whatever showed it.
    """
    if pod.scheduled_at is None:
        return None
    begin_at = whole_second(pod.scheduled_at)
    gap = gap_between(scrape_interval_seconds)
    if pod.terminal_seen_at is not None:
        return _ended(pod, begin_at=begin_at, ticks=ticks, gap=gap)
    after = bisect_right(ticks, pod.last_seen_at)
    last = pod.last_seen_at
    if after < len(ticks):
        return _vanished(begin_at=begin_at, last=last, seen_gone_at=ticks[after], gap=gap)
    if observed_until is not None and observed_until - last > gap:
        return _vanished(begin_at=begin_at, last=last, seen_gone_at=observed_until, gap=gap)
    return Life(begin_at=begin_at, end_at=None, end_kind=EndKind.OPEN)


@lru_cache(maxsize=64)
def gap_between(scrape_interval_seconds: int) -> timedelta:
    """Return how far two scrapes may be apart without a hole between them."""
    return timedelta(seconds=scrape_interval_seconds) * _GAP_NUMERATOR / _GAP_DENOMINATOR


def _ended(
    pod: ObservedPod, *, begin_at: datetime, ticks: Sequence[datetime], gap: timedelta
) -> Life | None:
    if pod.finished_at is not None:
        end_at = max(begin_at, whole_second(pod.finished_at))
        return Life(begin_at=begin_at, end_at=end_at, end_kind=EndKind.EXACT)
    assert pod.terminal_seen_at is not None  # noqa: S101 - The caller's branch; narrows the type.
    seen = pod.terminal_seen_at
    if seen - begin_at <= gap:
        return None
    before = bisect_left(ticks, seen)
    previous = max(begin_at, ticks[before - 1]) if before else begin_at
    if seen - previous > gap:
        return _life(begin_at, end_at=previous, kind=EndKind.VANISHED_IN_GAP, slack=seen - previous)
    return _life(begin_at, end_at=seen, kind=EndKind.VANISHED, slack=seen - previous)


def _vanished(
    *, begin_at: datetime, last: datetime, seen_gone_at: datetime, gap: timedelta
) -> Life:
    unseen = seen_gone_at - last
    if unseen > gap:
        return _life(begin_at, end_at=last, kind=EndKind.VANISHED_IN_GAP, slack=unseen)
    return _life(begin_at, end_at=last + unseen / 2, kind=EndKind.VANISHED, slack=unseen / 2)


def _life(begin_at: datetime, *, end_at: datetime, kind: EndKind, slack: timedelta) -> Life:
    return Life(
        begin_at=begin_at,
        end_at=max(begin_at, whole_second(end_at)),
        end_kind=kind,
        slack_seconds=-(-slack // timedelta(seconds=1)),
    )


def clip(life: Life, *, start_at: datetime, end_at: datetime) -> Interval | None:
    """Return the part of a life inside [start_at, end_at), or None when there is none.

    A life that continues past the window is open at its end, however it ended later, so the result
    does not depend on when the window is collected.
    """
    begin_at = max(life.begin_at, start_at)
    until = end_at if life.end_at is None else min(life.end_at, end_at)
    if seconds_between(begin_at, until) == 0:
        return None
    goes_on = _surely_goes_on(life, moment=end_at)
    return Interval(
        begin_at=begin_at,
        end_at=until,
        end_kind=EndKind.OPEN if goes_on else life.end_kind,
        slack_seconds=0 if goes_on else life.slack_seconds,
    )


def _surely_goes_on(life: Life, *, moment: datetime) -> bool:
    """Whether a life lasts to a moment even if it ended as early as its slack allows.

    In a gap `end_at` is the last sample, so the slack only reaches forward.
    """
    if life.end_at is None:
        return True
    is_lower_bound = life.end_kind is EndKind.VANISHED_IN_GAP
    earliest = timedelta(0) if is_lower_bound else timedelta(seconds=life.slack_seconds)
    return life.end_at - earliest >= moment


def observed_ticks(
    ticks: Sequence[datetime],
    *,
    start_at: datetime,
    end_at: datetime,
    scrape_interval_seconds: int,
    expected: int,
) -> int:
    """Return how many of the expected scrapes of a window succeeded.

    Missing scrapes are counted rather than scrapes, so that two replicas cannot hide the time in
    which neither was scraped.
    """
    first, after = bisect_left(ticks, start_at), bisect_left(ticks, end_at)
    if first == after:
        return 0
    step = timedelta(seconds=scrape_interval_seconds)
    around = ticks[max(0, first - 1) : after + 1]
    missed = sum(
        sum(start_at <= moment < end_at for moment in _missing_between(earlier, later, step=step))
        for earlier, later in itertools.pairwise(around)
    )
    if first == 0:
        missed += (ticks[0] - start_at) // step
    if after == len(ticks):
        missed += (end_at - ticks[-1]) // step
    return max(0, expected - missed)


def _missing_between(earlier: datetime, later: datetime, *, step: timedelta) -> Iterator[datetime]:
    """Yield the times of the missing scrapes between two successful ones."""
    steps = (later - earlier + step / 2) // step
    for position in range(1, steps):
        yield earlier + (later - earlier) * position / steps


def is_blind_at(moment: datetime, *, ticks: Sequence[datetime]) -> bool:
    """Whether nothing was observed from a moment on, so that running pods are unknown."""
    return not ticks or ticks[-1] < moment


HEARTBEAT_SECONDS: Final = 10
"""How often a healthy watch writes a heartbeat."""


HEALTHY_FOR: Final = timedelta(seconds=3 * HEARTBEAT_SECONDS)
"""After so long without a heartbeat the watch no longer counts as healthy."""


class WatchInterval(Protocol):
    """A time in which the watch was healthy; see models.WatchSpan."""

    @property
    def begin_at(self) -> datetime:
        """Return the first heartbeat."""
        ...

    @property
    def until_at(self) -> datetime:
        """Return the last heartbeat."""
        ...

    @property
    def is_resumed(self) -> bool:
        """Return whether nothing was lost between the span before and this one."""
        ...


class Stretch(NamedTuple):
    """Some time, the end excluded."""

    begin_at: datetime
    end_at: datetime


def blind_stretches(
    spans: Sequence[WatchInterval], *, begin_at: datetime, end_at: datetime
) -> tuple[Stretch, ...]:
    """Return the parts of [begin_at, end_at) the watch did not observe, oldest first.

    A gap before a span that was resumed from a stored resourceVersion lost nothing, because the
    server sent every event since then. A gap that ended with a new list is blind: objects created
    and deleted in it left no trace.

    Args:
        spans: Oldest first, with the last one before and the first one after, so that a gap at
            either edge can be distinguished from a resumed one.
        begin_at: Start of the range, included.
        end_at: Its end, excluded.
    """
    blind = []
    seen_until = begin_at
    for position, span in enumerate(spans):
        is_joined = span.is_resumed and position > 0
        if not is_joined and span.begin_at > seen_until:
            blind.append(Stretch(seen_until, min(span.begin_at, end_at)))
        seen_until = max(seen_until, span.until_at)
        if seen_until >= end_at:
            return tuple(stretch for stretch in blind if stretch.begin_at < stretch.end_at)
    blind.append(Stretch(seen_until, end_at))
    return tuple(stretch for stretch in blind if stretch.begin_at < stretch.end_at)


def covered_seconds(spans: Sequence[WatchInterval], *, begin_at: datetime, end_at: datetime) -> int:
    """Return how many seconds of [begin_at, end_at) the watch observed, rounded down."""
    unseen = sum(
        (
            stretch.end_at - stretch.begin_at
            for stretch in blind_stretches(spans, begin_at=begin_at, end_at=end_at)
        ),
        timedelta(0),
    )
    return max(0, seconds_between(begin_at + unseen, end_at))


@dataclass(frozen=True)
class OpenInterval:
    """[begin_at, end_at); `end_at` None means without an end."""

    begin_at: datetime
    end_at: datetime | None


def overlap_seconds(span: OpenInterval, *, begin_at: datetime, end_at: datetime) -> int:
    """Return how many seconds of [begin_at, end_at) lie in a span."""
    until = end_at if span.end_at is None else min(span.end_at, end_at)
    return seconds_between(max(span.begin_at, begin_at), until)

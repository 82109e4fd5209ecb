"""Start estimate: from when a pod fits, by what is known to begin and end.

Known are grants that begin and end, and when running pods are expected to end. Not known is who
else will ask before then, so this is the earliest time, not a promise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class LimitCourse:
    """One limit that binds: what it leaves now, and how it changes by itself.

    Attributes:
        room_units: What is in force less what counts against it; negative when it is exceeded.
            None binds nobody, whatever changes.
        changes: When, and by how many units, the limit itself rises or falls, oldest first.
    """

    room_units: int | None
    changes: tuple[tuple[datetime, int], ...] = ()


@dataclass(frozen=True)
class ExpectedEnd:
    """A running pod that will give units back.

    Attributes:
        limits: Which limits count it, as places in the sequence of limits.
    """

    at: datetime
    units: int
    limits: frozenset[int] = field(default_factory=frozenset)


def first_fit(
    limits: Sequence[LimitCourse],
    ends: Iterable[ExpectedEnd],
    *,
    units: int,
    at: datetime,
    until: datetime,
) -> datetime | None:
    """Return the first time from `at` to `until` at which every limit leaves room; None if none.

    Args:
        limits: Those that bind the pod.
        ends: When other pods are expected to end; those without an estimate stay away.
        units: What is asked.
        at: Now; what has changed up to then is in `room_units` already.
        until: How far the estimate looks.
    """
    rooms = [limit.room_units for limit in limits]
    if _fits(rooms, units):
        return at
    steps = sorted(_steps(limits, ends), key=lambda step: step[0])
    place = 0
    while place < len(steps):
        when = steps[place][0]
        if when > until:
            return None
        while place < len(steps) and steps[place][0] == when:
            _apply(rooms, steps[place][1])
            place += 1
        if when > at and _fits(rooms, units):
            return when
    return None


Step = tuple[datetime, tuple[tuple[int, int], ...]]
"""A time, and which limits gain how many units then."""


def _steps(limits: Sequence[LimitCourse], ends: Iterable[ExpectedEnd]) -> Iterable[Step]:
    for place, limit in enumerate(limits):
        for when, units in limit.changes:
            yield when, ((place, units),)
    for end in ends:
        yield end.at, tuple((place, end.units) for place in sorted(end.limits))


def _apply(rooms: list[int | None], gains: tuple[tuple[int, int], ...]) -> None:
    for place, units in gains:
        room = rooms[place]
        if room is not None:
            rooms[place] = room + units


def _fits(rooms: Iterable[int | None], units: int) -> bool:
    return all(room is None or room >= units for room in rooms)

"""What a request would come to: on its own limit, and with everything else its project may hold.

A wanted total for a time is filled up piece by piece: units are added only where they are missing.
So the same total asked for again, for a time that overlaps, adds nothing where it is in force.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from quotas.domain.limits.tree import GrantSpan, LimitKey, TreeLimit, levels_of


@dataclass(frozen=True)
class HeldLimit:
    """A limit of a project, or of a user in it.

    Attributes:
        limit: With its grants of now and later.
        burst_units: What preemptible pods may hold beyond.
    """

    limit: TreeLimit
    burst_units: int = 0

    @property
    def key(self) -> LimitKey:
        """Holder and selector."""
        return self.limit.key


@dataclass(frozen=True)
class TermInterval:
    """From when to when, UTC; None is without end."""

    begin_at: datetime
    end_at: datetime | None = None


@dataclass(frozen=True)
class HoldableUnits:
    """What a project may hold of a size at once, over every model, cluster and user."""

    nominal_units: int = 0
    burst_units: int = 0

    @property
    def units(self) -> int:
        """Both together."""
        return self.nominal_units + self.burst_units


def missing_spans(limit: TreeLimit, *, total: int, span: TermInterval) -> tuple[GrantSpan, ...]:
    """Return what to grant so that at least a total is in force all the time, and no more of it.

    Args:
        limit: A finite limit, with its grants of then.
        total: Wanted in all.
        span: For which time.

    Returns:
        One grant for each stretch that lacks as many units; none where nothing is missing.
    """
    spans: list[GrantSpan] = []
    for stretch, units in _stretches(limit, span):
        if units >= total:
            continue
        missing = GrantSpan(total - units, begin_at=stretch.begin_at, end_at=stretch.end_at)
        if spans and (spans[-1].end_at, spans[-1].units) == (missing.begin_at, missing.units):
            missing = replace(missing, begin_at=spans.pop().begin_at)
        spans.append(missing)
    return tuple(spans)


def units_at(limit: TreeLimit, instant: datetime) -> int:
    """Return the units in force at an instant."""
    return max(0, next(_stretches(limit, TermInterval(instant)))[1])


def lowest_units(limit: TreeLimit, span: TermInterval) -> int:
    """Return the fewest units in force at some instant of a time."""
    return max(0, min(units for _, units in _stretches(limit, span)))


def peak_units(limit: TreeLimit, span: TermInterval) -> int:
    """Return the most units in force at some instant of a time."""
    return max(0, *(units for _, units in _stretches(limit, span)))


def raised_reach(
    before: Collection[HeldLimit], after: Collection[HeldLimit], span: TermInterval
) -> HoldableUnits:
    """Return the most a project may hold at an instant at which a change lets it hold more.

    Args:
        before: Every limit of the project and of its users, of one size.
        after: The same with the change.
        span: Which instants count.

    Returns:
        Nothing where the change allows no holder more.
    """
    kept, changed = _counted(before), _counted(after)
    burst = sum(one.burst_units for one in changed)
    worst = HoldableUnits()
    for instant in sorted(_instants((*kept, *changed), span)):
        old, new = _reach_at(kept, instant), _reach_at(changed, instant)
        if new.units > old.units and new.units > worst.units:
            worst = HoldableUnits(new.nominal_units, burst)
    return worst


def _reach_at(limits: Collection[HeldLimit], instant: datetime) -> HoldableUnits:
    nominal = sum(units_at(one.limit, instant) for one in limits)
    return HoldableUnits(nominal, sum(one.burst_units for one in limits))


def _instants(limits: Collection[HeldLimit], span: TermInterval) -> set[datetime]:
    return {stretch.begin_at for one in limits for stretch, _ in _stretches(one.limit, span)}


def _counted(limits: Collection[HeldLimit]) -> tuple[HeldLimit, ...]:
    """Return the limits that add up: finite ones that no other finite one holds together.

    The project's own limit holds its users' together, and a wider one the narrower ones.
    """
    finite = [one for one in limits if one.limit.limit_units is not None]
    return tuple(one for one in finite if not any(_holds(other.key, one.key) for other in finite))


def _holds(above: LimitKey, below: LimitKey) -> bool:
    is_around = above != below and above.user in {"", below.user}
    return is_around and above.selector.covers(below.selector)


def _stretches(limit: TreeLimit, span: TermInterval) -> Iterator[tuple[TermInterval, int]]:
    """Yield the stretches of a time in which the same number is in force, at least one."""
    levels = [
        (instant, units)
        for instant, units in levels_of((limit,), from_at=span.begin_at)
        if span.end_at is None or instant < span.end_at
    ]
    ends = [*(instant for instant, _ in levels[1:]), span.end_at]
    for (instant, units), end_at in zip(levels, ends, strict=True):
        yield TermInterval(instant, end_at), units

"""The tree of limits as values, and what limits come to in time as their grants begin and end."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from quotas.domain.limits.selectors import LimitSelector

ENTIRE_PERCENT: Final = 100
"""What may be promised of a limit unless it says more: all of it once."""


@dataclass(frozen=True, order=True)
class LimitKey:
    """Key of a limit in an organization: holder and selector.

    Attributes:
        project: Slug; "" for the organization's own.
        user: User name; "" for a project's.
    """

    project: str
    user: str
    selector: LimitSelector

    @property
    def scope(self) -> str:
        """Its level."""
        if self.user:
            return "user"
        return "project" if self.project else "organization"

    @property
    def holders_above(self) -> tuple[tuple[str, str], ...]:
        """Project and user of the levels above, the nearest first."""
        if self.user:
            return ((self.project, ""), ("", ""))
        return (("", ""),) if self.project else ()


@dataclass(frozen=True)
class GrantSpan:
    """Signed units on top of a limit, from `begin_at` up to `end_at`; None is without end."""

    units: int
    begin_at: datetime
    end_at: datetime | None = None


@dataclass(frozen=True)
class TreeLimit:
    """One limit of the tree; what is not set has none.

    Attributes:
        limit_units: None is unlimited; then grants add nothing.
        overcommit_percent: How much of it may be promised to the level below, together.
    """

    key: LimitKey
    limit_units: int | None
    overcommit_percent: int = ENTIRE_PERCENT
    grants: tuple[GrantSpan, ...] = ()

    def with_grants(self, *grants: GrantSpan) -> "TreeLimit":
        """Return the limit with further grants."""
        return replace(self, grants=(*self.grants, *grants))


LimitTree = Mapping[LimitKey, TreeLimit]
"""The limits one organization has set, of one size or of several."""


@dataclass(frozen=True)
class Excess:
    """When a sum is furthest above what it may be, and how far."""

    at: datetime
    units: int
    ceiling_units: int

    @property
    def over_units(self) -> int:
        """How far above."""
        return self.units - self.ceiling_units


def worst_excess(
    below: Sequence[TreeLimit], above: TreeLimit, *, percent: int, from_at: datetime
) -> Excess | None:
    """Return the first of the instants at which a sum is furthest above its ceiling."""
    granted, ceiling = _changes(below, from_at=from_at), _changes((above,), from_at=from_at)
    worst: Excess | None = None
    units = ceiling_units = 0
    for instant in sorted({*granted, *ceiling}):
        units += granted[instant]
        ceiling_units += ceiling[instant]
        found = Excess(instant, units, max(0, ceiling_units) * percent // ENTIRE_PERCENT)
        if found.over_units > (0 if worst is None else worst.over_units):
            worst = found
    return worst


def levels_of(limits: Iterable[TreeLimit], *, from_at: datetime) -> list[tuple[datetime, int]]:
    """Return what limits add up to from each instant on at which that changes."""
    levels: list[tuple[datetime, int]] = []
    units = 0
    for instant, change in sorted(_changes(limits, from_at=from_at).items()):
        units += change
        levels.append((instant, units))
    return levels


def _changes(limits: Iterable[TreeLimit], *, from_at: datetime) -> Counter[datetime]:
    """Return by how much the sum of finite limits changes, by instant; the first is `from_at`."""
    changes: Counter[datetime] = Counter()
    for limit in limits:
        changes[from_at] += limit.limit_units or 0
        for grant in limit.grants:
            if grant.end_at is not None and grant.end_at <= from_at:
                continue
            changes[max(grant.begin_at, from_at)] += grant.units
            if grant.end_at is not None:
                changes[grant.end_at] -= grant.units
    return changes

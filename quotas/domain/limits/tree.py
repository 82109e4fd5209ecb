"""The limit tree of an organization: its limits as values, over time, and the rules between them.

For each selector the limits of a level add up to no more than the limit above them, times how much
of that may be promised; and no limit is above one that covers it at a level above, nor unlimited
under one that is not. A limit that is not set does not bind; an unlimited one does not bind either,
but was set explicitly. Grants change limits over time, so the rules are checked at each instant at
which a sum changes. Suspensions change no limit.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from quotas.domain.limits.input import LIMIT_UNITS_MAX
from quotas.domain.limits.selectors import LimitSelector
from tenants.domain.errors import FieldProblem

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
        burst_units: What preemptible pods may hold beyond.
    """

    key: LimitKey
    limit_units: int | None
    overcommit_percent: int = ENTIRE_PERCENT
    grants: tuple[GrantSpan, ...] = ()
    burst_units: int = 0

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


@dataclass(frozen=True)
class TermInterval:
    """From when to when, UTC; None is without end."""

    begin_at: datetime
    end_at: datetime | None = None


def missing_spans(limit: TreeLimit, *, total: int, span: TermInterval) -> tuple[GrantSpan, ...]:
    """Return what to grant on a finite limit so that at least a total is in force all the time.

    One grant for each stretch that lacks as many units; none where nothing is missing.
    """
    spans: list[GrantSpan] = []
    for stretch, units in stretches(limit, span):
        if units >= total:
            continue
        missing = GrantSpan(total - units, begin_at=stretch.begin_at, end_at=stretch.end_at)
        if spans and (spans[-1].end_at, spans[-1].units) == (missing.begin_at, missing.units):
            missing = replace(missing, begin_at=spans.pop().begin_at)
        spans.append(missing)
    return tuple(spans)


def units_at(limit: TreeLimit, instant: datetime) -> int:
    """Return the units in force at an instant."""
    return max(0, next(stretches(limit, TermInterval(instant)))[1])


def lowest_units(limit: TreeLimit, span: TermInterval) -> int:
    """Return the fewest units in force at some instant of a time."""
    return max(0, min(units for _, units in stretches(limit, span)))


def peak_units(limit: TreeLimit, span: TermInterval) -> int:
    """Return the most units in force at some instant of a time."""
    return max(0, *(units for _, units in stretches(limit, span)))


def stretches(limit: TreeLimit, span: TermInterval) -> Iterator[tuple[TermInterval, int]]:
    """Yield the stretches of a time in which the same number is in force, at least one."""
    levels = [
        (instant, units)
        for instant, units in levels_of((limit,), from_at=span.begin_at)
        if span.end_at is None or instant < span.end_at
    ]
    ends = [*(instant for instant, _ in levels[1:]), span.end_at]
    for (instant, units), end_at in zip(levels, ends, strict=True):
        yield TermInterval(instant, end_at), units


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    Attributes:
        code: The broken rule.
        key: The limit that is above what it may be; of a sum, the limit that is exceeded.
        above: The limit it does not fit under; None when it breaks a rule by itself.
        over_units: How many too many when it is worst; None when there is no number to it.
        message: One sentence with the holder, the excess, the selector, and the time if it is later
            than now.
    """

    code: str
    key: LimitKey
    above: LimitKey | None
    over_units: int | None
    message: str

    def as_problem(self, blame: str) -> FieldProblem:
        """Return it as a problem of the input field the caller can change."""
        return FieldProblem(field=blame, code=self.code, message=self.message)


def find_violations(tree: LimitTree, *, from_at: datetime) -> tuple[Violation, ...]:
    """Return everything that does not hold from a time on: by project, user and selector."""
    children = _children_of(tree)
    return tuple(
        violation
        for _, limit in sorted(tree.items())
        for violation in (
            *_own_violations(limit, from_at=from_at),
            *_sum_violations(limit, children.get(limit.key, ()), from_at=from_at),
            *_ceiling_violations(limit, tree, from_at=from_at),
        )
    )


def added_violations(
    before: Sequence[Violation], after: Sequence[Violation]
) -> tuple[Violation, ...]:
    """Return all that would not hold, if a change brings or worsens any of it; else nothing.

    A tree that was broken by an older rule can so be mended one limit at a time.
    """
    known = {(one.code, one.key, one.above): one.over_units for one in before}
    is_worse = any(_is_worse(one, known) for one in after)
    return tuple(after) if is_worse else ()


def _is_worse(
    violation: Violation,
    known: Mapping[tuple[str, LimitKey, LimitKey | None], int | None],
) -> bool:
    identity = (violation.code, violation.key, violation.above)
    if identity not in known:
        return True
    before = known[identity]
    return before is not None and violation.over_units is not None and violation.over_units > before


def _children_of(tree: LimitTree) -> Mapping[LimitKey, list[TreeLimit]]:
    """Return the finite limits with the same selector on the level below, by the limit above."""
    children: dict[LimitKey, list[TreeLimit]] = {}
    for key, limit in sorted(tree.items()):
        if key.project and limit.limit_units is not None:
            parent = LimitKey(key.project if key.user else "", "", key.selector)
            children.setdefault(parent, []).append(limit)
    return children


def _own_violations(limit: TreeLimit, *, from_at: datetime) -> Iterator[Violation]:
    """Yield what a limit and its grants break by themselves."""
    if limit.limit_units is None:
        return
    units = levels_of((limit,), from_at=from_at)
    lowest_at, lowest = min(units, key=lambda level: level[1])
    highest_at, highest = max(units, key=lambda level: level[1])
    who = holder_label(limit.key)
    if lowest < 0:
        yield Violation(
            "units_below_zero",
            limit.key,
            None,
            -lowest,
            f"{who} would have {lowest} {limit.key.selector} with the grants that take units "
            f"away: {-lowest} too few{_since(lowest_at, from_at)}.",
        )
    if highest > LIMIT_UNITS_MAX:
        over_units = highest - LIMIT_UNITS_MAX
        yield Violation(
            "units_above_maximum",
            limit.key,
            None,
            over_units,
            f"{who} would have {highest} {limit.key.selector} with its grants, the most is "
            f"{LIMIT_UNITS_MAX}: {over_units} too many{_since(highest_at, from_at)}.",
        )


def _sum_violations(
    limit: TreeLimit, children: Sequence[TreeLimit], *, from_at: datetime
) -> Iterator[Violation]:
    """Yield that the level below adds up to too much; one child alone is held by the ceiling."""
    if limit.limit_units is None or len(children) == 1:
        return
    worst = worst_excess(children, limit, percent=limit.overcommit_percent, from_at=from_at)
    if worst is None:
        return
    below, above = (
        (f"the users of project {limit.key.project}", "project")
        if limit.key.project
        else ("the projects", "organization")
    )
    code = "users_exceed_project" if limit.key.project else "projects_exceed_organization"
    promised = (
        f"the {above}'s limit is {worst.ceiling_units}"
        if limit.overcommit_percent == ENTIRE_PERCENT
        else f"of the {above}'s limit {worst.ceiling_units} may be promised "
        f"({limit.overcommit_percent} %)"
    )
    message = (
        f"The {limit.key.selector} limits of {below} would add up to {worst.units}, {promised}: "
        f"{worst.over_units} too many{_since(worst.at, from_at)}."
    )
    yield Violation(code, limit.key, limit.key, worst.over_units, message)


def _ceiling_violations(
    limit: TreeLimit, tree: LimitTree, *, from_at: datetime
) -> Iterator[Violation]:
    """Yield which limits above, covering this one, it does not fit under."""
    for above in _covering(limit.key, tree):
        if above.limit_units is None:
            continue
        found = (
            _unlimited_under(limit, above)
            if limit.limit_units is None
            else _above_ceiling(limit, above, from_at=from_at)
        )
        if found is not None:
            yield found


def _covering(key: LimitKey, tree: LimitTree) -> Iterator[TreeLimit]:
    for project, user in key.holders_above:
        for selector in _covering_selectors(key.selector):
            above = tree.get(LimitKey(project, user, selector))
            if above is not None:
                yield above


def _covering_selectors(selector: LimitSelector) -> tuple[LimitSelector, ...]:
    """Return every selector that covers one, itself included, the widest first."""
    groups = sorted({"", selector.model_group})
    clusters = sorted({"", selector.cluster})
    return tuple(
        LimitSelector(selector.size, group, cluster) for group in groups for cluster in clusters
    )


def _unlimited_under(limit: TreeLimit, above: TreeLimit) -> Violation:
    message = (
        f"{holder_label(limit.key)} would be unlimited in {limit.key.selector}, "
        f"{ceiling_label(limit.key, above.key)} is {above.limit_units}: set a number."
    )
    return Violation("unlimited_under_limit", limit.key, above.key, None, message)


def _above_ceiling(limit: TreeLimit, above: TreeLimit, *, from_at: datetime) -> Violation | None:
    worst = worst_excess((limit,), above, percent=ENTIRE_PERCENT, from_at=from_at)
    if worst is None:
        return None
    place = f" in project {limit.key.project}" if limit.key.user else ""
    message = (
        f"{name_label(limit.key)} would have {worst.units} {limit.key.selector}{place}, "
        f"{ceiling_label(limit.key, above.key)} is {worst.ceiling_units}: "
        f"{worst.over_units} too many{_since(worst.at, from_at)}."
    )
    code = f"{limit.key.scope}_exceeds_{above.key.scope}"
    return Violation(code, limit.key, above.key, worst.over_units, message)


def name_label(key: LimitKey) -> str:
    """Return a holder by its own name; a user without the project."""
    if key.user:
        return f"User {key.user}"
    return f"Project {key.project}" if key.project else "The organization"


def holder_label(key: LimitKey) -> str:
    """Return a holder by its own name; a user with the project."""
    return f"User {key.user} of project {key.project}" if key.user else name_label(key)


def ceiling_label(key: LimitKey, above: LimitKey) -> str:
    """Return the limit above as text; with its selector where that differs."""
    what = "limit" if above.selector == key.selector else f"limit of {above.selector}"
    return f"the {above.scope}'s {what}"


def _since(instant: datetime, from_at: datetime) -> str:
    """Return from when it does not hold, where that is not at once."""
    if instant <= from_at:
        return ""
    return f", from {instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC on"

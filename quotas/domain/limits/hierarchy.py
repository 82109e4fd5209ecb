"""The limit tree: rules between limits of an organization, its projects and users, and read access.

For each selector the limits of a level add up to no more than the limit above them, times how much
of that may be promised; and no limit is above one that covers it at a level above, nor unlimited
under one that is not. A limit that is not set does not bind; an unlimited one does not bind either,
but was set explicitly. Grants change limits over time, so the rules are checked at each instant at
which a sum changes. Suspensions change no limit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from quotas.domain.limits.input import LIMIT_UNITS_MAX
from quotas.domain.limits.selectors import LimitSelector
from quotas.domain.limits.tree import (
    ENTIRE_PERCENT,
    LimitKey,
    LimitTree,
    TreeLimit,
    levels_of,
    worst_excess,
)
from tenants.domain.errors import FieldProblem


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
    """Return everything that does not hold now or later: by project, user and selector.

    Args:
        tree: The limits as they would be.
        from_at: Now, UTC: what was before is not judged.
    """
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


@dataclass(frozen=True)
class LimitVisibility:
    """The limits that an actor may read in one organization.

    Attributes:
        reads_organization: Whether the organization's own, and those of all its projects.
        project: Slug of the project whose limits they may read, its users' included; "" for none.
    """

    reads_organization: bool
    project: str

    def reads(self, key: LimitKey) -> bool:
        """Whether they may read the figures of a limit."""
        return self.reads_organization or (bool(key.project) and key.project == self.project)


def seen(violation: Violation, visibility: LimitVisibility) -> Violation:
    """Return a violation without the figures that a reader may not see.

    A level above is named without its numbers, and without the time at which they change. The
    message does not say whether the limit itself or the use of others is the cause: else a reader
    could find out both by trying one number after the other. Another project is not named either: a
    reader of one project must not learn of it.
    """
    keys = [violation.key, *([] if violation.above is None else [violation.above])]
    if all(visibility.reads(key) for key in keys):
        return violation
    if violation.key.project and not visibility.reads(violation.key):
        return replace(violation, over_units=None, message=OTHERS)
    if violation.above is None or violation.code == "unlimited_under_limit":
        return replace(violation, over_units=None, message=_text(violation))
    message = f"The organization's {violation.above.selector} limit does not allow as many."
    return replace(violation, code=ABOVE_ORGANIZATION, over_units=None, message=message)


def seen_once(
    violations: Iterable[Violation], visibility: LimitVisibility
) -> tuple[Violation, ...]:
    """Return violations without the figures hidden from a reader, in order, no duplicates.

    Where a limit does not fit under one whose figures are shown, its violations of higher limits
    are left out: they would reveal those limits.
    """
    every = tuple(violations)
    answered = {one.key for one in every if one.above is not None and seen(one, visibility) == one}
    visible = [
        seen(one, visibility)
        for one in every
        if seen(one, visibility) == one or one.key not in answered
    ]
    return tuple({(one.code, one.message): one for one in visible}.values())


OTHERS = "Limits elsewhere in the organization do not hold: ask an administrator of it."
ABOVE_ORGANIZATION = "above_organization_limit"


def _text(violation: Violation) -> str:
    """Return what does not hold, with scope, holder and what the limit is of, and no number."""
    key, above = violation.key, violation.above
    if above is None:
        return f"{holder_label(key)} could not have its {key.selector} limit with its grants."
    return (
        f"{holder_label(key)} would be unlimited in {key.selector}, {ceiling_label(key, above)} is "
        "not."
    )

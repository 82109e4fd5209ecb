"""What a reader may see of the broken rules of a tree of limits."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from quotas.domain.limits.tree import LimitKey, Violation, ceiling_label, holder_label


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


def visible_violation(violation: Violation, visibility: LimitVisibility) -> Violation:
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
        return replace(violation, over_units=None, message=_label(violation))
    message = f"The organization's {violation.above.selector} limit does not allow as many."
    return replace(violation, code=ABOVE_ORGANIZATION, over_units=None, message=message)


def visible_violations(
    violations: Iterable[Violation], visibility: LimitVisibility
) -> tuple[Violation, ...]:
    """Return violations without the figures hidden from a reader, in order, no duplicates.

    Where a limit does not fit under one whose figures are shown, its violations of higher limits
    are left out: they would reveal those limits.
    """
    every = tuple(violations)
    answered = {
        one.key
        for one in every
        if one.above is not None and visible_violation(one, visibility) == one
    }
    visible = [
        visible_violation(one, visibility)
        for one in every
        if visible_violation(one, visibility) == one or one.key not in answered
    ]
    return tuple({(one.code, one.message): one for one in visible}.values())


OTHERS = "Limits elsewhere in the organization do not hold: ask an administrator of it."
ABOVE_ORGANIZATION = "above_organization_limit"


def _label(violation: Violation) -> str:
    """Return what does not hold, with scope, holder and what the limit is of, and no number."""
    key, above = violation.key, violation.above
    if above is None:
        return f"{holder_label(key)} could not have its {key.selector} limit with its grants."
    return (
        f"{holder_label(key)} would be unlimited in {key.selector}, {ceiling_label(key, above)} is "
        "not."
    )

"""Sight: whose limits somebody may read, and what does not hold in the words that leaves them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from quotas.domain.hierarchy import Violation, ceiling_label, holder_label
from quotas.domain.limit_tree import LimitKey


@dataclass(frozen=True)
class LimitVisibility:
    """Whose limits somebody may read in one organization.

    Attributes:
        reads_organization: The organization's own, and with it those of all of its projects.
        project: Slug of the project whose limits they may read, its users' included; "" for none.
    """

    reads_organization: bool
    project: str

    def reads(self, key: LimitKey) -> bool:
        """Whether they may read the figures of a limit."""
        return self.reads_organization or (bool(key.project) and key.project == self.project)


def seen(violation: Violation, sight: LimitVisibility) -> Violation:
    """Return a violation as somebody may read it.

    A level above is named without its numbers, and without the time at which they change. Whether
    the limit itself or what others hold of it is in the way is not told apart: else asking for one
    number after the other would tell both. Another project is not even named: it does not exist
    for who sees only their own.
    """
    keys = [violation.key, *([] if violation.above is None else [violation.above])]
    if all(sight.reads(key) for key in keys):
        return violation
    if violation.key.project and not sight.reads(violation.key):
        return replace(violation, over_units=None, message=OTHERS)
    if violation.above is None or violation.code == "unlimited_under_limit":
        return replace(violation, over_units=None, message=_words(violation))
    message = f"The organization's {violation.above.selector} limit does not allow as many."
    return replace(violation, code=ABOVE_ORGANIZATION, over_units=None, message=message)


def seen_once(violations: Iterable[Violation], sight: LimitVisibility) -> tuple[Violation, ...]:
    """Return violations as somebody may read them, in their order, and what is alike once.

    Where a limit does not fit under one whose figures are told, nothing more is told of it: what
    is above that would be a second answer to the same question.
    """
    every = tuple(violations)
    answered = {one.key for one in every if one.above is not None and seen(one, sight) == one}
    told = [seen(one, sight) for one in every if seen(one, sight) == one or one.key not in answered]
    return tuple({(one.code, one.message): one for one in told}.values())


OTHERS = "Limits elsewhere in the organization do not hold: ask an administrator of it."
ABOVE_ORGANIZATION = "above_organization_limit"


def _words(violation: Violation) -> str:
    """Return what does not hold, with scope, holder and what the limit is of, and no number."""
    key, above = violation.key, violation.above
    if above is None:
        return f"{holder_label(key)} could not have its {key.selector} limit with its grants."
    return (
        f"{holder_label(key)} would be unlimited in {key.selector}, {ceiling_label(key, above)} is "
        "not."
    )

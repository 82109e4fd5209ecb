"""Sight: whose limits somebody may read, and what does not hold in the words that leaves them."""

from dataclasses import dataclass, replace

from quotas.domain.hierarchy import Violation, told_ceiling, told_holder, told_name
from quotas.domain.limit_tree import LimitKey


@dataclass(frozen=True)
class LimitSight:
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


def seen(violation: Violation, sight: LimitSight) -> Violation:
    """Return a violation as somebody may read it.

    A level above is named without its numbers, and without the time at which they change. Another
    project is not even named: it does not exist for who sees only their own.
    """
    keys = [violation.key, *([] if violation.above is None else [violation.above])]
    if all(sight.reads(key) for key in keys):
        return violation
    is_others = bool(violation.key.project) and not sight.reads(violation.key)
    message = OTHERS if is_others else _words(violation)
    return replace(violation, over_units=None, message=message)


OTHERS = "Limits elsewhere in the organization do not hold: ask an administrator of it."


def _words(violation: Violation) -> str:
    """Return what does not hold, with scope, holder and what the limit is of, and no number."""
    key, above = violation.key, violation.above
    if above is None:
        return f"{told_holder(key)} could not have its {key.selector} limit with its grants."
    if above == key:
        return (
            f"The {key.selector} limits of the projects would add up to more than the "
            "organization's limit allows."
        )
    place = f" in project {key.project}" if key.user else ""
    ceiling = told_ceiling(key, above)
    if violation.code == "unlimited_under_limit":
        return f"{told_holder(key)} would be unlimited in {key.selector}, {ceiling} is not."
    return f"{told_name(key)} would have more {key.selector}{place} than {ceiling} allows."

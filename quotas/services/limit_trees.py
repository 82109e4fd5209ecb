"""Holding the tree of limits to its rules, before anything in it changes."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from quotas.domain.errors import QuotaHierarchyBrokenError
from quotas.domain.hierarchy import added_violations, find_violations
from quotas.domain.limit_tree import LimitKey, TreeLimit


def refuse_violations(
    before: Mapping[LimitKey, TreeLimit],
    changed: Iterable[TreeLimit],
    *,
    blame: str,
    at: datetime,
) -> None:
    """Refuse a change after which the tree would not hold, now or later.

    Args:
        before: The tree as it is.
        changed: The limits that would be other, or new.
        blame: The input field to name.
        at: Now, UTC.

    Raises:
        QuotaHierarchyBrokenError: Every violation is told.
    """
    after = {**before, **{limit.key: limit for limit in changed}}
    found = added_violations(
        find_violations(before, from_at=at), find_violations(after, from_at=at)
    )
    if found:
        raise QuotaHierarchyBrokenError(found, field=blame)

"""Used allowances: limits whose unit-hours of this month are used up."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

from quotas.models import QuotaCounter
from quotas.selectors.in_force import LimitInForce

SECONDS_PER_HOUR: Final = 3600


def used_up_limit_ids(limits: Iterable[LimitInForce], *, at: datetime) -> frozenset[UUID]:
    """Return those of some limits that let nothing more in this month; one statement at most.

    Args:
        limits: Which ones; those without an allowance are never used up.
        at: When, UTC: decides the month.
    """
    hours = {
        limit.limit_id: limit.monthly_unit_hours
        for limit in limits
        if limit.monthly_unit_hours is not None
    }
    if not hours:
        return frozenset()
    rows = QuotaCounter.objects.filter(limit_id__in=list(hours), month=at.date().replace(day=1))
    return frozenset(
        limit_id
        for limit_id, unit_seconds in rows.values_list("limit_id", "month_unit_seconds")
        if unit_seconds >= hours[limit_id] * SECONDS_PER_HOUR
    )

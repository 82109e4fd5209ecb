"""What is not in the costs of a range of days yet, in a constant number of statements."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet, Sum
from django.db.models.functions import TruncDate

from billing.domain.costs import CostDimension, CostQuery
from billing.models import AccrualException, ChangedHour
from metering.selectors.collection.windows import unsealed_hours
from tenants.models import Cluster

_COLUMNS: Final = {
    CostDimension.ORGANIZATION: "organization",
    CostDimension.PROJECT: "project",
    CostDimension.SIZE: "size",
    CostDimension.PRICE_GROUP: "price_group",
}
"""What use without a price is filtered by: it is of no person or cluster."""


@dataclass(frozen=True)
class CostGaps:
    """What costs lack, of the hours in UTC of their days.

    Attributes:
        open_hours: Hours of clusters before `metered_until` that are not sealed.
        unpriced: Unit-seconds without a price, by size.
        changed_days: Days of organizations whose charges are still to be added up.
    """

    open_hours: int
    unpriced: Mapping[str, int]
    changed_days: int


def cost_gaps(
    query: CostQuery,
    *,
    unpriced: QuerySet[AccrualException],
    changed: QuerySet[ChangedHour],
    clusters: QuerySet[Cluster],
    metered_until: datetime | None,
) -> CostGaps:
    """Return what the costs of a query lack.

    Args:
        query: What is asked for.
        unpriced: Use without a price that the actor sees.
        changed: Changed hours of the organizations that the actor sees.
        clusters: Those in use.
        metered_until: The end of the last hour that each of them has sealed.
    """
    begin_at, end_at = _midnight(query.first), _midnight(query.end)
    within = {"window_start__gte": begin_at, "window_start__lt": end_at}
    return CostGaps(
        open_hours=_open_hours(clusters, begin_at, end_at, metered_until),
        unpriced=_unpriced(query, unpriced.filter(**within, resolved_at=None)),
        changed_days=_changed_days(query, changed.filter(**within)),
    )


def _open_hours(
    clusters: QuerySet[Cluster],
    begin_at: datetime,
    end_at: datetime,
    metered_until: datetime | None,
) -> int:
    if metered_until is None or metered_until <= begin_at:
        return 0
    return unsealed_hours(clusters, begin_at=begin_at, end_at=min(end_at, metered_until))


def _unpriced(query: CostQuery, rows: QuerySet[AccrualException]) -> dict[str, int]:
    for dimension, value in (query.filters or {}).items():
        if dimension in _COLUMNS:
            rows = rows.filter(**{_COLUMNS[dimension]: value})
    sums = rows.order_by().values_list("size").annotate(held=Sum("unit_seconds"))
    return {size: int(held) for size, held in sums}


def _changed_days(query: CostQuery, rows: QuerySet[ChangedHour]) -> int:
    organization = (query.filters or {}).get(CostDimension.ORGANIZATION)
    if organization is not None:
        rows = rows.filter(organization=UUID(organization))
    days: Any = rows.order_by().annotate(day=TruncDate("window_start", tzinfo=UTC))
    return int(days.values("organization", "day").distinct().count())


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)

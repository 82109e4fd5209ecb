"""Costs of a range of days, read from the daily costs in a constant number of statements."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db.models import DecimalField, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, NullIf

from billing.domain.costs import (
    ROWS_MAX,
    CostDimension,
    CostKey,
    CostQuery,
    CostRowsTooManyError,
    CostSum,
    GroupCost,
    MonthPace,
    add_sums,
    cost_row,
    pace_of,
)
from billing.models import DailyCost
from metering.selectors.collection.windows import sealed_until, unsealed_hours

_PRODUCT: Final[Any] = DecimalField(max_digits=60, decimal_places=10)
_COST_CENTER: Final = Coalesce(
    NullIf("project__cost_center", Value("")), "organization__cost_center"
)
_NAMED: Final = {
    CostDimension.ORGANIZATION: ("organization_id", "organization__name", "organization__slug"),
    CostDimension.PROJECT: (
        "project_id",
        "project__name",
        "project__slug",
        "organization__slug",
    ),
    CostDimension.CLUSTER: ("cluster_id", "cluster__name", "cluster__slug"),
}
"""Columns of what has a key of its own, in the order of `CostKey`."""


@dataclass(frozen=True)
class CostReport:
    """The answer to a query.

    Attributes:
        rows: By currency, the largest cost first.
        totals: One a currency.
        metered_until: The end of the last hour that every cluster has sealed; None without any.
        open_hours: Hours of clusters before that, in these days of UTC, that are not sealed.
        pace: Of the running month, if some of it is asked for.
    """

    query: CostQuery
    rows: tuple[GroupCost, ...]
    totals: tuple[GroupCost, ...]
    metered_until: datetime | None
    open_hours: int
    pace: MonthPace | None


def cost_report(costs: QuerySet[DailyCost], query: CostQuery, *, at: datetime) -> CostReport:
    """Return costs by group, with those of as many days before.

    Args:
        costs: What the actor sees.
        query: What is asked for.
        at: Now: the running month is that of UTC.

    Raises:
        CostRowsTooManyError: There are more than ROWS_MAX groups.
    """
    metered_until = sealed_until()
    pace = pace_of(query, metered_until=metered_until, at=at)
    found = _grouped(costs, query, pace)
    if len(found) > ROWS_MAX:
        raise CostRowsTooManyError(f"There are more than {ROWS_MAX:,} rows.", field="group_by")
    sums = [_sum_of(row) for row in found]
    totals = add_sums(sums)
    rows = [
        cost_row(
            added,
            keys=tuple(_key(dimension, row) for dimension in query.group_by),
            unit_seconds=int(row["used"] or 0) if query.is_of_one_size else None,
            total=totals[added.currency].product,
            pace=pace,
        )
        for row, added in zip(found, sums, strict=True)
        if added.product or added.previous
    ]
    return CostReport(
        query=query,
        rows=tuple(rows),
        totals=tuple(cost_row(one, total=one.product, pace=pace) for one in totals.values()),
        metered_until=metered_until,
        open_hours=_open_hours(query, metered_until),
        pace=pace,
    )


def _open_hours(query: CostQuery, metered_until: datetime | None) -> int:
    begin_at, end_at = (
        datetime(day.year, day.month, day.day, tzinfo=UTC) for day in (query.first, query.end)
    )
    if metered_until is None or metered_until <= begin_at:
        return 0
    return unsealed_hours(begin_at=begin_at, end_at=min(end_at, metered_until))


def _grouped(
    costs: QuerySet[DailyCost], query: CostQuery, pace: MonthPace | None
) -> list[dict[str, Any]]:
    first = query.previous_first if pace is None else min(query.previous_first, pace.first)
    end = query.end if pace is None else max(query.end, pace.end)
    columns = {f"{by.value}_key": _column(by) for by in query.group_by}
    named = [name for by in query.group_by for name in _NAMED.get(by, ())]
    product = F("unit_seconds") * F("unit_price")
    is_asked = Q(day__gte=query.first, day__lt=query.end)
    month = (
        Value(Decimal(0), output_field=_PRODUCT)
        if pace is None
        else Sum(product, filter=Q(day__gte=pace.first, day__lt=pace.end), output_field=_PRODUCT)
    )
    rows: Any = (
        _filtered(costs, query)
        .filter(day__gte=first, day__lt=end)
        .values("currency", *dict.fromkeys(named), **columns)
        .annotate(
            used=Sum("unit_seconds", filter=is_asked),
            product=Sum(product, filter=is_asked, output_field=_PRODUCT),
            previous=Sum(
                product,
                filter=Q(day__gte=query.previous_first, day__lt=query.first),
                output_field=_PRODUCT,
            ),
            month=month,
        )
        .order_by("currency", F("product").desc(nulls_last=True), *columns)
    )
    return list(rows[: ROWS_MAX + 1])


def _filtered(costs: QuerySet[DailyCost], query: CostQuery) -> QuerySet[DailyCost]:
    for dimension, value in (query.filters or {}).items():
        if dimension is CostDimension.COST_CENTER:
            costs = costs.alias(cost_center=_COST_CENTER)
        name = f"{dimension.value}_id" if dimension in _NAMED else dimension.value
        costs = costs.filter(**{name: UUID(value) if dimension in _NAMED else value})
    return costs.order_by()


def _column(dimension: CostDimension) -> Any:  # noqa: ANN401 - An expression.
    if dimension is CostDimension.COST_CENTER:
        return _COST_CENTER
    return F(f"{dimension.value}_id" if dimension in _NAMED else dimension.value)


def _key(dimension: CostDimension, row: Mapping[str, Any]) -> CostKey:
    value = str(row[f"{dimension.value}_key"])
    if dimension not in _NAMED:
        return CostKey(dimension, value, name=value)
    names = [row[name] for name in _NAMED[dimension][1:]]
    return CostKey(dimension, value, *names)


def _sum_of(row: Mapping[str, Any]) -> CostSum:
    zero = Decimal(0)
    return CostSum(
        row["currency"], row["product"] or zero, row["previous"] or zero, row["month"] or zero
    )

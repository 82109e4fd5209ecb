"""Costs of a range of days, read from the daily costs in a constant number of statements."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db.models import Case, F, Max, Q, QuerySet, Sum, Value, When
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
from billing.domain.money import Money, cost_of
from billing.models import AccrualException, ChangedHour, DailyCost
from billing.selectors.cost_gaps import CostGaps, cost_gaps
from metering.selectors.collection.windows import sealed_until
from tenants.models import Cluster, Organization, Project

SUMS_MAX: Final = 5 * ROWS_MAX
"""Groups are added up by price, too, and multiplied here: that takes half of the time."""
_COST_CENTER: Final = Coalesce(
    NullIf("project__cost_center", Value("")), "organization__cost_center"
)
_NAMED: Final[Mapping[CostDimension, Any]] = {
    CostDimension.ORGANIZATION: Organization,
    CostDimension.PROJECT: Project,
    CostDimension.CLUSTER: Cluster,
}
"""Tables of what has a key of its own, and a slug and a name."""


@dataclass(frozen=True)
class CostReport:
    """The answer to a query.

    Attributes:
        as_of: All that was committed until then is in it.
        rows: By currency, the largest cost first.
        totals: One a currency.
        metered_until: The end of the last hour that every cluster in use has sealed; None without
            any.
        gaps: What is not in these costs yet.
        pace: Of the running month, if some of it is asked for.
    """

    query: CostQuery
    as_of: datetime
    rows: tuple[GroupCost, ...]
    totals: tuple[GroupCost, ...]
    metered_until: datetime | None
    gaps: CostGaps
    pace: MonthPace | None


def cost_report(
    costs: QuerySet[DailyCost],
    query: CostQuery,
    *,
    unpriced: QuerySet[AccrualException],
    changed: QuerySet[ChangedHour],
    clusters: QuerySet[Cluster],
    at: datetime,
) -> CostReport:
    """Return costs by group, with those of as many days before.

    Args:
        costs: What the actor sees.
        query: What is asked for.
        unpriced: Use without a price that the actor sees.
        changed: Changed hours of the organizations that the actor sees.
        clusters: Those in use by what is asked for.
        at: As of when the database is: the running month is that of UTC.

    Raises:
        CostRowsTooManyError: There are more than ROWS_MAX groups, or SUMS_MAX with their prices.
    """
    metered_until = sealed_until(clusters)
    pace = pace_of(query, metered_until=metered_until, at=at)
    sums = _sums(costs, query, pace)
    if len(sums) > ROWS_MAX:
        raise CostRowsTooManyError(f"There are more than {ROWS_MAX:,} rows.", field="group_by")
    totals = add_sums([added for added, _ in sums.values()])
    names = _names(query, sums)
    rows = [
        cost_row(
            added,
            keys=tuple(map(names, query.group_by, values)),
            unit_seconds=used if query.is_of_one_size else None,
            total=totals[added.currency].product,
            pace=pace,
        )
        for (_, *values), (added, used) in sums.items()
        if used or added.product or added.previous or added.month
    ]
    rows.sort(key=lambda row: (row.cost.currency, -row.cost.amount, *(k.name for k in row.keys)))
    return CostReport(
        query=query,
        as_of=at,
        rows=tuple(rows),
        totals=tuple(cost_row(one, total=one.product, pace=pace) for one in totals.values()),
        metered_until=metered_until,
        gaps=cost_gaps(
            query,
            unpriced=unpriced,
            changed=changed,
            clusters=clusters,
            metered_until=metered_until,
        ),
        pace=pace,
    )


def total_costs(costs: QuerySet[DailyCost], query: CostQuery) -> dict[str, Money]:
    """Return the costs of a query alone, by currency; one statement.

    Args:
        costs: What the actor sees.
        query: What is asked for.

    Raises:
        CostRowsTooManyError: As `cost_report`.
    """
    totals = add_sums([added for added, _ in _sums(costs, query, None).values()])
    return {
        currency: cost_of(added.product, currency=currency) for currency, added in totals.items()
    }


def last_day_with_costs(costs: QuerySet[DailyCost]) -> date | None:
    """Return the last local day with costs; None without any."""
    last: date | None = costs.order_by().aggregate(last=Max("day"))["last"]
    return last


def cost_by_day(
    costs: QuerySet[DailyCost], query: CostQuery, *, values: Collection[str]
) -> Mapping[tuple[str, str | None], Mapping[date, Decimal]]:
    """Return exact costs by currency, value of the first dimension, and local day.

    They are unit-seconds times prices per unit-hour, as in `CostSum`.

    Args:
        costs: What the actor sees.
        query: What is asked for.
        values: Each has costs of its own; all others are added up under None.
    """
    dimension = query.group_by[0]
    shown = [UUID(value) if dimension in _NAMED else value for value in values]
    rows: Any = (
        _filtered(costs, query)
        .filter(day__gte=query.first, day__lt=query.end)
        .alias(key=_column(dimension))
        .values(
            "currency",
            "day",
            "unit_price",
            value=Case(When(key__in=shown, then=F("key")), default=Value(None)),
        )
        .annotate(used=Sum("unit_seconds"))
        .order_by()
    )
    found: dict[tuple[str, str | None], dict[date, Decimal]] = defaultdict(
        lambda: defaultdict(Decimal)
    )
    for row in rows:
        product = row["used"] * row["unit_price"]
        value = None if row["value"] is None else str(row["value"])
        found[row["currency"], value][row["day"]] += product
    return found


Group = tuple[str, ...]
"""A currency, and a value for each dimension."""


def _sums(
    costs: QuerySet[DailyCost], query: CostQuery, pace: MonthPace | None
) -> dict[Group, tuple[CostSum, int]]:
    """Return sums and unit-seconds of each group."""
    first = query.previous_first if pace is None else min(query.previous_first, pace.first)
    end = query.end if pace is None else max(query.end, pace.end)
    columns = {f"{by.value}_key": _column(by) for by in query.group_by}
    rows: Any = (
        _filtered(costs, query)
        .filter(day__gte=first, day__lt=end)
        .values("currency", "unit_price", **columns)
        .annotate(
            used=_used(query.first, query.end),
            before=_used(query.previous_first, query.first),
            month=Value(0) if pace is None else _used(pace.first, pace.end),
        )
        .order_by()
    )
    sums: dict[Group, tuple[CostSum, int]] = {}
    found = list(rows[: SUMS_MAX + 1])
    if len(found) > SUMS_MAX:
        raise CostRowsTooManyError(
            f"There are more than {SUMS_MAX:,} groups and prices.", field="group_by"
        )
    for row in found:
        group = (row["currency"], *(str(row[column]) for column in columns))
        used, price = int(row["used"]), row["unit_price"]
        added = CostSum(row["currency"], used * price, row["before"] * price, row["month"] * price)
        if group in sums:
            other, other_used = sums[group]
            added, used = other + added, other_used + used
        sums[group] = added, used
    return sums


def _used(first: date, end: date) -> Any:  # noqa: ANN401 - An aggregate.
    """Return the unit-seconds of some days."""
    return Sum("unit_seconds", filter=Q(day__gte=first, day__lt=end), default=0)


def _names(query: CostQuery, groups: Iterable[Group]) -> Callable[[CostDimension, str], CostKey]:
    """Return what names the values of groups, from one statement for each table."""
    names = {}
    for number, dimension in enumerate(query.group_by, start=1):
        if dimension in _NAMED:
            rows: Any = _NAMED[dimension].objects.in_bulk({UUID(group[number]) for group in groups})
            names[dimension] = {str(key): row for key, row in rows.items()}
    slugs = {}
    if CostDimension.PROJECT in names:
        owners = {row.organization_id for row in names[CostDimension.PROJECT].values()}
        slugs = dict(Organization.objects.filter(pk__in=owners).values_list("pk", "slug"))

    def name(dimension: CostDimension, value: str) -> CostKey:
        if dimension not in names:
            return CostKey(dimension, value, name=value)
        row = names[dimension][value]
        if dimension is not CostDimension.PROJECT:
            return CostKey(dimension, value, row.name, row.slug)
        owner = row.organization_id
        return CostKey(dimension, value, row.name, row.slug, slugs[owner], str(owner))

    return name


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

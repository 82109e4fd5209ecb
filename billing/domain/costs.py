"""Costs of a range of days: by what they are grouped and filtered, with growth and run rate.

Costs are of charges at their prices: tiers, minimum charges, credits and taxes are of documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Final

from billing.domain.money import Money, cost_of
from tenants.domain.errors import ConflictError, InvalidInputError

DAY: Final = timedelta(days=1)
LAST_MIDNIGHT: Final = timedelta(hours=12)
"""A day ends so long after it has ended in UTC where it ends last."""
DAYS_MAX: Final = 366
"""A year; with the year before it, two million rows of 1,000 projects are read."""
DIMENSIONS_MAX: Final = 2
ROWS_MAX: Final = 10_000
VIEWS_MAX: Final = 50
"""Of one person: a row of links on the page."""
VIEW_NAME_MAX: Final = 64
VIEW_QUERY_MAX: Final = 1000
FIRST_DAY: Final = date(2000, 1, 1)
LAST_DAY: Final = date(2199, 12, 31)
_RATIO: Final = Decimal("0.0001")


class CostRangeInvalidError(InvalidInputError):
    """The range of days is empty, too long, or outside of what is metered."""

    code = "cost_range_invalid"
    remedy = f"Give a first day and a later end from 2000 to 2199, at most {DAYS_MAX} days apart."


class CostGroupingInvalidError(InvalidInputError):
    """Costs cannot be grouped by that, or by so much."""

    code = "cost_grouping_invalid"


class CostRowsTooManyError(InvalidInputError):
    """There are more rows than one answer has."""

    code = "cost_rows_too_many"
    remedy = "Group by less, or filter by organization, project or size."


class CostViewInvalidError(InvalidInputError):
    """The view has no name, a name that is too long, or too many filters."""

    code = "cost_view_invalid"
    remedy = "Give the view a name of 1 to 64 characters."


class CostViewsTooManyError(ConflictError):
    """The person keeps as many views as there may be."""

    code = "cost_views_too_many"
    remedy = "Delete a view first, or save under the name of one."


class CostDimension(StrEnum):
    """What costs are grouped and filtered by; `price_group` is GPU model and share."""

    ORGANIZATION = "organization"
    PROJECT = "project"
    OWNER = "owner"
    COST_CENTER = "cost_center"
    SIZE = "size"
    PRICE_GROUP = "price_group"
    CLUSTER = "cluster"


class CostPreset(StrEnum):
    """A range of days that moves with today."""

    THIS_MONTH = "this_month"
    LAST_MONTH = "last_month"
    LAST_7_DAYS = "last_7_days"
    LAST_30_DAYS = "last_30_days"

    def days(self, today: date) -> tuple[date, date]:
        """Return the first day and the day after the last; complete days but in this month."""
        month = today.replace(day=1)
        if self is CostPreset.THIS_MONTH:
            return month, today + DAY
        if self is CostPreset.LAST_MONTH:
            return (month - DAY).replace(day=1), month
        return today - DAY * (7 if self is CostPreset.LAST_7_DAYS else 30), today


@dataclass(frozen=True)
class CostQuery:
    """Which costs are asked for.

    Attributes:
        first: First local day.
        end: The day after the last.
        filters: Values by dimension; keys of organizations, projects and clusters as text.
    """

    first: date
    end: date
    group_by: tuple[CostDimension, ...] = (CostDimension.ORGANIZATION,)
    filters: Mapping[CostDimension, str] | None = None

    def __post_init__(self) -> None:
        """Check range and grouping.

        Raises:
            CostRangeInvalidError: The range is empty, too long, or out of bounds.
            CostGroupingInvalidError: There are no dimensions, too many, or one of them twice.
        """
        days = (self.end - self.first).days
        if not 1 <= days <= DAYS_MAX or self.first < FIRST_DAY or self.end > LAST_DAY:
            raise CostRangeInvalidError(
                "These days cannot be reported.",
                field="to",
                facts={"from": str(self.first), "to": str(self.end), "days_max": DAYS_MAX},
            )
        count = len(self.group_by)
        if not 1 <= count <= DIMENSIONS_MAX or len(set(self.group_by)) != count:
            raise CostGroupingInvalidError(
                "Costs are grouped by one or two different dimensions.",
                field="group_by",
                remedy=f"Use one or two of: {', '.join(CostDimension)}.",
            )

    @property
    def previous_first(self) -> date:
        """The first day of as many days before."""
        return self.first - (self.end - self.first)

    @property
    def is_of_one_size(self) -> bool:
        """Whether each row has units of one size, which can be added."""
        return CostDimension.SIZE in (*self.group_by, *(self.filters or ()))


def parse_dimensions(text: str) -> tuple[CostDimension, ...]:
    """Return the dimensions that a text such as "project,size" names.

    Raises:
        CostGroupingInvalidError: One is unknown.
    """
    try:
        return tuple(CostDimension(name.strip()) for name in text.split(","))
    except ValueError:
        raise CostGroupingInvalidError(
            "Costs are not grouped by that.",
            field="group_by",
            remedy=f"Use one or two of: {', '.join(CostDimension)}.",
            facts={"group_by": text},
        ) from None


@dataclass(frozen=True)
class MonthPace:
    """The days of the running month that are metered in every time zone.

    Attributes:
        first: Its first day.
        end: The day after the last one metered.
        days: Of the whole month.
    """

    first: date
    end: date
    days: int

    @property
    def elapsed_days(self) -> int:
        """The days metered, above 0."""
        return (self.end - self.first).days


def pace_of(query: CostQuery, *, metered_until: datetime | None, at: datetime) -> MonthPace | None:
    """Return the pace of the running month; None where none of it is asked for, or metered."""
    first = at.astimezone(UTC).date().replace(day=1)
    end = (first + 31 * DAY).replace(day=1)
    if metered_until is None or query.end <= first or query.first >= end:
        return None
    metered = min((metered_until.astimezone(UTC) - LAST_MIDNIGHT).date(), end)
    return MonthPace(first, metered, (end - first).days) if metered > first else None


@dataclass(frozen=True)
class CostKey:
    """One value of a dimension.

    Attributes:
        value: The key of an organization, project or cluster as text, otherwise the value itself.
        slug: Of an organization, project or cluster; "" of others.
        name: As people know it.
        organization: The slug of a project's organization; "" of others.
        organization_id: Its key as text; "" of others.
    """

    by: CostDimension
    value: str
    name: str
    slug: str = ""
    organization: str = ""
    organization_id: str = ""


@dataclass(frozen=True)
class CostSum:
    """Unit-seconds times prices per unit-hour, exact, of one currency.

    Attributes:
        previous: Of as many days before.
        month: Of the days of the running month that are metered.
    """

    currency: str
    product: Decimal = Decimal(0)
    previous: Decimal = Decimal(0)
    month: Decimal = Decimal(0)

    def __add__(self, other: "CostSum") -> "CostSum":
        """Return both together; their currencies are the same."""
        return CostSum(
            self.currency,
            self.product + other.product,
            self.previous + other.previous,
            self.month + other.month,
        )


@dataclass(frozen=True)
class GroupCost:
    """Costs of one group in one currency.

    Attributes:
        keys: In the order of the grouping; none of a total.
        unit_seconds: None where units of several sizes would be added.
        growth: Change to the period before as a ratio; None where that had no cost above zero.
        share: Of the total in this currency, as a ratio; None where that is zero.
        run_rate: Cost of the whole running month at its pace so far; None without one.
    """

    keys: tuple[CostKey, ...]
    unit_seconds: int | None
    cost: Money
    previous_cost: Money
    growth: Decimal | None
    share: Decimal | None
    run_rate: Money | None


def cost_row(
    added: CostSum,
    *,
    keys: tuple[CostKey, ...] = (),
    unit_seconds: int | None = None,
    total: Decimal,
    pace: MonthPace | None,
) -> GroupCost:
    """Return a row; each of its amounts is rounded once.

    Args:
        added: The sums of its group.
        keys: What it is of.
        unit_seconds: Its quantity.
        total: The sum of all groups in its currency.
        pace: Of the running month.
    """
    currency = added.currency
    paced = None if pace is None else added.month * pace.days / pace.elapsed_days
    return GroupCost(
        keys=keys,
        unit_seconds=unit_seconds,
        cost=cost_of(added.product, currency=currency),
        previous_cost=cost_of(added.previous, currency=currency),
        growth=_rounded(added.product - added.previous, added.previous),
        share=_rounded(added.product, total),
        run_rate=None if paced is None else cost_of(paced, currency=currency),
    )


def growth_of(cost: Money, *, before: Money) -> Decimal | None:
    """Return the change from one cost to another as a ratio; None where there was none before."""
    return _rounded(cost.amount - before.amount, before.amount)


def add_sums(sums: Sequence[CostSum]) -> dict[str, CostSum]:
    """Return the totals by currency, in its order; money of two currencies is never added."""
    totals: dict[str, CostSum] = {}
    for added in sorted(sums, key=lambda one: one.currency):
        totals[added.currency] = totals.get(added.currency, CostSum(added.currency)) + added
    return totals


def _rounded(part: Decimal, whole: Decimal) -> Decimal | None:
    return None if whole <= 0 else (part / whole).quantize(_RATIO, ROUND_HALF_UP)

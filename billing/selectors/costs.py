"""Cost and use as frozen facts, for dashboards and reports; never querysets.

Amounts here are of charges, rounded once per fact: an invoice rounds each of its lines, so a fact
may differ from the sum of lines by a few minor units.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.db.models import DecimalField, F, QuerySet, Sum, Value

from billing.domain.money import Money, cost_of
from billing.models import AccrualException, Charge, DailyCost
from metering.selectors.collection.usage import USE_COLUMNS, UsageGroup, group_columns
from tenants.models import Organization


@dataclass(frozen=True)
class OrganizationCost:
    """Cost and use of one organization in one currency.

    Attributes:
        organization: Its slug.
        unit_seconds: By size: units of two sizes are never added.
        cost: At the prices of its charges, rounded once.
        product: Unit-seconds times prices a unit-hour, which a sum over organizations adds up.
    """

    organization_id: UUID
    organization: str
    organization_name: str
    unit_seconds: Mapping[str, int]
    cost: Money
    product: Decimal


@dataclass(frozen=True)
class UnpricedFact:
    """Use without a price; units of different sizes are never added.

    Attributes:
        exceptions: Of how many rows, whatever their size.
        unit_seconds: By size.
    """

    organization_id: UUID
    organization: str
    exceptions: int
    unit_seconds: Mapping[str, int]


UseKey = tuple[Any, ...]
"""Values of `USE_COLUMNS`, None for those not grouped by."""


@dataclass(frozen=True)
class UseCost:
    """What some use costs.

    Attributes:
        unit_seconds: Of its charges; what has no price yet is not among them.
        cost: None where they are in several currencies.
    """

    unit_seconds: int
    cost: Money | None


def costs_by_organization(
    costs: QuerySet[DailyCost], *, first: date, end: date
) -> tuple[OrganizationCost, ...]:
    """Return cost and use of the local days [first, end) by currency, the largest cost first.

    Two statements, and at most three rows an organization and currency.

    Args:
        costs: What the actor sees.
        first: First local day.
        end: The day after the last.
    """
    rows: Any = (
        costs.filter(day__gte=first, day__lt=end)
        .values("organization_id", "currency", "size")
        .annotate(
            used=Sum("unit_seconds"),
            product=Sum(F("unit_seconds") * F("unit_price"), output_field=_PRODUCT),
        )
        .order_by("organization_id", "currency")
    )
    sized = list(rows)
    found_ids = {row["organization_id"] for row in sized}
    rows = Organization.objects.filter(pk__in=found_ids).values_list("pk", "slug", "name")
    names = {key: (slug, name) for key, slug, name in rows}
    made = []
    for (organization_id, currency), found in groupby(
        sized, key=itemgetter("organization_id", "currency")
    ):
        parts = tuple(found)
        product = sum((row["product"] for row in parts), Decimal(0))
        made.append(
            OrganizationCost(
                organization_id=organization_id,
                organization=names[organization_id][0],
                organization_name=names[organization_id][1],
                unit_seconds={row["size"]: int(row["used"]) for row in parts},
                cost=cost_of(product, currency=currency),
                product=product,
            )
        )
    return tuple(
        sorted(made, key=lambda one: (one.cost.currency, -one.cost.amount, one.organization))
    )


def costs_by_use(
    charges: QuerySet[Charge],
    *,
    begin_at: datetime,
    end_at: datetime,
    group_by: Sequence[UsageGroup],
    organization_id: UUID | None = None,
    project_id: UUID | None = None,
) -> dict[UseKey, UseCost]:
    """Return what the use of [begin_at, end_at) costs, in the groups of `usage_totals`.

    One statement. These are the prices of charges: what a document adds or gives back, such as
    discounts over a month, minimums, credits and taxes, is not in it.
    """
    rows = charges.filter(window_start__gte=begin_at, window_start__lt=end_at).order_by()
    if organization_id is not None:
        rows = rows.filter(organization_id=organization_id)
    if project_id is not None:
        rows = rows.filter(project_id=project_id)
    columns, rows = group_columns(rows, group_by)
    summed = rows.values(*columns, "currency").annotate(
        used=Sum("unit_seconds"),
        product=Sum(F("unit_seconds") * F("unit_price"), output_field=_PRODUCT),
    )
    parts: dict[UseKey, list[dict[str, Any]]] = defaultdict(list)
    for row in summed:
        parts[tuple(row.get(name) for name in USE_COLUMNS)].append(row)
    return {key: _use_cost(found) for key, found in parts.items()}


def _use_cost(rows: Sequence[Mapping[str, Any]]) -> UseCost:
    one = rows[0] if len(rows) == 1 else None
    return UseCost(
        unit_seconds=sum(int(row["used"]) for row in rows),
        cost=None if one is None else cost_of(one["product"], currency=one["currency"]),
    )


def unpriced_use() -> tuple[UnpricedFact, ...]:
    """Return use without a price, by organization, by slug."""
    rows = (
        AccrualException.objects.filter(resolved_at__isnull=True)
        .values_list("organization_id", "organization__slug", "size")
        .annotate(found=Sum(Value(1)), held=Sum("unit_seconds"))
        .order_by("organization__slug", "size")
    )
    facts = []
    for (organization_id, slug), found in groupby(rows, key=itemgetter(0, 1)):
        parts = tuple(found)
        facts.append(
            UnpricedFact(
                organization_id=organization_id,
                organization=slug,
                exceptions=sum(count for *_, count, _ in parts),
                unit_seconds={size: int(held) for _, _, size, _, held in parts},
            )
        )
    return tuple(facts)


_PRODUCT = DecimalField(max_digits=60, decimal_places=10)

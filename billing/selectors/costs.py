"""Cost and use as frozen facts, for dashboards and reports; never querysets.

Amounts here are of charges, rounded once per fact: an invoice rounds each of its lines, so a fact
may differ from the sum of lines by a few minor units.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.db.models import DateField, DecimalField, F, Func, QuerySet, Sum, Value
from django.db.models.functions import Cast

from billing.domain.money import Money, cost_of
from billing.models import AccrualException, Charge
from billing.selectors.documents.membership import unbilled_charges
from metering.selectors.collection.usage import USE_COLUMNS, UsageGroup, group_columns


@dataclass(frozen=True)
class CostFact:
    """Cost of some use.

    Attributes:
        organization: Its slug; so is `project`.
        size: "" where sizes are summed; likewise every other field that is not grouped by.
        day: UTC day of the use.
    """

    organization_id: UUID
    organization: str
    unit_seconds: int
    cost: Money
    organization_name: str = ""
    project_id: UUID | None = None
    project: str = ""
    size: str = ""
    day: date | None = None


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


def cost_by_organization(
    *, begin_at: datetime, end_at: datetime, organizations: Iterable[UUID] | None = None
) -> tuple[CostFact, ...]:
    """Return cost and use of [begin_at, end_at) by organization, by slug.

    Args:
        begin_at: First hour.
        end_at: The hour after the last.
        organizations: Only these; None for all.
    """
    return _facts(_charges(begin_at, end_at, organizations))


def cost_by_project(
    *, begin_at: datetime, end_at: datetime, organizations: Iterable[UUID] | None = None
) -> tuple[CostFact, ...]:
    """Return cost and use by organization and project; arguments as `cost_by_organization`."""
    return _facts(
        _charges(begin_at, end_at, organizations),
        project_slug=F("project__slug"),
        project_key=F("project_id"),
    )


def cost_by_size(
    *, begin_at: datetime, end_at: datetime, organizations: Iterable[UUID] | None = None
) -> tuple[CostFact, ...]:
    """Return cost and use by organization and size; arguments as `cost_by_organization`."""
    return _facts(_charges(begin_at, end_at, organizations), kind=F("size"))


def cost_by_day(
    *, begin_at: datetime, end_at: datetime, organizations: Iterable[UUID] | None = None
) -> tuple[CostFact, ...]:
    """Return cost and use by organization and UTC day; arguments as `cost_by_organization`."""
    in_utc = Func(Value("UTC"), F("window_start"), function="timezone", output_field=DateField())
    return _facts(
        _charges(begin_at, end_at, organizations), used_on=Cast(in_utc, output_field=DateField())
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


def unbilled_cost(*, before: datetime) -> tuple[CostFact, ...]:
    """Return what is charged and on no final invoice, by organization, for hours before a time."""
    return _facts(unbilled_charges(Charge.objects.filter(window_start__lt=before)))


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


def _charges(
    begin_at: datetime, end_at: datetime, organizations: Iterable[UUID] | None
) -> QuerySet[Charge]:
    charges = Charge.objects.filter(window_start__gte=begin_at, window_start__lt=end_at)
    if organizations is not None:
        charges = charges.filter(organization__in=list(organizations))
    return charges


_PRODUCT = DecimalField(max_digits=60, decimal_places=10)


def _facts(charges: QuerySet[Charge], **dimensions: Any) -> tuple[CostFact, ...]:  # noqa: ANN401 - Expressions.
    """Return one fact per organization, currency and grouping fields, in that order."""
    rows: Any = (
        charges.values(
            "organization_id", "organization__slug", "organization__name", "currency", **dimensions
        )
        .annotate(
            used=Sum("unit_seconds"),
            product=Sum(F("unit_seconds") * F("unit_price"), output_field=_PRODUCT),
        )
        .order_by("organization__slug", *dimensions, "currency")
    )
    return tuple(
        CostFact(
            organization_id=row["organization_id"],
            organization=row["organization__slug"],
            organization_name=row["organization__name"],
            unit_seconds=int(row["used"]),
            cost=cost_of(row["product"], currency=row["currency"]),
            project_id=row.get("project_key"),
            project=row.get("project_slug", ""),
            size=row.get("kind", ""),
            day=row.get("used_on"),
        )
        for row in rows
    )

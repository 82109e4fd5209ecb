"""Waste in money: the cost of a finding so far, and the monthly saving from following it.

Prices are those in force now, of the allocated size and group and of the recommended ones. A
finding without one of the prices, or without a recommendation, has no amounts and is sorted last.
"""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.db.models import (
    Case,
    CharField,
    Count,
    DecimalField,
    ExpressionWrapper,
    F,
    Func,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Concat, Right
from django.db.models.lookups import Exact

from billing.domain.money import SECONDS_PER_HOUR, Money, cost_of
from billing.domain.pricing.price_book import ANY_GROUP, ANY_TIME
from billing.models import BookPrice
from metering.domain.catalogue.units import BURST_ENDING
from metering.selectors.efficiency import SAVING_UNKNOWN

HOURS_PER_MONTH: Final = 730
"""The twelfth of a year of 8,760 hours."""
_MONEY: Final[Any] = DecimalField(max_digits=60, decimal_places=10)
_LAST: Final = Decimal(-(10**30))


@dataclass(frozen=True)
class WasteMoney:
    """Cost of one finding; None without prices or recommendation."""

    lost: Money | None
    monthly: Money | None


@dataclass(frozen=True)
class SavingTotal:
    """Total cost of findings; None where no finding has amounts.

    Attributes:
        currency: Of their prices; "" where there is no price.
        unknown: Number of findings without a known saving, for lack of a recommendation or of a
            price; they are in no sum.
        lost_product: What `lost` was rounded from: it can be more than nothing and less than 0.01.
        monthly_product: What `monthly` was rounded from.
    """

    currency: str
    findings: int
    unknown: int
    lost: Money | None
    monthly: Money | None
    lost_product: Decimal | None = field(default=None, compare=False)
    monthly_product: Decimal | None = field(default=None, compare=False)


def with_money(findings: QuerySet[Any], *, at: datetime) -> QuerySet[Any]:
    """Return findings with their money, those that save most first; one statement.

    Adds `currency`, `lost_product` and `monthly_product`: unit-seconds x price per unit-hour, to be
    rounded once by `money_of`, and `money_order`, which sorts what has no money last.

    Args:
        findings: Waste findings an actor sees.
        at: Time of the prices.
    """
    month = SECONDS_PER_HOUR * HOURS_PER_MONTH
    priced: QuerySet[Any] = (
        findings.annotate(
            currency=Subquery(_prices("size", "price_group", at=at).values("price_book__currency")),
            price_now=Subquery(_prices("size", "price_group", at=at).values("unit_price")),
            price_then=Case(
                When(suggested_units=0, then=Value(Decimal(0))),
                default=Subquery(
                    _prices("suggested_size", "suggested_price_group", at=at).values("unit_price")
                ),
                output_field=_MONEY,
            ),
        )
        .annotate(
            lost_product=_known(
                F("held_unit_seconds") * F("price_now")
                - F("suggested_unit_seconds") * F("price_then")
            ),
            monthly_product=_known(
                Value(month) * F("units") * F("price_now")
                - Value(month) * F("suggested_units") * F("price_then")
            ),
        )
        .annotate(money_order=Coalesce("monthly_product", Value(_LAST), output_field=_MONEY))
        .order_by("-money_order", "-pk")
    )
    return priced


def money_of(finding: Any) -> WasteMoney:  # noqa: ANN401 - A row of `with_money`.
    """Return a finding's money, each amount rounded once."""
    return WasteMoney(
        lost=_rounded(finding.lost_product, finding.currency),
        monthly=_rounded(finding.monthly_product, finding.currency),
    )


def saving_totals(findings: QuerySet[Any], *, at: datetime) -> tuple[SavingTotal, ...]:
    """Return what heeding all findings would save in a month, by currency; one statement."""
    rows = (
        with_money(findings, at=at)
        .order_by("currency")
        .values("currency")
        .annotate(
            findings=Count("pk"),
            unknown=Count("pk", filter=Q(monthly_product=None)),
            saved=Sum("monthly_product"),
            lost=Sum("lost_product"),
        )
        .order_by("currency")
    )
    return tuple(
        SavingTotal(
            currency=row["currency"] or "",
            findings=row["findings"],
            unknown=row["unknown"],
            lost=_rounded(row["lost"], row["currency"]),
            monthly=_rounded(row["saved"], row["currency"]),
            lost_product=row["lost"],
            monthly_product=row["saved"],
        )
        for row in rows
    )


def _rounded(product: Decimal | None, currency: str | None) -> Money | None:
    if product is None or currency is None:
        return None
    return cost_of(product, currency=currency)


def _known(product: Any) -> Any:  # noqa: ANN401 - Any arithmetic.
    """Return a product of money; None without a recommendation."""
    return Case(
        When(SAVING_UNKNOWN, then=Value(None)),
        default=ExpressionWrapper(product, output_field=_MONEY),
        output_field=_MONEY,
    )


def _prices(size: str, price_group: str, *, at: datetime) -> QuerySet[BookPrice]:
    """Return the price of a finding's size and group in its organization's book, best first."""
    is_burst = Exact(Right(OuterRef(price_group), len(BURST_ENDING)), Value(BURST_ENDING))
    ending = Case(When(is_burst, then=Value(BURST_ENDING)), default=Value(""))
    model = Func(
        OuterRef(price_group),
        Value("/"),
        Value(1),
        function="split_part",
        output_field=CharField(),
    )
    of_model = Concat(model, Value(f"/{ANY_GROUP}"), ending)
    rank = Case(
        When(price_group__startswith=ANY_GROUP, then=Value(2)),
        When(price_group__contains=f"/{ANY_GROUP}", then=Value(1)),
        default=Value(0),
    )
    return (
        BookPrice.objects.filter(
            Q(cluster__isnull=True) | Q(cluster=OuterRef("cluster")),
            band=ANY_TIME,
            price_book__billed_organizations__organization=OuterRef("organization_id"),
            price_book__billed_organizations__valid__contains=at,
            size=OuterRef(size),
            valid__contains=at,
            superseded_at__isnull=True,
        )
        .filter(
            Q(price_group=OuterRef(price_group))
            | Q(price_group=of_model)
            | Q(price_group=Concat(Value(ANY_GROUP), ending))
        )
        .order_by(rank, F("cluster").asc(nulls_last=True), "-is_own")[:1]
    )

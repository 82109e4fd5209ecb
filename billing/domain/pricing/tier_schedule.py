"""Tier schedules as published: bands, what they count and when they are in force."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import Final

from billing.domain.errors import PriceKeyInvalidError, TierInvalidError
from billing.domain.period import MONTHS_PER_YEAR, Month
from billing.domain.pricing.price_book import groups_for, require_key

BANDS_MAX: Final = 20
"""More than any contract has; each is a line of each project."""
BOUND_LIMIT: Final = Decimal(10) ** 12
BOUND_DECIMALS: Final = 4
PERCENT_MAX: Final = Decimal(100)
NAME_LENGTH_MAX: Final = 200


class TierBasis(StrEnum):
    """What the bounds of bands count: unit-hours, or list money."""

    QUANTITY = "quantity"
    MONEY = "money"


class TierKind(StrEnum):
    """Whether each band discounts what falls into it, or the reached one everything."""

    GRADUATED = "graduated"
    VOLUME = "volume"


class TierScope(StrEnum):
    """Whose use is counted together."""

    PROJECT = "project"
    ORGANIZATION = "organization"


class TierSpan(StrEnum):
    """Over which months use is counted."""

    PERIOD = "period"
    FISCAL_YEAR = "fiscal_year"


@dataclass(frozen=True)
class TierBand:
    """The discount on what lies above a bound, up to the bound of the next band."""

    above: Decimal
    discount_percent: Decimal


@dataclass(frozen=True)
class TierRule:
    """A tier schedule.

    Attributes:
        id: Its key as text; "" before it is published.
        year_begins: First month of a fiscal year, 1 to 12; 1 where the span is a period.
        sizes: In scope; none for all.
        price_groups: In scope, as prices have them, such as "H100/*"; none for all.
        first_month: The first month in force, such as "2026-10".
        last_month: The last one.
        superseded_from: The month from which another schedule replaces it; "" for none.
    """

    name: str
    basis: TierBasis
    kind: TierKind
    scope: TierScope
    span: TierSpan
    first_month: str
    last_month: str
    bands: tuple[TierBand, ...]
    year_begins: int = 1
    sizes: tuple[str, ...] = ()
    price_groups: tuple[str, ...] = ()
    id: str = ""
    superseded_from: str = ""

    @property
    def end_month(self) -> str:
        """The month after the last one in which it is in force."""
        after = Month.parse(self.last_month).shift(1).label
        return min(after, self.superseded_from) if self.superseded_from else after

    def is_in_force(self, label: str) -> bool:
        """Whether a month is one of its own."""
        return self.first_month <= label < self.end_month

    def span_of(self, label: str) -> str:
        """Return the first month of the span that contains a month."""
        if self.span is TierSpan.PERIOD:
            return label
        month = Month.parse(label)
        return month.shift(-((month.month - self.year_begins) % MONTHS_PER_YEAR)).label

    def covers(self, size: str, price_group: str) -> bool:
        """Whether use of a size and device share is in scope."""
        return (not self.sizes or size in self.sizes) and (
            not self.price_groups or not set(self.price_groups).isdisjoint(groups_for(price_group))
        )


def require_rule(rule: TierRule) -> None:
    """Refuse a schedule that cannot be computed.

    Raises:
        TierInvalidError: Name, months, fiscal year, sizes, price groups or bands are wrong.
        PeriodLabelInvalidError: A month is none.
    """
    if not 0 < len(rule.name.strip()) <= NAME_LENGTH_MAX:
        raise TierInvalidError("The name is missing or too long.", field="name")
    first = Month.parse(rule.first_month, field="first_month")
    if first > Month.parse(rule.last_month, field="last_month"):
        raise TierInvalidError("The last month is before the first.", field="last_month")
    months = range(1, MONTHS_PER_YEAR + 1) if rule.span is TierSpan.FISCAL_YEAR else range(1, 2)
    if rule.year_begins not in months:
        raise TierInvalidError(
            "A fiscal year begins in a month from 1 to 12; a period has none.", field="year_begins"
        )
    for field, keys in (
        ("sizes", [(size, "*") for size in rule.sizes]),
        ("price_groups", [("small", group) for group in rule.price_groups]),
    ):
        for size, group in keys:
            _require_key(size, group, field=field)
    _require_bands(rule.bands)


def overlaps(one: TierRule, other: TierRule) -> bool:
    """Whether two schedules of a book would both discount the same use."""
    return (
        max(one.first_month, other.first_month) < min(one.end_month, other.end_month)
        and (not one.sizes or not other.sizes or bool(set(one.sizes) & set(other.sizes)))
        and (
            not one.price_groups
            or not other.price_groups
            or any(
                group in groups_for(wide)
                for a, b in ((one, other), (other, one))
                for wide in a.price_groups
                for group in b.price_groups
            )
        )
    )


def _require_key(size: str, group: str, *, field: str) -> None:
    try:
        require_key(size=size, price_group=group)
    except PriceKeyInvalidError as error:
        raise TierInvalidError(
            "A size or price group cannot be priced.", field=field, facts=error.facts
        ) from error


def _require_bands(bands: Sequence[TierBand]) -> None:
    if not 0 < len(bands) <= BANDS_MAX:
        raise TierInvalidError(f"A schedule has 1 to {BANDS_MAX} bands.", field="bands")
    for number, band in enumerate(bands, 1):
        bound, percent = band.above, band.discount_percent
        if not (bound.is_finite() and percent.is_finite()):
            raise TierInvalidError(f"Band {number} has no number.", field="bands")
        if not 0 <= bound < BOUND_LIMIT or round(bound, BOUND_DECIMALS) != bound:
            raise TierInvalidError(
                f"The bound of band {number} is negative, too large or too fine.", field="bands"
            )
        if not 0 <= percent <= PERCENT_MAX or round(percent, BOUND_DECIMALS) != percent:
            raise TierInvalidError(
                f"The discount of band {number} is not from 0 to 100 percent.", field="bands"
            )
    bounds = [band.above for band in bands]
    if bounds[0] != 0:
        raise TierInvalidError("The first band does not begin at 0.", field="bands")
    if any(one >= other for one, other in pairwise(bounds)):
        raise TierInvalidError("The bounds of the bands do not rise.", field="bands")

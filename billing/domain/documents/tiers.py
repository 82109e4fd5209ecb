"""Tier lines: discounts on list money by how much is used, each band a line of the document.

Bands are filled pro rata over the list prices and projects in scope: with the total T and B of it
in a band, each sum of a project and price has the exact share B/T of its quantity and money there.
So no order of hours, charges or documents changes what a schedule gives.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from billing.domain.documents.document import amount_text, unit_hours_text
from billing.domain.documents.invoicing import Line, LineKind, TierShare
from billing.domain.money import (
    SECONDS_PER_HOUR,
    Money,
    minor_digits,
    round_half_up,
    split,
)
from billing.domain.period import Month
from billing.domain.pricing.price_book import PRICE_DECIMALS
from billing.domain.pricing.tier_schedule import TierBasis, TierKind, TierRule, TierScope, TierSpan


@dataclass(frozen=True)
class TierUse:
    """Unit-seconds of a project in a month, by size, device share and list price."""

    project_id: str
    size: str
    price_group: str
    unit_price: Decimal
    month: str
    unit_seconds: int


@dataclass(frozen=True)
class TierKey:
    """What tier lines are added up by: one band of a schedule in a span, for one project."""

    schedule_id: str
    span: str
    band: int
    project_id: str


@dataclass(frozen=True)
class ProjectNames:
    """A project as printed."""

    slug: str
    name: str
    cost_center: str


@dataclass(frozen=True)
class TierFacts:
    """What the tier lines of a document are computed from.

    Attributes:
        rules: Schedules that apply, or did when something was billed.
        applies: Schedule and month, where the schedule's book bills the organization.
        use: What final documents billed.
        billed: Amounts of final tier lines.
        own_use: Of the document's own usage lines, where it is stored.
        own: Amounts of its own tier lines, where it is stored.
        projects: By key.
    """

    rules: tuple[TierRule, ...]
    applies: AbstractSet[tuple[str, str]]
    use: tuple[TierUse, ...]
    billed: Mapping[TierKey, Decimal]
    own_use: tuple[TierUse, ...]
    own: Mapping[TierKey, Decimal]
    projects: Mapping[str, ProjectNames]


@dataclass(frozen=True)
class BandDiscount:
    """What a band gives one project, and the sums it comes from.

    Attributes:
        amount: From 0; the project's share of the band's discount.
        total: Unit-hours or money in scope.
        in_band: The part of it in the band.
        list_money: List money in the band.
    """

    amount: Money
    total: Fraction
    in_band: Fraction
    list_money: Fraction


def discounts_of(
    rule: TierRule, use: Iterable[TierUse], *, currency: str
) -> dict[tuple[str, int], BandDiscount]:
    """Return what a schedule gives on the use of one span, by project and band from 1.

    Each band is rounded once, half up, in its scope, and split over projects by the largest
    remainder of their list money; equal remainders go to the older project. What adds up to
    nothing, or less, has no discount.
    """
    seconds: defaultdict[str, int] = defaultdict(int)
    money: defaultdict[str, Fraction] = defaultdict(Fraction)
    for one in use:
        seconds[one.project_id] += one.unit_seconds
        money[one.project_id] += one.unit_seconds * Fraction(one.unit_price)
    every = sorted(seconds)
    groups = [[project] for project in every] if rule.scope is TierScope.PROJECT else [every]
    found: dict[tuple[str, int], BandDiscount] = {}
    for projects in groups:
        list_money = sum((money[p] for p in projects), Fraction()) / SECONDS_PER_HOUR
        quantity = Fraction(sum(seconds[p] for p in projects), SECONDS_PER_HOUR)
        total = quantity if rule.basis is TierBasis.QUANTITY else list_money
        if total <= 0 or list_money <= 0:
            continue
        weights = [max(0, int(money[p] * 10**PRICE_DECIMALS)) for p in projects]
        for band, in_band, percent in _filled(rule, total):
            in_money = list_money * in_band / total
            amount = _rounded(in_money * percent / 100, currency)
            parts = split(amount, weights)
            for project, part in zip(projects, parts, strict=True):
                found[project, band] = BandDiscount(part, total, in_band, in_money)
    return found


def tier_amounts(
    facts: TierFacts,
    own_use: Sequence[TierUse],
    *,
    month: str,
    currency: str,
    only: AbstractSet[str] | None = None,
) -> dict[TierKey, TierShare]:
    """Return the tier lines of a document: what schedules give now, less what was billed of it.

    Args:
        facts: Schedules, and what final documents billed.
        own_use: Of the document's usage lines.
        month: The billed month.
        currency: Of the document.
        only: Projects of which alone lines are returned; None for all.
    """
    months = {month, *(use.month for use in own_use)}
    shares: dict[TierKey, TierShare] = {}
    for rule in facts.rules:
        use = [
            one
            for one in (*facts.use, *own_use)
            if (rule.id, one.month) in facts.applies and rule.covers(one.size, one.price_group)
        ]
        for span in sorted({rule.span_of(label) for label in months}):
            counted = [one for one in use if rule.span_of(one.month) == span]
            now = {
                TierKey(rule.id, span, band, project): discount
                for (project, band), discount in discounts_of(
                    rule, counted, currency=currency
                ).items()
            }
            before = [key for key in facts.billed if (key.schedule_id, key.span) == (rule.id, span)]
            for key in {*now, *before}:
                if only is not None and key.project_id not in only:
                    continue
                share = _share(rule, key, now.get(key), facts.billed.get(key), currency=currency)
                if share.amount.minor_units:
                    shares[key] = share
    return shares


def with_tiers(
    lines: Sequence[Line],
    facts: TierFacts,
    *,
    month: str,
    currency: str,
    only: AbstractSet[str] | None = None,
) -> tuple[Line, ...]:
    """Return the lines of a document with its tier lines behind the usage of each project.

    Args:
        lines: Of use.
        facts: Schedules, and what final documents billed.
        month: The billed month.
        currency: Of the document.
        only: Projects of which alone tier lines are added; None for all.
    """
    own_use = _use_of(lines, month=month)
    shares = tier_amounts(facts, own_use, month=month, currency=currency, only=only)
    names = {**facts.projects} | {
        line.project_id: ProjectNames(line.project, line.project_name, line.cost_center)
        for line in lines
    }
    tiers = [
        _line(key, shares[key], names[key.project_id], month=month)
        for key in sorted(shares, key=lambda k: (k.schedule_id, k.span, k.band))
    ]
    ordered = sorted([*lines, *tiers], key=lambda line: (line.project, line.project_id))
    return tuple(replace(line, position=number) for number, line in enumerate(ordered, 1))


def tiers_after(facts: TierFacts, lines: Sequence[Line], *, month: str) -> TierFacts:
    """Return the facts as they are once a document with such lines is final."""
    billed: defaultdict[TierKey, Decimal] = defaultdict(Decimal, facts.billed)
    for line in lines:
        if line.tier is not None:
            share = line.tier
            key = TierKey(share.schedule_id, share.span, share.band, line.project_id)
            billed[key] += share.amount.amount
    use = _use_of([line for line in lines if line.kind == LineKind.USAGE.value], month=month)
    return replace(facts, use=(*facts.use, *use), billed=billed)


def _use_of(lines: Iterable[Line], *, month: str) -> list[TierUse]:
    return [
        TierUse(
            project_id=line.project_id,
            size=line.size,
            price_group=line.price_group,
            unit_price=line.unit_price,
            month=line.service_month or month,
            unit_seconds=line.unit_seconds,
        )
        for line in lines
    ]


def _filled(rule: TierRule, total: Fraction) -> Iterator[tuple[int, Fraction, Fraction]]:
    """Yield number, content and percent of each band that gives a discount on a total above 0."""
    reached = [band for band in rule.bands if Fraction(band.above) < total]
    for number, band in enumerate(reached, 1):
        begin, percent = Fraction(band.above), Fraction(band.discount_percent)
        is_last = number == len(reached)
        end = total if is_last else Fraction(reached[number].above)
        if rule.kind is TierKind.VOLUME:
            begin, end = (Fraction(), total) if is_last else (begin, begin)
        if percent and end > begin:
            yield number, end - begin, percent


def _rounded(amount: Fraction, currency: str) -> Money:
    scaled = amount * 10 ** minor_digits(currency)
    return Money.of_minor_units(round_half_up(scaled.numerator, scaled.denominator), currency)


def _share(
    rule: TierRule,
    key: TierKey,
    discount: BandDiscount | None,
    billed: Decimal | None,
    *,
    currency: str,
) -> TierShare:
    nothing = BandDiscount(Money.zero(currency), Fraction(), Fraction(), Fraction())
    now, before = discount or nothing, Money(billed or Decimal(0), currency)
    whole = Money.of_minor_units(-now.amount.minor_units, currency)
    band = rule.bands[key.band - 1]

    def text(figure: Fraction) -> str:
        if rule.basis is TierBasis.MONEY:
            return amount_text(_rounded(figure, currency))
        seconds = figure * SECONDS_PER_HOUR
        return unit_hours_text(round_half_up(seconds.numerator, seconds.denominator))

    return TierShare(
        schedule_id=key.schedule_id,
        span=key.span,
        band=key.band,
        amount=Money.of_minor_units(whole.minor_units - before.minor_units, currency),
        shown={
            "schedule": rule.name,
            "kind": rule.kind.value,
            "basis": rule.basis.value,
            "scope": rule.scope.value,
            "span": rule.span.value,
            "span_begins": key.span,
            "band": str(key.band),
            "above": f"{band.above.normalize():f}",
            "discount_percent": f"{band.discount_percent.normalize():f}",
            "total_in_scope": text(now.total),
            "in_band": text(now.in_band),
            "list_amount_in_band": amount_text(_rounded(now.list_money, currency)),
            "whole_amount": amount_text(whole),
            "billed_amount": amount_text(before),
        },
    )


def _line(key: TierKey, share: TierShare, project: ProjectNames, *, month: str) -> Line:
    shown = share.shown
    of_span = f"year from {Month.parse(key.span).words}"
    if shown["span"] == TierSpan.PERIOD.value:
        of_span = Month.parse(key.span).words
    unit = "unit-hours" if shown["basis"] == TierBasis.QUANTITY.value else share.amount.currency
    return Line(
        position=0,
        project_id=key.project_id,
        project=project.slug,
        project_name=project.name,
        cost_center=project.cost_center,
        size="",
        price_group="",
        description=(
            f"{shown['schedule']}: {shown['discount_percent']} % off above {shown['above']} {unit},"
            f" {of_span}"
        ),
        unit_seconds=0,
        unit_price=Decimal(0),
        amount=share.amount,
        service_month=key.span
        if shown["span"] == TierSpan.PERIOD.value and key.span != month
        else "",
        kind=LineKind.TIER.value,
        tier=share,
    )

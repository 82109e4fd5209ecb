"""Minimum lines: what a month lacks to the organization's minimum charge, after tiers.

What counts is the net of the lines of use and tiers of the month, on all documents that stand:
credit notes come later, and take nothing off it. What is missing is split over the projects by what
they pay. A later document that bills use of the month takes back what is no longer missing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from decimal import Decimal

from billing.domain.documents.document import amount_text
from billing.domain.documents.invoicing import Line, LineKind
from billing.domain.documents.tiers import ProjectNames
from billing.domain.money import Money, split
from billing.domain.period import Month
from billing.domain.pricing.minimum import MinimumRule

MonthOfProject = tuple[str, str]
"""A month such as "2026-10", and a project's key as text."""


@dataclass(frozen=True)
class MinimumFacts:
    """What the minimum lines of a document are computed from.

    Attributes:
        rules: Minimum charges of the organization that are not withdrawn.
        net: Of use and tiers on standing documents.
        billed: Of minimum lines on standing documents.
        own_net: Of use and tiers on the document itself, where it is stored.
        own: Of its own minimum lines, where it is stored.
        projects: By key; the oldest one first.
        periods: The keys of months, by label.
    """

    rules: tuple[MinimumRule, ...] = ()
    net: Mapping[MonthOfProject, Decimal] | None = None
    billed: Mapping[MonthOfProject, Decimal] | None = None
    own_net: Mapping[MonthOfProject, Decimal] | None = None
    own: Mapping[MonthOfProject, Decimal] | None = None
    projects: Mapping[str, ProjectNames] | None = None
    periods: Mapping[str, str] | None = None


@dataclass(frozen=True)
class MinimumShare:
    """A project's part of what is missing to a minimum, less what was billed of it.

    Attributes:
        shown: How it was computed, as printed.
    """

    amount: Money
    shown: Mapping[str, str]


def minimum_amounts(
    facts: MinimumFacts,
    own_net: Mapping[MonthOfProject, Decimal],
    *,
    month: str,
    currency: str,
    only: AbstractSet[str] | None = None,
) -> dict[MonthOfProject, MinimumShare]:
    """Return the minimum lines of a document, by month and project.

    Args:
        facts: Minimum charges, and what standing documents billed.
        own_net: Of the document's lines of use and tiers.
        month: The billed month.
        currency: Of the document.
        only: Projects of which alone lines are returned; None for all.
    """
    shares: dict[MonthOfProject, MinimumShare] = {}
    for label in sorted({month, *(of for of, _ in own_net)}):
        net: defaultdict[str, Decimal] = defaultdict(Decimal)
        for (of, project), amount in (*(facts.net or {}).items(), *own_net.items()):
            if of == label:
                net[project] += amount
        billed = {
            project: amount for (of, project), amount in (facts.billed or {}).items() if of == label
        }
        minimum = _minimum(facts.rules, label, currency=currency)
        total = Money(sum(net.values(), Decimal()), currency)
        parts = _parts(minimum, total, net, oldest=next(iter(facts.projects or {}), ""))
        for project in {*parts, *billed}:
            whole = parts.get(project, Money.zero(currency))
            before = Money(billed.get(project, Decimal()), currency)
            is_asked = only is None or project in only
            if is_asked and whole != before:
                shown = {
                    "minimum": amount_text(minimum),
                    "net_of_month": amount_text(total),
                    "whole_amount": amount_text(whole),
                    "billed_amount": amount_text(before),
                }
                shares[label, project] = MinimumShare(whole + -before, shown)
    return shares


def with_minimums(
    lines: Sequence[Line],
    facts: MinimumFacts,
    *,
    month: str,
    currency: str,
    only: AbstractSet[str] | None = None,
) -> tuple[Line, ...]:
    """Return the lines of a document with its minimum lines behind the others of each project.

    Args:
        lines: Of use and tiers.
        facts: As above.
        month: The billed month.
        currency: Of the document.
        only: Projects of which alone minimum lines are added; None for all.
    """
    if not facts.rules and not facts.billed:
        return tuple(lines)
    own_net: defaultdict[MonthOfProject, Decimal] = defaultdict(Decimal)
    for line in lines:
        own_net[line.service_month or month, line.project_id] += line.amount.amount
    shares = minimum_amounts(facts, own_net, month=month, currency=currency, only=only)
    names = {**(facts.projects or {})} | {
        line.project_id: ProjectNames(line.project, line.project_name, line.cost_center)
        for line in lines
    }
    minimums = [
        _line(label, project, share, names[project], facts=facts, month=month)
        for (label, project), share in sorted(shares.items())
    ]
    ordered = sorted([*lines, *minimums], key=lambda line: (line.project, line.project_id))
    return tuple(replace(line, position=number) for number, line in enumerate(ordered, 1))


def minimums_after(facts: MinimumFacts, lines: Sequence[Line], *, month: str) -> MinimumFacts:
    """Return the facts as they are once a document with such lines stands."""
    net: defaultdict[MonthOfProject, Decimal] = defaultdict(Decimal, facts.net or {})
    billed: defaultdict[MonthOfProject, Decimal] = defaultdict(Decimal, facts.billed or {})
    for line in lines:
        if line.kind != LineKind.CREDIT.value:
            sums = billed if line.kind == LineKind.MINIMUM.value else net
            sums[line.service_month or month, line.project_id] += line.amount.amount
    return replace(facts, net=net, billed=billed)


def _minimum(rules: Sequence[MinimumRule], label: str, *, currency: str) -> Money:
    in_force = (rule.amount for rule in rules if rule.is_in_force(label))
    return Money(next(in_force, Decimal()), currency)


def _parts(
    minimum: Money, total: Money, net: Mapping[str, Decimal], *, oldest: str
) -> dict[str, Money]:
    """Return what each project pays of what is missing; the oldest pays it where none pays."""
    missing = minimum + -total
    if missing.minor_units <= 0 or not minimum.minor_units:
        return {}
    projects = sorted(net)
    weights = [max(0, Money(net[key], minimum.currency).minor_units) for key in projects]
    if not any(weights):
        return {oldest: missing}
    return dict(zip(projects, split(missing, weights), strict=True))


def _line(
    label: str,
    project_id: str,
    share: MinimumShare,
    project: ProjectNames,
    *,
    facts: MinimumFacts,
    month: str,
) -> Line:
    is_late = label != month
    amount = f"{share.shown['minimum']} {share.amount.currency}"
    return Line(
        position=0,
        project_id=project_id,
        project=project.slug,
        project_name=project.name,
        cost_center=project.cost_center,
        size="",
        price_group="",
        description=f"Minimum of {amount} for {Month.parse(label).words}",
        unit_seconds=0,
        unit_price=Decimal(0),
        amount=share.amount,
        service_month=label if is_late else "",
        service_period_id=(facts.periods or {})[label] if is_late else "",
        kind=LineKind.MINIMUM.value,
        minimum=share.shown,
    )

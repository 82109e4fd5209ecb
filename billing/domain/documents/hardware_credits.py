"""Credit lines: use that broken hardware spoiled, at the price of its hour.

They come after minimum lines, which they do not raise. A later document has the difference to what
credit lines gave back before, so that no accepted credit comes twice, and it is taken back as far
as corrections take back the use itself (ADR 0066).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

from billing.domain.documents.document import amount_text, unit_hours_text
from billing.domain.documents.invoicing import Line, LineKind, describe
from billing.domain.documents.tiers import ProjectNames
from billing.domain.money import Money, price_of
from billing.domain.period import Month

_TITLE: Final = "Credit for broken hardware"


@dataclass(frozen=True)
class CreditKey:
    """What credit lines are added up by.

    Attributes:
        month: In which it was used, such as "2026-10".
        project_id: The project's key as text.
        unit_price: Per unit-hour.
    """

    month: str
    project_id: str
    size: str
    price_group: str
    unit_price: Decimal


@dataclass(frozen=True)
class AcceptedCredit:
    """Spoiled use that a person accepted to credit.

    Attributes:
        charged_in: The month that it is charged to, such as "2026-11".
    """

    key: CreditKey
    charged_in: str
    unit_seconds: int


@dataclass(frozen=True)
class CreditFacts:
    """What the credit lines of a document are computed from.

    Attributes:
        accepted: Less what corrections took back of the use.
        billed: Amounts of credit lines on standing documents.
        billed_through: The last month whose document has such a line, by the same keys.
        own: Amounts of the document's own credit lines, where it is stored.
        projects: By key.
        periods: The keys of months, by label.
    """

    accepted: tuple[AcceptedCredit, ...] = ()
    billed: Mapping[CreditKey, Decimal] = field(default_factory=dict)
    billed_through: Mapping[CreditKey, str] = field(default_factory=dict)
    own: Mapping[CreditKey, Decimal] = field(default_factory=dict)
    projects: Mapping[str, ProjectNames] = field(default_factory=dict)
    periods: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CreditShare:
    """What is credited of one key, less what was before.

    Attributes:
        amount: Below zero, or above where corrections took back the use.
        shown: How it was computed, as printed.
    """

    amount: Money
    shown: Mapping[str, str]


def credit_amounts(
    facts: CreditFacts, *, month: str, currency: str, only: AbstractSet[str] | None = None
) -> dict[CreditKey, CreditShare]:
    """Return the credit lines of a document: of use that is charged to its month or an earlier one.

    Where a later month has credited a key already, what is charged to that month counts, too: an
    invoice that replaces one of an earlier month takes nothing of it back.

    Args:
        facts: What is accepted, and what standing documents gave back.
        month: The billed month.
        currency: Of the document.
        only: Projects of which alone lines are returned; None for all.
    """
    spoiled: Counter[CreditKey] = Counter()
    for one in facts.accepted:
        if one.charged_in <= max(month, facts.billed_through.get(one.key, "")):
            spoiled[one.key] += one.unit_seconds
    shares: dict[CreditKey, CreditShare] = {}
    for key in {*spoiled, *facts.billed}:
        if only is not None and key.project_id not in only:
            continue
        whole = -price_of(spoiled[key], unit_price=key.unit_price, currency=currency)
        before = Money(facts.billed.get(key, Decimal()), currency)
        if whole != before:
            shown = {
                "unit_hours": unit_hours_text(spoiled[key]),
                "whole_amount": amount_text(whole),
                "billed_amount": amount_text(before),
            }
            shares[key] = CreditShare(whole + -before, shown)
    return shares


def with_credits(
    lines: Sequence[Line],
    facts: CreditFacts,
    *,
    month: str,
    currency: str,
    only: AbstractSet[str] | None = None,
) -> tuple[Line, ...]:
    """Return the lines of a document with its credit lines behind the others of each project.

    Args:
        lines: Of use, tiers and minimums.
        facts: As above.
        month: The billed month.
        currency: Of the document.
        only: Projects of which alone credit lines are added; None for all.
    """
    shares = credit_amounts(facts, month=month, currency=currency, only=only)
    if not shares:
        return tuple(lines)
    credit_lines = [
        _line(key, shares[key], facts=facts, month=month)
        for key in sorted(shares, key=lambda key: (key.month, key.size, key.price_group))
    ]
    ordered = sorted([*lines, *credit_lines], key=lambda line: (line.project, line.project_id))
    return tuple(replace(line, position=number) for number, line in enumerate(ordered, 1))


def credits_after(facts: CreditFacts, lines: Sequence[Line], *, month: str) -> CreditFacts:
    """Return the facts as they are once a document with such lines stands."""
    billed: defaultdict[CreditKey, Decimal] = defaultdict(Decimal, facts.billed)
    through = {**facts.billed_through}
    for line in lines:
        if line.kind == LineKind.CREDIT.value:
            key = CreditKey(
                line.service_month or month,
                line.project_id,
                line.size,
                line.price_group,
                line.unit_price,
            )
            billed[key] += line.amount.amount
            through[key] = max(month, through.get(key, ""))
    return replace(facts, billed=billed, billed_through=through)


def _line(key: CreditKey, share: CreditShare, *, facts: CreditFacts, month: str) -> Line:
    project, is_late = facts.projects[key.project_id], key.month != month
    what = describe(size=key.size, price_group=key.price_group)
    return Line(
        position=0,
        project_id=key.project_id,
        project=project.slug,
        project_name=project.name,
        cost_center=project.cost_center,
        size=key.size,
        price_group=key.price_group,
        description=f"{_TITLE}, {Month.parse(key.month).words}: {what}",
        unit_seconds=0,
        unit_price=key.unit_price,
        amount=share.amount,
        service_month=key.month if is_late else "",
        service_period_id=facts.periods[key.month] if is_late else "",
        kind=LineKind.CREDIT.value,
        credit=share.shown,
    )

"""Composing documents: use at its price, then tiers, minimum charges and credits, in this order."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from decimal import Decimal

from billing.domain.documents.hardware_credits import CreditFacts, credits_after, with_credits
from billing.domain.documents.invoicing import ChargeSum, Line, compose_lines
from billing.domain.documents.minimums import MinimumFacts, minimums_after, with_minimums
from billing.domain.documents.tiers import TierFacts, tiers_after, with_tiers

_UseKey = tuple[str, str, str, str, Decimal]
"""Month, project, size, price group and price."""


@dataclass(frozen=True)
class TermFacts:
    """What the lines of a document are computed from, beside its use."""

    tiers: TierFacts
    minimums: MinimumFacts
    credited: CreditFacts


def with_terms(
    lines: Sequence[Line],
    facts: TermFacts,
    *,
    month: str,
    currency: str,
    only: AbstractSet[str] | None = None,
) -> tuple[Line, ...]:
    """Return the lines of a document, by project.

    Args:
        lines: Of use.
        facts: Terms, and what standing documents billed of them.
        month: The billed month, such as "2026-10".
        currency: Of the document.
        only: Projects of which alone other lines are added; None for all.
    """
    tiered = with_tiers(lines, facts.tiers, month=month, currency=currency, only=only)
    charged = with_minimums(tiered, facts.minimums, month=month, currency=currency, only=only)
    return with_credits(charged, facts.credited, month=month, currency=currency, only=only)


def compose_in_turn(
    months: Iterable[tuple[str, Sequence[ChargeSum]]], facts: TermFacts, *, currency: str
) -> Iterator[tuple[Line, ...]]:
    """Yield the lines of the documents of months, each as if those before it were final.

    Args:
        months: Label and charges of months of one organization, in their order.
        facts: Before the first of them.
        currency: Of all of them.
    """
    billed: dict[_UseKey, tuple[int, Decimal]] = {}
    for month, sums in months:
        current = [_with_billed(one, billed, month=month) for one in sums]
        usage = compose_lines(current, currency=currency)
        lines = with_terms(usage, facts, month=month, currency=currency)
        yield lines
        for line in usage:
            key = _key(line, month=month)
            seconds, amount = billed.get(key, (0, Decimal()))
            billed[key] = seconds + line.unit_seconds, amount + line.amount.amount
        facts = TermFacts(
            tiers=tiers_after(facts.tiers, lines, month=month),
            minimums=minimums_after(facts.minimums, lines, month=month),
            credited=credits_after(facts.credited, lines, month=month),
        )


def _with_billed(
    charge: ChargeSum, billed: dict[_UseKey, tuple[int, Decimal]], *, month: str
) -> ChargeSum:
    seconds, amount = billed.get(_key(charge, month=month), (0, Decimal()))
    return replace(
        charge,
        billed_unit_seconds=charge.billed_unit_seconds + seconds,
        billed_amount=charge.billed_amount + amount,
    )


def _key(one: ChargeSum | Line, *, month: str) -> _UseKey:
    of = one.service_month or month
    return of, one.project_id, one.size, one.price_group, one.unit_price.normalize()

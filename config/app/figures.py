"""Figures of the tenant pages as text: money, changes, and units against limits."""

from dataclasses import dataclass
from decimal import Decimal

from django.utils.translation import gettext

from billing.admin.costs import growth_text, key_text
from billing.domain.costs import GroupCost
from billing.domain.documents.document_text import hours_text, money_text
from billing.domain.money import Money
from quotas.domain.headroom.headroom import Headroom
from tenants.templatetags.texts import NONE, figure


@dataclass(frozen=True)
class CostCells:
    """One row of costs as displayed."""

    name: str
    note: str
    hours: str
    cost: str
    share: str
    growth: str
    is_growing: bool
    run_rate: str


def cost_cells(row: GroupCost) -> CostCells:
    """Return a row of a cost report as displayed; a total has no name."""
    key = row.keys[0] if row.keys else None
    return CostCells(
        name="" if key is None else key_text(key),
        note="" if key is None else key.organization,
        hours=NONE if row.unit_seconds is None else figure(hours_text(row.unit_seconds)),
        cost=amount_of(row.cost),
        share=NONE if row.share is None else figure(f"{100 * row.share:.1f} %"),
        growth=figure(growth_text(row)),
        is_growing=row.growth is None or row.growth > 0,
        run_rate=NONE if row.run_rate is None else amount_of(row.run_rate),
    )


def amount_of(amount: Money) -> str:
    """Return money such as "1,234.50 EUR"."""
    return figure(money_text(amount.amount, amount.currency))


def change_text(ratio: Decimal | None) -> str:
    """Return a change such as "+12.5 %"; a dash where there is nothing to compare with."""
    return NONE if ratio is None else figure(f"{100 * ratio:+,.1f} %")


def taken_text(headroom: Headroom, *, is_unlimited: bool) -> str:
    """Return what is taken of what, such as "6 of 8"."""
    if is_unlimited:
        text = gettext("{taken}, unlimited")
    elif headroom.limit_units is None:
        text = gettext("{taken}, no limit")
    else:
        text = gettext("{taken} of {limit}")
    return text.format(taken=headroom.taken_units, limit=headroom.limit_units)

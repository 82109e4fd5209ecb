"""Previews: the lines that documents of months would have now; nothing is written."""

from collections.abc import Collection
from decimal import Decimal
from typing import Final
from uuid import UUID

from billing.domain.documents.invoicing import Line, compose_lines, total_of
from billing.domain.documents.tiers import with_tiers
from billing.models import BillingPeriod, PeriodState
from billing.selectors.documents.invoices import sums_of_periods
from billing.selectors.documents.tiers import tier_facts_of

PERIODS_MAX: Final = 1_000
"""Months of one statement, whose lines are in memory together: one for each project and price."""


def preview_lines(periods: Collection[BillingPeriod]) -> dict[UUID, tuple[Line, ...]]:
    """Return the lines of each month's document as it would be drafted now, by the month's id.

    Args:
        periods: At most one of each organization, with its organization, which has one currency.
    """
    currencies = {
        period.organization_id: period.organization.billing_currency for period in periods
    }
    facts = tier_facts_of(currencies)
    sums = sums_of_periods(periods)
    return {
        period.pk: with_tiers(
            compose_lines(sums[period.pk], currency=currencies[period.organization_id]),
            facts[period.organization_id],
            month=period.label,
            currency=currencies[period.organization_id],
        )
        for period in periods
    }


def costs_to_date(label: str) -> dict[UUID, Decimal]:
    """Return the net cost to date of the open months with a label that have no document yet.

    Two statements for each PERIODS_MAX months, and one for each time zone among them.
    """
    running = BillingPeriod.objects.filter(label=label, state=PeriodState.OPEN, invoices=None)
    periods = list(running.select_related("organization"))
    costs: dict[UUID, Decimal] = {}
    for first in range(0, len(periods), PERIODS_MAX):
        batch = periods[first : first + PERIODS_MAX]
        currencies = {period.pk: period.organization.billing_currency for period in batch}
        costs |= {
            key: total_of(lines, currency=currencies[key]).amount
            for key, lines in preview_lines(batch).items()
        }
    return costs

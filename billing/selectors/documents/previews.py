"""Previews: the lines that documents of months would have now; nothing is written."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from billing.domain.documents.composing import compose_in_turn, with_terms
from billing.domain.documents.invoicing import (
    ChargeSum,
    Line,
    LineKind,
    compose_lines,
    total_of,
)
from billing.domain.money import price_of
from billing.models import BillingPeriod, PeriodState
from billing.selectors.closing import readiness_of_periods, reasons_against
from billing.selectors.documents.invoices import sums_of_periods
from billing.selectors.documents.payers import PayerFacts, payer_facts_of
from billing.selectors.documents.terms import term_facts_of
from tenants.domain.errors import FieldProblem
from tenants.models import Organization

PERIODS_MAX: Final = 1_000
"""Months of one statement, whose lines are in memory together: one for each project and price."""


@dataclass(frozen=True)
class MonthReading:
    """What a month's documents are drafted from.

    Attributes:
        at: What was charged by then is in it, and perhaps some of what came later.
        problems: Why it cannot be invoiced yet.
        lines: Of use, tiers and all; they are routed when they are drafted.
        payer: How the organization is taxed, and what its documents have carried.
    """

    at: datetime
    problems: tuple[FieldProblem, ...]
    lines: tuple[Line, ...]
    payer: PayerFacts


def read_month(period: BillingPeriod, *, at: datetime) -> MonthReading:
    """Return what a month is drafted from; its organization is there already."""
    (found,) = _read_alike([period], at=at)
    return found[1]


def read_months(period_ids: Collection[UUID], *, at: datetime) -> dict[UUID, MonthReading]:
    """Return what months are drafted from, by their id.

    Those with one label are read together, in as many statements as one alone.

    Args:
        period_ids: Any.
        at: Now.
    """
    together: defaultdict[str, list[BillingPeriod]] = defaultdict(list)
    periods = BillingPeriod.objects.filter(pk__in=period_ids).select_related("organization")
    for period in periods:
        together[period.label].append(period)
    return dict(pair for alike in together.values() for pair in _read_alike(alike, at=at))


def _read_alike(
    periods: Collection[BillingPeriod], *, at: datetime
) -> Iterator[tuple[UUID, MonthReading]]:
    payers = payer_facts_of(_currencies(periods), label=next(iter(periods)).label)
    readiness, lines = readiness_of_periods(periods, at=at), preview_lines(periods)
    for period in periods:
        yield (
            period.pk,
            MonthReading(
                at=at,
                problems=reasons_against(period, readiness[period.pk], at=at),
                lines=lines[period.pk],
                payer=payers[period.organization_id],
            ),
        )


def preview_lines(periods: Collection[BillingPeriod]) -> dict[UUID, tuple[Line, ...]]:
    """Return the lines of each month's document as it would be drafted now, by the month's id.

    Args:
        periods: At most one of each organization, with its organization, which has one currency.
    """
    currencies = _currencies(periods)
    facts, sums = term_facts_of(currencies), sums_of_periods(periods)
    lines: dict[UUID, tuple[Line, ...]] = {}
    for period in periods:
        currency = currencies[period.organization_id]
        usage = compose_lines(sums[period.pk], currency=currency)
        lines[period.pk] = with_terms(
            usage, facts[period.organization_id], month=period.label, currency=currency
        )
    return lines


def _currencies(periods: Collection[BillingPeriod]) -> dict[UUID, str]:
    return {period.organization_id: period.organization.billing_currency for period in periods}


def terms_to_date(label: str) -> dict[tuple[UUID, str], Decimal]:
    """Return what tiers, minimum charges and credits add to the use of months that are not closed.

    So do credit and debit notes that late use uses up. Each month has what its document would have
    if the months before were closed first.

    Args:
        label: The last month, such as "2026-10".

    Returns:
        Net amounts by organization and currency; below zero where discounts prevail.
    """
    waiting = BillingPeriod.objects.filter(label__lte=label).exclude(state=PeriodState.CLOSED)
    payers = sorted(set(waiting.values_list("organization_id", flat=True)))
    amounts: dict[tuple[UUID, str], Decimal] = {}
    for first in range(0, len(payers), PERIODS_MAX):
        amounts |= _terms_of(waiting.filter(organization__in=payers[first : first + PERIODS_MAX]))
    return amounts


def _terms_of(periods: QuerySet[BillingPeriod]) -> dict[tuple[UUID, str], Decimal]:
    """Return what months have beside the price of their use, by organization and currency."""
    months: defaultdict[Organization, list[tuple[str, tuple[ChargeSum, ...]]]] = defaultdict(list)
    for alike in _by_label(periods):
        sums = sums_of_periods(alike)
        for period in alike:
            months[period.organization].append((period.label, sums[period.pk]))
    facts = term_facts_of({payer.pk: payer.billing_currency for payer in months})
    amounts: dict[tuple[UUID, str], Decimal] = {}
    for payer, found in months.items():
        currency = payer.billing_currency
        documents = compose_in_turn(found, facts[payer.pk], currency=currency)
        amounts[payer.pk, currency] = sum(
            (_beside_use(line) for lines in documents for line in lines), start=Decimal()
        )
    return amounts


def _beside_use(line: Line) -> Decimal:
    """Return what a line has beside the price of its use: all of it, or notes that it uses up."""
    if line.kind != LineKind.USAGE.value:
        return line.amount.amount
    before, whole = (
        price_of(quantity, unit_price=line.unit_price, currency=line.amount.currency)
        for quantity in (line.billed_unit_seconds, line.billed_unit_seconds + line.unit_seconds)
    )
    return (line.amount + before + -whole).amount


def costs_to_date(label: str) -> dict[UUID, Decimal]:
    """Return the net cost to date of the open months with a label that have no document yet."""
    running = BillingPeriod.objects.filter(label=label, state=PeriodState.OPEN, invoices=None)
    costs: dict[UUID, Decimal] = {}
    for alike in _by_label(running):
        lines = preview_lines(alike)
        for period in alike:
            currency = period.organization.billing_currency
            costs[period.pk] = total_of(lines[period.pk], currency=currency).amount
    return costs


def _by_label(periods: QuerySet[BillingPeriod]) -> Iterator[list[BillingPeriod]]:
    """Yield months of one label, in the order of labels, at most PERIODS_MAX at once."""
    ordered = periods.select_related("organization").order_by("label", "pk")
    for _, group in groupby(ordered, key=lambda period: period.label):
        alike = list(group)
        for first in range(0, len(alike), PERIODS_MAX):
            yield alike[first : first + PERIODS_MAX]

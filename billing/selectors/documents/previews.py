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

from billing.domain.documents.hardware_credits import CreditFacts, with_credits
from billing.domain.documents.invoicing import Line, LineKind, compose_lines, total_of
from billing.domain.documents.minimums import MinimumFacts, with_minimums
from billing.domain.documents.tiers import with_tiers
from billing.domain.money import price_of
from billing.models import BillingPeriod, PeriodState
from billing.selectors.closing import readiness_of_periods, reasons_against
from billing.selectors.documents.hardware_credits import credit_facts_of
from billing.selectors.documents.invoices import sums_of_periods
from billing.selectors.documents.minimums import minimum_facts_of
from billing.selectors.documents.tiers import tier_facts_of
from tenants.domain.errors import FieldProblem

PERIODS_MAX: Final = 1_000
"""Months of one statement, whose lines are in memory together: one for each project and price."""


@dataclass(frozen=True)
class MonthReading:
    """What a month's documents are drafted from.

    Attributes:
        at: What was charged by then is in it, and perhaps some of what came later.
        problems: Why it cannot be invoiced yet.
        lines: Of use, tiers and all; they are routed, and taxed, when they are drafted.
    """

    at: datetime
    problems: tuple[FieldProblem, ...]
    lines: tuple[Line, ...]


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
    readiness, lines = readiness_of_periods(periods, at=at), preview_lines(periods)
    for period in periods:
        problems = reasons_against(period, readiness[period.pk], at=at)
        yield period.pk, MonthReading(at=at, problems=problems, lines=lines[period.pk])


def preview_lines(periods: Collection[BillingPeriod]) -> dict[UUID, tuple[Line, ...]]:
    """Return the lines of each month's document as it would be drafted now, by the month's id.

    Args:
        periods: At most one of each organization, with its organization, which has one currency.
    """
    currencies = {
        period.organization_id: period.organization.billing_currency for period in periods
    }
    tiers, minimums = tier_facts_of(currencies), minimum_facts_of(currencies)
    credited = credit_facts_of(currencies)
    sums = sums_of_periods(periods)
    lines: dict[UUID, tuple[Line, ...]] = {}
    for period in periods:
        payer, currency = period.organization_id, currencies[period.organization_id]
        usage = compose_lines(sums[period.pk], currency=currency)
        discounted = with_tiers(usage, tiers[payer], month=period.label, currency=currency)
        charged = with_minimums(
            discounted,
            minimums.get(payer, MinimumFacts()),
            month=period.label,
            currency=currency,
        )
        lines[period.pk] = with_credits(
            charged, credited.get(payer, CreditFacts()), month=period.label, currency=currency
        )
    return lines


def terms_to_date(label: str) -> dict[tuple[UUID, str], Decimal]:
    """Return what tiers, minimum charges and credits add to the use of months that are not closed.

    So do credit and debit notes that late use uses up. Each month's document would have the
    credits of the months before, too, as long as none is closed: those of the last month count.

    Args:
        label: The last month, such as "2026-10".

    Returns:
        Net amounts by organization and currency; below zero where discounts prevail.
    """
    amounts: defaultdict[tuple[UUID, str], Decimal] = defaultdict(Decimal)
    credited: dict[tuple[UUID, str], Decimal] = {}
    waiting = BillingPeriod.objects.filter(label__lte=label).exclude(state=PeriodState.CLOSED)
    for period, lines in _previewed(waiting):
        currency = period.organization.billing_currency
        credits_due = [line for line in lines if line.kind == LineKind.CREDIT.value]
        terms = [
            line for line in lines if line.kind in {LineKind.TIER.value, LineKind.MINIMUM.value}
        ]
        payer = (period.organization_id, currency)
        amounts[payer] += total_of(terms, currency=currency).amount
        amounts[payer] += sum(_changed_by_notes(line) for line in lines)
        credited[payer] = total_of(credits_due, currency=currency).amount
    return {payer: amount + credited[payer] for payer, amount in amounts.items()}


def _changed_by_notes(line: Line) -> Decimal:
    """Return what a line of use has beside its price: notes that it uses up (ADR 0065)."""
    if line.billed_amount is None or line.kind != LineKind.USAGE.value:
        return Decimal()
    before, whole = (
        price_of(quantity, unit_price=line.unit_price, currency=line.amount.currency)
        for quantity in (line.billed_unit_seconds, line.billed_unit_seconds + line.unit_seconds)
    )
    return (line.amount + before + -whole).amount


def costs_to_date(label: str) -> dict[UUID, Decimal]:
    """Return the net cost to date of the open months with a label that have no document yet."""
    running = BillingPeriod.objects.filter(label=label, state=PeriodState.OPEN, invoices=None)
    return {
        period.pk: total_of(lines, currency=period.organization.billing_currency).amount
        for period, lines in _previewed(running)
    }


def _previewed(
    periods: QuerySet[BillingPeriod],
) -> Iterator[tuple[BillingPeriod, tuple[Line, ...]]]:
    """Yield months with their lines; a few statements for PERIODS_MAX months of a label."""
    ordered = list(periods.select_related("organization").order_by("label", "pk"))
    for _, group in groupby(ordered, key=lambda period: period.label):
        alike = list(group)
        for first in range(0, len(alike), PERIODS_MAX):
            batch = alike[first : first + PERIODS_MAX]
            lines = preview_lines(batch)
            yield from ((period, lines[period.pk]) for period in batch)

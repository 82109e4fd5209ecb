"""The page "Month close": every organization's month in one table, and the steps to close them.

A step works through its months for SLICE_SECONDS, one transaction each, so that a refusal stops no
other month; the page then shows how far it came, and continues behind the last one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from time import monotonic
from typing import Final, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from billing.access import WRITE_INVOICE
from billing.adapters.terms import invoice_terms
from billing.domain.documents.document import amount_text
from billing.domain.documents.document_text import hours_text, number_text
from billing.domain.errors import PeriodLabelInvalidError, UnusualCostError
from billing.domain.money import round_money
from billing.domain.month_board import (
    MonthFacts,
    MonthStep,
    Shortfall,
    shortfall_texts,
    step_of,
    to_finalize,
    to_review,
)
from billing.domain.period import Month
from billing.selectors.documents.finals import FinalReading, read_finals
from billing.selectors.documents.previews import MonthReading, costs_to_date, read_months
from billing.selectors.months import month_board, month_labels
from billing.services.closing import review_period
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.domain.identity.granting import who_may
from tenants.domain.identity.roles import RoleScope
from tenants.services.turns import with_readings

SLICE_SECONDS: Final = 15
"""A web server gives up on a request after 30 s."""
READ_TOGETHER: Final = 50
"""Months that are read in one go; the last of them has its turn some seconds later."""
Reading = TypeVar("Reading")
BUSY: Final = "The database was busy with this month. Start the step again."
_SEEN: Final = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}):([0-9]{1,9})"
)
_CLASSES: Final = {
    MonthStep.RESOLVE: "text-red-600 dark:text-red-500",
    MonthStep.REVIEW: "text-primary-600 dark:text-primary-500",
}


@dataclass(frozen=True)
class ShownShortfall:
    """One reason why a month waits, with the page that settles it."""

    text: str
    url: str = ""


@dataclass(frozen=True)
class MonthRow:
    """One organization's month as shown."""

    month: MonthFacts
    step: MonthStep
    step_class: str
    cost: str
    more: int
    change: str
    held: ShownShortfall | None
    reasons: tuple[ShownShortfall, ...]
    url: str


@dataclass(frozen=True)
class StepResult:
    """How far a step came: refusals by organization, and behind whom to continue."""

    name: str
    done: int
    refused: tuple[tuple[str, str], ...]
    continue_after: str = ""
    remaining: int = 0


def month_close_page(admin: LedgerAdmin, request: HttpRequest) -> HttpResponse:
    """Return the page of the month in the query; a POST does one of its steps first."""
    at, actor = timezone.now(), actor_of_request(request)
    labels = month_labels()
    label = _label(request, labels, at=at)
    months = _board(label, at=at)
    is_to_date = request.method == "GET" and "to_date" in request.GET
    if is_to_date:
        costs = costs_to_date(label)
        months = [replace(month, total=costs.get(month.period_id, month.total)) for month in months]
    result, confirm = None, None
    step = request.POST.get("step", "") if request.method == "POST" else ""
    if step and not admin.has_write_permission(request):
        step = ""
    mine = to_finalize(months, actor_id=actor.id, four_eyes=settings.FOUR_EYES)
    if step == "finalize" and "confirmed" not in request.POST:
        confirm = {
            "count": sum(month.documents for month in mine),
            "payable": _sums((month.currency, month.payable) for month in mine),
            "seen": ",".join(f"{month.invoice_id}:{month.version}" for month in mine),
        }
    elif step:
        result = _perform(step, request, months, mine, actor=actor, at=at)
        months = _board(label, at=at)
        mine = to_finalize(months, actor_id=actor.id, four_eyes=settings.FOUR_EYES)
    context = {
        **admin.page_context(request, title="Month close"),
        "label": label,
        "labels": labels,
        "rows": sorted((_row(month, at=at) for month in months), key=_needed_first),
        "counts": _counts(months, at=at),
        "is_to_date": is_to_date,
        "is_running": any(step_of(month, at=at) is MonthStep.WAIT for month in months),
        "totals": _totals(months),
        "reviewable": len(to_review(months, at=at)),
        "finalizable": sum(month.documents for month in mine),
        "own_reviews": sum(month.state == "review" for month in months) - _others(mine),
        "may_write": admin.has_write_permission(request),
        "who_may": who_may(WRITE_INVOICE, reach={RoleScope.PLATFORM}),
        "result": result,
        "seen": request.POST.get("seen", ""),
        "confirm": confirm,
    }
    return TemplateResponse(request, "admin/billing/billingperiod/close.html", context)


def _board(label: str, *, at: datetime) -> list[MonthFacts]:
    grace = timedelta(seconds=settings.WINDOW_LATENESS_SECONDS)
    return month_board(label, ended_by=at - grace)


def _label(request: HttpRequest, labels: Sequence[str], *, at: datetime) -> str:
    """Return the month asked for, or else the last one that is over."""
    try:
        return Month.parse(request.POST.get("month") or request.GET.get("month", "")).label
    except PeriodLabelInvalidError:
        running = f"{at:%Y-%m}"
        return next((label for label in labels if label < running), running)


def _perform(
    step: str,
    request: HttpRequest,
    months: Sequence[MonthFacts],
    mine: Sequence[MonthFacts],
    *,
    actor: Actor,
    at: datetime,
) -> StepResult | None:
    each = partial(_each, after=request.POST.get("after", ""), at=at)
    review = partial(_review, actor=actor, at=at)
    if step == "finalize":
        seen = _seen(request)
        finalize = partial(_finalize, seen=seen, actor=actor, at=at)
        confirmed = {
            month.invoice_id: month
            for month in mine
            if month.invoice_id and month.invoice_id in seen
        }
        return each(confirmed, read_finals, finalize, name="finalized")
    if step == "review":
        waiting = {month.period_id: month for month in to_review(months, at=at)}
        return each(waiting, read_months, review, name="sent to review")
    asked = request.POST.get("period")
    chosen = {month.period_id: month for month in months if str(month.period_id) == asked}
    note = request.POST.get("acknowledgement", "")
    review = partial(review, acknowledgement=note)
    return each(chosen, read_months, review, name="sent to review")


def _review(
    month: MonthFacts,
    reading: MonthReading | None,
    *,
    actor: Actor,
    at: datetime,
    acknowledgement: str = "",
) -> None:
    """Send a month to review; one of unusual cost is drafted, so that its row asks for a reason."""
    terms = invoice_terms()
    try:
        review_period(
            period_id=month.period_id,
            actor=actor,
            at=at,
            terms=terms,
            acknowledgement=acknowledgement,
            reading=reading,
        )
    except UnusualCostError:
        if month.invoice_id is None:
            draft_invoice(period_id=month.period_id, actor=actor, at=at, terms=terms)
        raise


def _finalize(
    month: MonthFacts,
    reading: FinalReading | None,
    *,
    seen: Mapping[UUID, int],
    actor: Actor,
    at: datetime,
) -> None:
    if month.invoice_id is not None:
        finalize_invoice(
            invoice_id=month.invoice_id,
            actor=actor,
            at=at,
            terms=invoice_terms(),
            expected_version=seen[month.invoice_id],
            reading=reading,
        )


def _seen(request: HttpRequest) -> dict[UUID, int]:
    """Return the invoices that the confirmation showed, with the versions of their drafts."""
    return {
        UUID(invoice_id): int(version)
        for invoice_id, version in _SEEN.findall(request.POST.get("seen", ""))
    }


def _each(
    months: Mapping[UUID, MonthFacts],
    read: Callable[..., Mapping[UUID, Reading]],
    call: Callable[[MonthFacts, Reading | None], None],
    *,
    name: str,
    after: str,
    at: datetime,
) -> StepResult:
    """Call a service for month after month, until all are done or the slice of time is over.

    What it needs is read of many months at once, by the keys of `months`. It continues behind the
    organization `after`.
    """
    waiting = {key: month for key, month in months.items() if month.slug > after}
    ends = monotonic() + SLICE_SECONDS
    refused: list[tuple[str, str]] = []
    tried: list[str] = []
    for key, reading in with_readings(
        list(waiting),
        partial(read, at=at),
        together=READ_TOGETHER,
        event="billing.reading.failed",
        at=at,
    ):
        month = waiting[key]
        refused.extend(
            (month.organization, text) for text in _refusals(partial(call, month, reading))
        )
        tried.append(month.slug)
        if monotonic() > ends:
            break
    remaining = len(waiting) - len(tried)
    return StepResult(
        name=name,
        done=len(tried) - len({organization for organization, _ in refused}),
        refused=tuple(refused),
        continue_after=tried[-1] if remaining else "",
        remaining=remaining,
    )


def _refusals(call: Callable[[], None]) -> Iterator[str]:
    try:
        call()
    except DomainError as error:
        yield f"{error.message} {error.advice}".strip()
        yield from (problem.message for problem in error.problems)
    except OperationalError:
        yield BUSY


def _others(mine: Iterable[MonthFacts]) -> int:
    return sum(month.state == "review" for month in mine)


def _totals(months: Iterable[MonthFacts]) -> list[str]:
    """Return the sum of what was drafted or finalized, by currency."""
    known = (month for month in months if month.total is not None)
    return _sums((month.currency, month.total) for month in known)


def _sums(amounts: Iterable[tuple[str, Decimal | None]]) -> list[str]:
    totals: defaultdict[str, Decimal] = defaultdict(Decimal)
    for currency, amount in amounts:
        totals[currency] += amount or Decimal(0)
    return [_money(total, currency) for currency, total in sorted(totals.items())]


def _counts(months: Iterable[MonthFacts], *, at: datetime) -> list[tuple[str, int]]:
    counts = Counter(step_of(month, at=at) for month in months)
    return [(step.value, counts[step]) for step in MonthStep if counts[step]]


def _row(month: MonthFacts, *, at: datetime) -> MonthRow:
    step = step_of(month, at=at)
    change, sign = month.change, ""
    if change is not None and change > 0:
        sign = "+"
    page = reverse("admin:billing_billingperiod_change", args=[month.period_id])
    if month.invoice_id is not None:
        page = reverse("admin:billing_invoice_change", args=[month.invoice_id])
    return MonthRow(
        month=month,
        step=step,
        step_class=_CLASSES.get(step, ""),
        cost="" if month.total is None else _money(month.total, month.currency),
        more=month.documents - 1,
        change="" if change is None else f"{sign}{_money(change, month.currency)}",
        held=_held(month),
        reasons=tuple(_reasons(month)),
        url=page,
    )


def _needed_first(row: MonthRow) -> tuple[int, str]:
    """Return the order of rows: what a person has to settle comes first, what is closed last."""
    order = (
        MonthStep.RESOLVE,
        MonthStep.REVIEW,
        MonthStep.APPROVE,
        MonthStep.FINALIZE,
        MonthStep.WAIT,
        MonthStep.NOTHING,
    )
    return order.index(row.step), row.month.slug


def _held(month: MonthFacts) -> ShownShortfall | None:
    if not month.held:
        return None
    held = f"{month.held:,} exception{pluralize(month.held)}"
    if month.held_unit_seconds:
        held = f"{hours_text(month.held_unit_seconds)} unit-hours in {held}"
    return ShownShortfall(
        held,
        _link(
            "metering_meteringexception",
            state__exact="open",
            organization=month.slug,
            **_hours(month, "window_start"),
        ),
    )


def _reasons(month: MonthFacts) -> Iterator[ShownShortfall]:
    page = reverse("admin:billing_billingperiod_change", args=[month.period_id])
    unpriced = _link(
        "billing_accrualexception",
        resolved_at__isempty="1",
        organization__id__exact=str(month.organization_id),
    )
    for shortfall, text in shortfall_texts(month).items():
        yield ShownShortfall(text, unpriced if shortfall is Shortfall.PRICES else page)
    if month.is_unusual and month.usual is not None and month.state == "open":
        usual = _money(month.usual, month.currency)
        yield ShownShortfall(f"more than three times the usual {usual}")


def _hours(month: MonthFacts, name: str) -> dict[str, str]:
    return {
        f"{name}__gte": month.begin_at.isoformat(),
        f"{name}__lt": month.end_at.isoformat(),
    }


def _link(table: str, **chosen: str) -> str:
    return f"{reverse(f'admin:{table}_changelist')}?{urlencode(chosen)}"


def _money(amount: Decimal, currency: str) -> str:
    return f"{number_text(amount_text(round_money(amount, currency)))} {currency}"

"""The page "Month close": every organization's month in one table, and the steps to close them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext

from billing.access import WRITE_INVOICE
from billing.admin.amounts import hours_text, number_text
from billing.admin.month_steps import perform_step
from billing.domain.documents.document import amount_text
from billing.domain.errors import PeriodLabelInvalidError
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
from billing.selectors.documents.previews import costs_to_date
from billing.selectors.months import month_board, month_labels
from tenants.admin.base import LedgerAdmin, actor_of_request
from tenants.domain.identity.roles import RoleScope
from tenants.templatetags.texts import english, figure, minute_text, value_text, who_may_text

ROWS_SHOWN: Final = 100
"""Of a page: what has to be settled comes first."""
_CLASSES: Final = {
    MonthStep.RESOLVE: "text-red-600 dark:text-red-500",
    MonthStep.REVIEW: "text-primary-600 dark:text-primary-500",
}


@dataclass(frozen=True)
class ShownShortfall:
    """One reason why a month waits, with the page that settles it.

    Attributes:
        cost: About what is not on the bill; "" where that is nothing.
    """

    text: str
    url: str = ""
    cost: str = ""


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
        result = perform_step(step, request, months, mine, actor=actor, at=at)
        months = _board(label, at=at)
        mine = to_finalize(months, actor_id=actor.id, four_eyes=settings.FOUR_EYES)
    rows = sorted((_row(month, at=at) for month in months), key=_needed_first)
    context = {
        **admin.page_context(request, title=gettext("Month close")),
        "label": label,
        "labels": labels,
        "rows": Paginator(rows, ROWS_SHOWN).get_page(request.GET.get("page")),
        "counts": _counts(months, at=at),
        "is_to_date": is_to_date,
        "is_running": any(step_of(month, at=at) is MonthStep.WAIT for month in months),
        "totals": _totals(months),
        "held_totals": _sums(
            (month.currency, month.held_cost) for month in months if month.held_cost is not None
        ),
        "held_unpriced": any(month.held_unpriced for month in months),
        "reviewable": len(to_review(months, at=at)),
        "finalizable": sum(month.documents for month in mine),
        "own_reviews": sum(month.state == "review" for month in months) - _others(mine),
        "may_write": admin.has_write_permission(request),
        "who_may": who_may_text(WRITE_INVOICE, reach={RoleScope.PLATFORM}),
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
    return [(value_text(step.value), counts[step]) for step in MonthStep if counts[step]]


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
    held = ngettext("{count} exception", "{count} exceptions", month.held).format(
        count=figure(f"{month.held:,}")
    )
    if month.held_unit_seconds:
        held = gettext("{hours} unit-hours in {exceptions}").format(
            hours=hours_text(month.held_unit_seconds), exceptions=held
        )
    return ShownShortfall(
        held,
        _link(
            "metering_meteringexception",
            state__exact="open",
            organization=month.slug,
            **_hours(month, "window_start"),
        ),
        cost=_held_cost(month),
    )


def _held_cost(month: MonthFacts) -> str:
    """Return about what is held would cost; "" where nothing is."""
    if month.held_cost is None:
        return gettext("cost unknown: no price") if month.held_unpriced else ""
    text = gettext("about {amount}").format(amount=_money(month.held_cost, month.currency))
    return text + gettext(", and more without a price") if month.held_unpriced else text


def _reasons(month: MonthFacts) -> Iterator[ShownShortfall]:
    page = reverse("admin:billing_billingperiod_change", args=[month.period_id])
    unpriced = _link(
        "billing_accrualexception",
        resolved_at__isempty="1",
        organization__id__exact=str(month.organization_id),
    )
    pages = {Shortfall.PRICES: unpriced, Shortfall.TAXES: _link("billing_taxrate")}
    for shortfall, text in _shortfall_texts(month).items():
        yield ShownShortfall(text, pages.get(shortfall, page))
    if month.is_unusual and month.usual is not None and month.state == "open":
        usual = gettext("more than three times the usual {usual}")
        yield ShownShortfall(usual.format(usual=_money(month.usual, month.currency)))


def _shortfall_texts(month: MonthFacts) -> dict[Shortfall, str]:
    """Return what `shortfall_texts` says, in the language of the page."""
    hours, corrections = month.unaccrued_hours, month.waiting_corrections
    since = gettext(", the first at {at} UTC").format(at=minute_text(month.first_unaccrued_at))
    texts = {
        Shortfall.HOURS: ngettext(
            "{count} hour not sealed or not charged",
            "{count} hours not sealed or not charged",
            hours,
        )
        + (since if month.first_unaccrued_at else ""),
        Shortfall.CORRECTIONS: ngettext(
            "{count} correction not charged", "{count} corrections not charged", corrections
        ),
        Shortfall.PRICES: gettext("{count} unit-hours without a price"),
        Shortfall.TAXES: "{count}",
    }
    counts = {
        Shortfall.HOURS: figure(f"{hours:,}"),
        Shortfall.CORRECTIONS: figure(f"{corrections:,}"),
        Shortfall.PRICES: hours_text(month.unpriced_unit_seconds),
        Shortfall.TAXES: english(month.untaxed),
    }
    return {
        shortfall: format_html(texts[shortfall], count=counts[shortfall])
        for shortfall in shortfall_texts(month)
    }


def _hours(month: MonthFacts, name: str) -> dict[str, str]:
    return {
        f"{name}__gte": month.begin_at.isoformat(),
        f"{name}__lt": month.end_at.isoformat(),
    }


def _link(table: str, **chosen: str) -> str:
    return f"{reverse(f'admin:{table}_changelist')}?{urlencode(chosen)}"


def _money(amount: Decimal, currency: str) -> str:
    return f"{number_text(amount_text(round_money(amount, currency)))} {currency}"

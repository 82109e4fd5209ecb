"""The dashboard's table of what waits for a person, each row a link to just that."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from billing.selectors.costs import UnpricedFact
from billing.selectors.invoices import InvoiceFact
from config.dashboard.parts import cell, number, page_of, sizes_words
from metering.domain.exceptions import ExceptionKind
from metering.selectors.exceptions import ExceptionTotal
from metering.selectors.windows import ClusterProgress


def waiting_table(
    exceptions: Iterable[ExceptionTotal],
    *,
    begin_at: datetime,
    progress: Iterable[ClusterProgress],
    unpriced: Iterable[UnpricedFact],
    drafts: Sequence[InvoiceFact],
    requests: int,
) -> dict[str, Any]:
    """Return what a person has to look at, what it is about, and how much of it there is."""
    year, month = begin_at.year, begin_at.month
    rows = [
        _waiting(
            f"Exception: {ExceptionKind(total.kind).value.replace('_', ' ')}",
            _held_words(total),
            total.exceptions,
            link=page_of(
                "metering_meteringexception",
                state__exact="open",
                kind__exact=total.kind,
                window_start__year=year,
                window_start__month=month,
            ),
        )
        for total in exceptions
    ]
    hours = page_of(
        "metering_meteringwindow",
        state__in="gap,quarantined",
        start_at__year=year,
        start_at__month=month,
    )
    gaps = sum(one.waiting for one in progress)
    rows.append(_waiting("Hours that stayed blind", "accept or waive each", gaps, link=hours))
    rows += [
        _waiting(
            f"No price: {fact.organization}",
            sizes_words(fact.unit_seconds),
            fact.exceptions,
            link=page_of(
                "billing_accrualexception",
                organization__id__exact=fact.organization_id,
                resolved_at__isempty=1,
            ),
        )
        for fact in unpriced
    ]
    invoices = page_of("billing_invoice", state__exact="draft", period__label=f"{begin_at:%Y-%m}")
    asked = page_of("quotas_quotarequest", state__exact="submitted")
    rows += [
        _waiting("Invoices to finalize", "by another than who drafted", len(drafts), link=invoices),
        _waiting("Quota requests", "approve or reject", requests, link=asked),
    ]
    return {
        "headers": [cell("What"), cell("About"), number("Count")],
        "rows": [row for row in rows if row],
    }


def _waiting(what: str, about: str, count: int, *, link: str) -> list[dict[str, Any]]:
    """Return a row that leads to what waits, or none when nothing does."""
    return [cell(what, link=link), cell(about), number(f"{count:,}")] if count else []


def _held_words(total: ExceptionTotal) -> str:
    """Return whether a kind holds anything; how much by size is told on the page it leads to."""
    if not total.held_unit_seconds:
        return "nothing held"
    if total.kind == ExceptionKind.UNKNOWN_DEVICE.value:
        return "held, in units no rule knows"
    return "use is held"

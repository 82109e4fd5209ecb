"""The steps of the page "Month close": months are sent to review, and finalized.

A step works through its months for SLICE_SECONDS, one transaction each, so that neither a refusal
nor a fault stops another month; the page then shows how far it came, and continues behind the last
one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Final, TypeVar
from uuid import UUID

from django.http import HttpRequest
from django.utils.translation import gettext_noop

from billing.adapters.terms import invoice_terms
from billing.domain.errors import UnusualCostError
from billing.domain.month_board import MonthFacts, to_review
from billing.selectors.documents.finals import FinalReading, read_finals
from billing.selectors.documents.previews import MonthReading, read_months
from billing.services.closing import review_period
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from tenants.admin.refusals import refusals_of
from tenants.domain.actors import Actor
from tenants.services.turns import with_readings

SLICE_SECONDS: Final = 15
"""A web server gives up on a request after 30 s."""
READ_TOGETHER: Final = 50
"""Months that are read in one go; the last of them has its turn some seconds later."""
Reading = TypeVar("Reading")
_SEEN: Final = re.compile(
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}):([0-9]{1,9})"
)


@dataclass(frozen=True)
class StepResult:
    """How far a step came: refusals by organization, and the one to continue after."""

    name: str
    done: int
    refused: tuple[tuple[str, str], ...]
    continue_after: str = ""
    remaining: int = 0


def perform_step(
    step: str,
    request: HttpRequest,
    months: Sequence[MonthFacts],
    mine: Sequence[MonthFacts],
    *,
    actor: Actor,
    at: datetime,
) -> StepResult:
    """Return how far a step came: "finalize", "review", or "acknowledge" for one month.

    Args:
        step: Which.
        request: The form.
        months: All on the page.
        mine: Those that the actor can finalize.
        actor: The signed-in account.
        at: When.
    """
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
        return each(confirmed, read_finals, finalize, name=gettext_noop("finalized"))
    if step == "review":
        waiting = {month.period_id: month for month in to_review(months, at=at)}
        return each(waiting, read_months, review, name=gettext_noop("sent to review"))
    asked = request.POST.get("period")
    chosen = {month.period_id: month for month in months if str(month.period_id) == asked}
    note = request.POST.get("acknowledgement", "")
    review = partial(review, acknowledgement=note)
    return each(chosen, read_months, review, name=gettext_noop("sent to review"))


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
    done = 0
    for key, reading in with_readings(
        list(waiting),
        partial(read, at=at),
        together=READ_TOGETHER,
        event="billing.reading.failed",
        at=at,
    ):
        month = waiting[key]
        texts = refusals_of(
            partial(call, month, reading), event="billing.month_close.failed", key=key, at=at
        )
        refused.extend((month.organization, text) for text in texts)
        done += not texts
        tried.append(month.slug)
        if monotonic() > ends:
            break
    remaining = len(waiting) - len(tried)
    return StepResult(
        name=name,
        done=done,
        refused=tuple(refused),
        continue_after=tried[-1] if remaining else "",
        remaining=remaining,
    )

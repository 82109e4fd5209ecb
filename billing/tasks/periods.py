"""Months: opened, drafted or closed, drafted again, and what follows from final documents."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

import structlog
from celery import shared_task
from django.conf import settings
from django.db import OperationalError

from billing.adapters.terms import invoice_terms
from billing.domain.errors import PeriodNotReadyError
from billing.domain.period import Month
from billing.selectors.documents.previews import PERIODS_MAX, MonthReading, read_months
from billing.selectors.ledger.carried import overdue_balances
from billing.selectors.months import stale_drafts, undrafted_periods
from billing.services.closing import close_nil_period
from billing.services.invoicing import draft_invoice
from billing.services.ledger.carried import release_balance
from billing.services.ledger.deliveries import record_sent_mails
from billing.services.ledger.documents import post_missing_documents
from billing.services.ledger.notices import report_blocked_months
from billing.services.ledger.reminders import remind_overdue
from billing.services.periods import note_checked_draft, open_current_periods, postpone_draft
from billing.tasks.accrual import ACTOR, accrue_late, accrue_pending
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.selectors.clock import database_now
from tenants.services.turns import for_each_isolated, run_isolated, with_readings
from tenants.services.wakeups import WakeUp

REDRAFT_AFTER: Final = timedelta(days=1)
logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TickResult:
    """Result of one run."""

    windows: int
    charges: int
    exceptions: int
    periods: int
    drafts: int
    corrections: int = 0


def tick(*, at: datetime, actor: Actor) -> TickResult:
    """Run once: accrue sealed windows, open this month, draft complete periods that are over."""
    windows, charges, exceptions = accrue_pending(at=at, actor=actor)
    corrections = accrue_late(at=at, actor=actor)
    periods, drafts = settle_periods(at=at, actor=actor)
    return TickResult(windows, charges, exceptions, periods, drafts, corrections)


@shared_task(base=WakeUp, name="billing.tick_periods")
def tick_periods() -> Iterator[int]:
    """Open periods, then draft or close those that are over, and make stale drafts again."""
    at = database_now()
    yield open_current_periods(actor=ACTOR, at=at)
    yield from _draft_ended(at=at, actor=ACTOR)
    yield from _redraft_stale(at=at, actor=ACTOR)
    yield post_missing_documents(payment_days=settings.PAYMENT_DAYS, at=at, actor=ACTOR)
    yield _release_overdue(at=at, actor=ACTOR)
    yield remind_overdue(days=settings.DUNNING_DAYS, actor=ACTOR, at=at)
    yield record_sent_mails(actor=ACTOR, at=at)
    yield report_blocked_months(at=at)


def settle_periods(*, at: datetime, actor: Actor) -> tuple[int, int]:
    """Open this month's periods and draft or close what is over; return how many came new."""
    opened = open_current_periods(actor=actor, at=at)
    drafts = sum(_draft_ended(at=at, actor=actor)) + sum(_redraft_stale(at=at, actor=actor))
    post_missing_documents(payment_days=settings.PAYMENT_DAYS, at=at, actor=actor)
    _release_overdue(at=at, actor=actor)
    remind_overdue(days=settings.DUNNING_DAYS, actor=actor, at=at)
    record_sent_mails(actor=actor, at=at)
    report_blocked_months(at=at)
    return opened, drafts


def _draft_ended(*, at: datetime, actor: Actor) -> Iterator[int]:
    """Draft period after period, and yield 1 for each draft, 0 for each failure.

    A period is drafted once it has ended, the lateness allowance has passed, and everything in it
    is sealed, accrued and priced. Finalizing is for people. A period that is not ready is parked:
    it costs the others nothing. One that fails is tried after all others from then on.
    """
    grace = timedelta(seconds=settings.WINDOW_LATENESS_SECONDS)
    due = undrafted_periods(ended_before=at - grace)
    if due.parked:
        logger.info("billing.periods.parked", periods=due.parked)
    for period_id, reading in _read(due.ready_ids, at=at):
        is_drafted = _isolated(
            partial(_draft, reading=reading),
            period_id,
            event="billing.draft.failed",
            at=at,
            actor=actor,
        )
        if not is_drafted:
            postpone_draft(period_id=period_id, at=at)
        yield int(is_drafted)
    for period_id in due.nil_ids:
        if not _isolated(_close_nil, period_id, event="billing.nil.failed", at=at, actor=actor):
            postpone_draft(period_id=period_id, at=at)


def _redraft_stale(*, at: datetime, actor: Actor) -> Iterator[int]:
    """Make again the drafts that charges have changed, and look at each other one once a day.

    A draft that still shows the same is kept, with the person who drafted it.
    """
    stale = stale_drafts(checked_before=at - REDRAFT_AFTER)
    for period_id, reading in _read(stale, at=at):
        _isolated(
            partial(_draft, reading=reading),
            period_id,
            event="billing.redraft.failed",
            at=at,
            actor=actor,
        )
        note_checked_draft(period_id=period_id, at=at)
        yield 0


def _read(
    period_ids: Sequence[UUID], *, at: datetime
) -> Iterator[tuple[UUID, MonthReading | None]]:
    """Yield periods, in their order, with what they are drafted from."""
    return with_readings(
        period_ids,
        partial(read_months, at=at),
        together=PERIODS_MAX,
        event="billing.reading.failed",
        at=at,
    )


def _release_overdue(*, at: datetime, actor: Actor) -> int:
    """Release balances owed to customers that no document has taken over in time.

    One that is due with a month's document has that month to be closed in, too.
    """
    before = Month(at.year, at.month).shift(-settings.CARRY_MONTHS - 1).label
    return for_each_isolated(
        overdue_balances(before=before),
        partial(_release, at=at, actor=actor),
        event="billing.release.failed",
        at=at,
    )


def _release(invoice_id: UUID, *, at: datetime, actor: Actor) -> int:
    reason = f"It was carried for more than {settings.CARRY_MONTHS} months."
    try:
        release_balance(invoice_id=invoice_id, reason=reason, actor=actor, at=at)
    except (DomainError, OperationalError) as error:
        logger.warning("billing.release.postponed", invoice=str(invoice_id), reason=str(error))
        return 0
    return 1


def _isolated(
    call: Callable[..., bool], period_id: UUID, *, event: str, at: datetime, actor: Actor
) -> bool:
    return run_isolated(
        partial(call, period_id, at=at, actor=actor),
        otherwise=False,
        event=event,
        key=period_id,
        at=at,
    )


def _close_nil(period_id: UUID, *, at: datetime, actor: Actor) -> bool:
    """Close a period without use; return whether that succeeded."""
    try:
        close_nil_period(period_id=period_id, actor=actor, at=at)
    except (DomainError, OperationalError) as error:
        logger.warning("billing.nil.postponed", period=str(period_id), reason=str(error))
        return False
    logger.info("billing.period.closed_nil", period=str(period_id))
    return True


def _draft(
    period_id: UUID, *, at: datetime, actor: Actor, reading: MonthReading | None = None
) -> bool:
    """Draft a period; return whether that succeeded."""
    terms = invoice_terms()
    try:
        invoice = draft_invoice(
            period_id=period_id,
            actor=actor,
            at=at,
            terms=terms,
            is_kept_if_same=True,
            reading=reading,
        )
    except PeriodNotReadyError as error:
        reasons = [problem.code for problem in error.problems]
        logger.info("billing.period.not_ready", period=str(period_id), reasons=reasons)
        return False
    except (DomainError, OperationalError) as error:
        logger.warning("billing.draft.postponed", period=str(period_id), reason=str(error))
        return False
    logger.info("billing.invoice.drafted", invoice=str(invoice.pk))
    return True

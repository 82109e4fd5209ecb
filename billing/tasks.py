"""Sweeps of billing: the tables and the clock say what is due; a message carries no data.

`tick` runs everything once, for `manage.py tick`; the Celery tasks do the same in slices.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

import structlog
from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, OperationalError

from billing.adapters.terms import invoice_terms
from billing.domain.errors import PeriodNotReadyError
from billing.domain.period import Month
from billing.selectors.documents.previews import PERIODS_MAX, MonthReading, read_months
from billing.selectors.ledger.carried import overdue_balances
from billing.selectors.months import stale_drafts, undrafted_periods
from billing.selectors.pending import (
    PendingWindow,
    pending_correction_ids,
    pending_windows,
    unpriced_extents,
)
from billing.services.accrual import AccrualResult, accrue_corrections, accrue_windows
from billing.services.closing import close_nil_period
from billing.services.invoicing import draft_invoice
from billing.services.ledger.carried import release_balance
from billing.services.ledger.deliveries import record_sent_reminders
from billing.services.ledger.documents import post_missing_documents
from billing.services.ledger.reminders import remind_overdue
from billing.services.periods import note_checked_draft, open_current_periods, postpone_draft
from billing.services.showback import add_up_changed_days, changed_organizations
from tenants.domain.actors import Actor, system_actor
from tenants.domain.errors import DomainError
from tenants.selectors.clock import database_now
from tenants.services.turns import for_each_isolated, run_isolated, with_readings
from tenants.services.wakeups import WakeUp

BATCH_RECORDS_MAX: Final = 24_000
"""They take half a second; a closing waits no longer for a batch, except of one window with more."""
BATCH_WINDOWS_MAX: Final = 50
TICK_WINDOWS_MAX: Final = 2_000
"""A month of two clusters and more; the next run takes the rest."""
FEW_DAYS: Final = 20
"""Of 500 days with more than 8,000 charges each, a batch takes longer than a minute."""
REDRAFT_AFTER: Final = timedelta(days=1)
NOTHING_ACCRUED: Final = AccrualResult(0, 0, 0, 0, 0)
ACTOR: Final = system_actor("billing.tick")
Key = TypeVar("Key", int, UUID)

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


@shared_task(base=WakeUp, name="billing.tick_accrual")
def tick_accrual() -> Iterator[AccrualResult]:
    """Accrue sealed windows, then corrections of them, batch by batch."""
    at = database_now()
    yield from _accrue_windows(at=at, actor=ACTOR)
    yield from _accrue_corrections(at=at, actor=ACTOR)


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
    yield record_sent_reminders(actor=ACTOR, at=at)


@shared_task(base=WakeUp, name="billing.tick_daily_costs")
def tick_daily_costs() -> Iterator[int]:
    """Add up the days whose charges changed, batch by batch."""
    yield from _add_up_days(at=database_now())


def accrue_pending(*, at: datetime, actor: Actor) -> tuple[int, int, int]:
    """Accrue sealed windows in batches; return windows, charges and exceptions that came new."""
    done = list(_accrue_windows(at=at, actor=actor))
    windows = sum(result.windows for result in done)
    charges = sum(result.charges for result in done)
    exceptions = sum(result.exceptions for result in done)
    if windows:
        logger.info("billing.accrual.done", windows=windows, charges=charges, exceptions=exceptions)
    return windows, charges, exceptions


def accrue_late(*, at: datetime, actor: Actor) -> int:
    """Accrue posted corrections in batches; return how many came new or were completed."""
    corrections = sum(result.windows for result in _accrue_corrections(at=at, actor=actor))
    if corrections:
        logger.info("billing.late_accrual.done", corrections=corrections)
    return corrections


def add_up_days(*, at: datetime, actor: Actor) -> int:  # noqa: ARG001 - As every step of a tick.
    """Add up the days whose charges changed; return how many."""
    return sum(_add_up_days(at=at))


def _add_up_days(*, at: datetime) -> Iterator[int]:
    """Add up days, batch by batch; organization by organization where a batch fails."""
    try:
        while days := add_up_changed_days():
            yield days
    except OperationalError as error:
        logger.warning("billing.daily_costs.postponed", reason=str(error))
        yield _add_up_few_days()
    except DatabaseError:
        for organization_id in changed_organizations():
            yield run_isolated(
                partial(add_up_changed_days, organization_ids=[organization_id]),
                otherwise=0,
                event="billing.daily_costs.failed",
                key=organization_id,
                at=at,
            )


def _add_up_few_days() -> int:
    """Add up fewer days, where many of many charges take longer than a statement may."""
    try:
        return add_up_changed_days(notes=FEW_DAYS)
    except OperationalError as error:
        logger.warning("billing.daily_costs.postponed", reason=str(error), days=FEW_DAYS)
        return 0


def _accrue_windows(*, at: datetime, actor: Actor) -> Iterator[AccrualResult]:
    """Accrue window after window, in batches of so many records; yield each result."""
    for batch in _batches(pending_windows(limit=TICK_WINDOWS_MAX)):
        yield from _postponed_or_isolated(
            batch,
            lambda keys: accrue_windows(window_ids=keys, actor=actor, at=at),
            alone=lambda key: _accrue_by_organization(key, at=at, actor=actor),
            event="billing.accrual.failed",
            at=at,
        )


def _accrue_corrections(*, at: datetime, actor: Actor) -> Iterator[AccrualResult]:
    pending = pending_correction_ids(limit=TICK_WINDOWS_MAX)
    for first in range(0, len(pending), BATCH_WINDOWS_MAX):
        yield from _postponed_or_isolated(
            pending[first : first + BATCH_WINDOWS_MAX],
            lambda keys: accrue_corrections(correction_ids=keys, actor=actor, at=at),
            alone=lambda key: [accrue_corrections(correction_ids=[key], actor=actor, at=at)],
            event="billing.late_accrual.failed",
            at=at,
        )


def _batches(pending: Sequence[PendingWindow]) -> Iterator[list[int]]:
    """Yield windows in order, as many as have BATCH_RECORDS_MAX records; a larger one alone."""
    batch: list[int] = []
    records = 0
    for window in pending:
        is_full = records + window.records > BATCH_RECORDS_MAX or len(batch) == BATCH_WINDOWS_MAX
        if batch and is_full:
            yield batch
            batch, records = [], 0
        batch.append(window.id)
        records += window.records
    if batch:
        yield batch


def _accrue_by_organization(window_id: int, *, at: datetime, actor: Actor) -> list[AccrualResult]:
    """Accrue a window that failed as a whole: one bad organization must not hold up the others."""
    accrue = partial(accrue_windows, window_ids=[window_id], actor=actor, at=at)
    return [
        accrue(organization_ids=[]),
        *(
            run_isolated(
                partial(accrue, organization_ids=[organization_id]),
                otherwise=NOTHING_ACCRUED,
                event="billing.accrual.failed",
                key=f"{window_id} {organization_id}",
                at=at,
            )
            for organization_id in unpriced_extents([window_id])
        ),
    ]


def _postponed_or_isolated(
    batch: list[Key],
    accrue: Callable[[list[Key]], AccrualResult],
    *,
    alone: Callable[[Key], list[AccrualResult]],
    event: str,
    at: datetime,
) -> Iterator[AccrualResult]:
    """Accrue a batch, and yield its results.

    A batch that cannot get its locks now is left to the next run. One that fails is accrued again
    row by row, so that one bad row does not stop the others.
    """
    try:
        yield accrue(batch)
    except OperationalError as error:
        logger.warning("billing.accrual.postponed", rows=len(batch), reason=str(error))
    except SoftTimeLimitExceeded:
        raise
    except Exception:  # noqa: BLE001 - Which row it was is found, counted and logged below.
        for key in batch:
            yield from run_isolated(
                partial(alone, key),
                otherwise=[NOTHING_ACCRUED],
                event=event,
                key=key,
                at=at,
            )


def settle_periods(*, at: datetime, actor: Actor) -> tuple[int, int]:
    """Open this month's periods and draft or close what is over; return how many came new."""
    opened = open_current_periods(actor=actor, at=at)
    drafts = sum(_draft_ended(at=at, actor=actor)) + sum(_redraft_stale(at=at, actor=actor))
    post_missing_documents(payment_days=settings.PAYMENT_DAYS, at=at, actor=actor)
    _release_overdue(at=at, actor=actor)
    remind_overdue(days=settings.DUNNING_DAYS, actor=actor, at=at)
    record_sent_reminders(actor=actor, at=at)
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

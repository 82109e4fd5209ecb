"""Sweeps of billing: they find what is due in the tables and the clock, and nothing in a message.

`tick` does one round of everything, for `manage.py tick`; the Celery tasks are its doorbells.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog
from celery import shared_task
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from billing.domain.document import InvoiceTerms
from billing.domain.errors import PeriodNotReadyError
from billing.selectors.invoices import undrafted_period_ids
from billing.selectors.pending import pending_correction_ids, pending_window_ids
from billing.services.accrual import accrue_windows
from billing.services.invoicing import draft_invoice
from billing.services.late_accrual import accrue_corrections
from billing.services.periods import open_current_periods
from tenants.domain.actors import Actor, system_actor
from tenants.domain.errors import DomainError

BATCH_WINDOWS: Final = 50
"""12,000 records take 0.4 s at this size; a closing waits no longer for a batch."""
TICK_WINDOWS_MAX: Final = 2_000
"""A month of two clusters and more; what is left is found by the next round."""
TICK_DRAFTS_MAX: Final = 100
ACTOR: Final = system_actor("billing.tick")

logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TickResult:
    """What one round did."""

    windows: int
    charges: int
    exceptions: int
    periods: int
    drafts: int
    corrections: int = 0


def tick(*, at: datetime, actor: Actor) -> TickResult:
    """Do one round: accrue what is sealed, open this month, draft what is over and complete."""
    windows, charges, exceptions = accrue_pending(at=at, actor=actor)
    corrections = accrue_late(at=at, actor=actor)
    periods, drafts = settle_periods(at=at, actor=actor)
    return TickResult(windows, charges, exceptions, periods, drafts, corrections)


@shared_task(name="billing.tick_accrual")
def tick_accrual() -> None:
    """Accrue sealed windows, then corrections of them."""
    at = timezone.now()
    accrue_pending(at=at, actor=ACTOR)
    accrue_late(at=at, actor=ACTOR)


@shared_task(name="billing.tick_periods")
def tick_periods() -> None:
    """Open periods and draft those that are over."""
    settle_periods(at=timezone.now(), actor=ACTOR)


def accrue_pending(*, at: datetime, actor: Actor) -> tuple[int, int, int]:
    """Accrue sealed windows in batches; return windows, charges and exceptions that came new.

    A batch that cannot have its locks now is left to the next round.
    """
    pending = pending_window_ids(limit=TICK_WINDOWS_MAX)
    windows = charges = exceptions = 0
    for first in range(0, len(pending), BATCH_WINDOWS):
        batch = pending[first : first + BATCH_WINDOWS]
        try:
            result = accrue_windows(window_ids=batch, actor=actor, at=at)
        except OperationalError as error:
            logger.warning("billing.accrual.postponed", windows=len(batch), reason=str(error))
            continue
        windows += result.windows
        charges += result.charges
        exceptions += result.exceptions
    if windows:
        logger.info("billing.accrual.done", windows=windows, charges=charges, exceptions=exceptions)
    return windows, charges, exceptions


def accrue_late(*, at: datetime, actor: Actor) -> int:
    """Accrue posted corrections in batches; return how many came new or were completed.

    A batch that cannot have its locks now is left to the next round.
    """
    pending = pending_correction_ids(limit=TICK_WINDOWS_MAX)
    corrections = 0
    for first in range(0, len(pending), BATCH_WINDOWS):
        batch = pending[first : first + BATCH_WINDOWS]
        try:
            corrections += accrue_corrections(correction_ids=batch, actor=actor, at=at).windows
        except OperationalError as error:
            logger.warning("billing.late_accrual.postponed", reason=str(error))
    if corrections:
        logger.info("billing.late_accrual.done", corrections=corrections)
    return corrections


def settle_periods(*, at: datetime, actor: Actor) -> tuple[int, int]:
    """Open this month's periods and draft what is over; return how many of each.

    A period is drafted once it has ended, the lateness allowance has passed, and everything in it
    is sealed, accrued and priced. Finalizing is for people.
    """
    opened = open_current_periods(actor=actor, at=at)
    grace = timedelta(seconds=settings.WINDOW_LATENESS_SECONDS)
    drafts = sum(
        _draft(period_id, at=at, actor=actor)
        for period_id in undrafted_period_ids(ended_before=at - grace, limit=TICK_DRAFTS_MAX)
    )
    return opened, drafts


def _draft(period_id: UUID, *, at: datetime, actor: Actor) -> int:
    terms = InvoiceTerms.read(
        settings.ISSUER, series=settings.INVOICE_SERIES, is_four_eyes=settings.FOUR_EYES
    )
    try:
        invoice = draft_invoice(period_id=period_id, actor=actor, at=at, terms=terms)
    except PeriodNotReadyError as error:
        reasons = [problem.code for problem in error.problems]
        logger.info("billing.period.not_ready", period=str(period_id), reasons=reasons)
        return 0
    except (DomainError, OperationalError) as error:
        logger.warning("billing.draft.postponed", period=str(period_id), reason=str(error))
        return 0
    logger.info("billing.invoice.drafted", invoice=str(invoice.pk))
    return 1

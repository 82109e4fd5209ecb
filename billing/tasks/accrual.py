"""Accrual of sealed windows and of corrections, and the sums of days, batch by batch."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

import structlog
from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError, OperationalError

from billing.selectors.pending import (
    PendingWindow,
    pending_correction_ids,
    pending_windows,
    unpriced_extents,
)
from billing.services.accrual import AccrualResult, accrue_corrections, accrue_windows
from billing.services.showback import add_up_changed_days, changed_organizations
from tenants.domain.actors import Actor, system_actor
from tenants.selectors.clock import database_now
from tenants.services.turns import run_isolated
from tenants.services.wakeups import WakeUp

ACTOR: Final = system_actor("billing.tick")
BATCH_RECORDS_MAX: Final = 24_000
"""They take half a second; a closing waits no longer for one, except of a window with more."""
BATCH_WINDOWS_MAX: Final = 50
TICK_WINDOWS_MAX: Final = 2_000
"""A month of two clusters and more; the next run takes the rest."""
FEW_DAYS: Final = 20
"""Of 500 days with more than 8,000 charges each, a batch takes longer than a minute."""
NOTHING_ACCRUED: Final = AccrualResult(0, 0, 0, 0, 0)
Key = TypeVar("Key", int, UUID)
logger = structlog.get_logger(__name__)


@shared_task(base=WakeUp, name="billing.tick_accrual")
def tick_accrual() -> Iterator[AccrualResult]:
    """Accrue sealed windows, then corrections of them, batch by batch."""
    at = database_now()
    yield from _accrue_windows(at=at, actor=ACTOR)
    yield from _accrue_corrections(at=at, actor=ACTOR)


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

"""Scheduled exports: runs are opened when due, made and delivered one after another."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Final

import structlog
from celery import shared_task
from django.conf import settings
from django.db import DatabaseError, connection

from billing.adapters.destinations import export_destinations
from billing.adapters.focus_files import ENCODERS
from billing.adapters.month_bundle import BUNDLE_MAKERS
from billing.adapters.terms import invoice_terms
from billing.services.exports.running import (
    ExportWorker,
    LeasedRun,
    advance_run,
    lease_run,
    open_due_runs,
    renew_lease,
)
from billing.services.exports.staging import StagingTools, purge_contents
from billing.tasks.accrual import ACTOR
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.services.slot_leases import renewed_slot
from tenants.services.wakeups import WakeUp

KIND: Final = "billing.tick_exports"
STEP_SECONDS: Final = 60
"""No document is rendered and no file delivered after this; the next wake-up goes on."""
TIME_LIMIT_SECONDS: Final = 6 * 3600
"""Of one step: the files of a run are made in one transaction, and a file is delivered at once."""
KILL_AFTER_SECONDS: Final = 40

log = structlog.get_logger(__name__)


@shared_task(
    base=WakeUp,
    name=KIND,
    # A step may outlast the visibility timeout of its message, which is acknowledged before. If its
    # worker dies, beat wakes another one.
    acks_late=False,
    soft_time_limit=TIME_LIMIT_SECONDS,
    time_limit=TIME_LIMIT_SECONDS + KILL_AFTER_SECONDS,
)
def tick_exports() -> Iterator[bool]:
    """Open the runs that are due, and do one after another."""
    at = database_now()
    open_due_runs(actor=ACTOR, at=at)
    purge_contents(kept=timedelta(days=settings.EXPORTS_KEPT_DAYS), actor=ACTOR, at=at)
    until = time.monotonic() + STEP_SECONDS
    worker = _worker(ACTOR, has_time=lambda: time.monotonic() < until, clock=database_now)
    while (leased := lease_run(actor=ACTOR, at=database_now())) is not None:
        with _renewed(leased, clock=database_now):
            is_done = advance_run(leased, worker=worker)
        yield is_done


def export_due(*, at: datetime, actor: Actor) -> int:
    """Do all runs that are due without a time limit, for `manage.py tick`; return how many ended.

    Args:
        at: When, UTC.
        actor: A system actor.
    """
    open_due_runs(actor=actor, at=at)
    purge_contents(kept=timedelta(days=settings.EXPORTS_KEPT_DAYS), actor=actor, at=at)
    begun = time.monotonic()

    def clock() -> datetime:
        return at + timedelta(seconds=time.monotonic() - begun)

    worker, done = _worker(actor, has_time=lambda: True, clock=clock), 0
    while (leased := lease_run(actor=actor, at=at)) is not None:
        with _renewed(leased, clock=clock):
            done += advance_run(leased, worker=worker)
    return done


def _renewed(leased: LeasedRun, *, clock: Callable[[], datetime]) -> AbstractContextManager[None]:
    """Renew the lease of a run, and of the slot that does it, as long as the block takes."""
    return renewed_slot(KIND, lambda: _renew(leased, clock=clock))


def _renew(leased: LeasedRun, *, clock: Callable[[], datetime]) -> None:
    """Renew the lease of a run: a fifth of it has passed since the last time."""
    try:
        renew_lease(leased, at=clock())
    except DatabaseError as error:
        reason = type(error).__name__
        log.warning("billing.export.not_renewed", run=str(leased.run_id), reason=reason)
        connection.close()


def _worker(
    actor: Actor, *, has_time: Callable[[], bool], clock: Callable[[], datetime]
) -> ExportWorker:
    return ExportWorker(
        tools=StagingTools(
            makers=BUNDLE_MAKERS,
            encoders=ENCODERS,
            issuer=invoice_terms().issuer.name,
            with_annexes=settings.USAGE_ANNEX,
        ),
        destinations=export_destinations(settings.EXPORT_DESTINATIONS),
        has_time=has_time,
        clock=clock,
        actor=actor,
    )

"""Scheduled exports: runs are opened when due, made and delivered one after another."""

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from celery import shared_task
from django.conf import settings

from billing.adapters.destinations import export_destinations
from billing.adapters.focus_files import ENCODERS
from billing.adapters.month_bundle import BUNDLE_MAKERS
from billing.adapters.terms import invoice_terms
from billing.services.exports.running import (
    ExportWorker,
    advance_run,
    lease_run,
    open_due_runs,
)
from billing.services.exports.staging import StagingTools, purge_contents
from billing.tasks.accrual import ACTOR
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.services.wakeups import WakeUp

STEP_SECONDS: Final = 60
"""No document is rendered and no file delivered after this; a task may run for 200 s."""


@shared_task(base=WakeUp, name="billing.tick_exports")
def tick_exports() -> Iterator[bool]:
    """Open the runs that are due, and do one after another."""
    at = database_now()
    open_due_runs(actor=ACTOR, at=at)
    purge_contents(kept=timedelta(days=settings.EXPORTS_KEPT_DAYS), actor=ACTOR, at=at)
    until = time.monotonic() + STEP_SECONDS
    worker = _worker(ACTOR, has_time=lambda: time.monotonic() < until)
    while (leased := lease_run(actor=ACTOR, at=database_now())) is not None:
        yield advance_run(leased, worker=worker, at=database_now())


def export_due(*, at: datetime, actor: Actor) -> int:
    """Do all runs that are due without a time limit, for `manage.py tick`; return how many ended.

    Args:
        at: When, UTC.
        actor: A system actor.
    """
    open_due_runs(actor=actor, at=at)
    purge_contents(kept=timedelta(days=settings.EXPORTS_KEPT_DAYS), actor=actor, at=at)
    worker, done = _worker(actor, has_time=lambda: True), 0
    while (leased := lease_run(actor=actor, at=at)) is not None:
        done += advance_run(leased, worker=worker, at=at)
    return done


def _worker(actor: Actor, *, has_time: Callable[[], bool]) -> ExportWorker:
    return ExportWorker(
        tools=StagingTools(
            makers=BUNDLE_MAKERS, encoders=ENCODERS, issuer=invoice_terms().issuer.name
        ),
        destinations=export_destinations(settings.EXPORT_DESTINATIONS),
        has_time=has_time,
        actor=actor,
    )

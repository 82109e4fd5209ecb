"""Celery's doors into metering: they read the clock and the settings, and hold no rule.

A message says "look at window X", never a fact; the ticks derive what is due from the tables, so a
lost message costs a minute and a doubled one costs nothing. `tick` is the same without Celery.
"""

import os
import socket
from datetime import datetime
from functools import cache

import structlog
from celery import Task, shared_task
from django.conf import settings
from django.db import OperationalError as OperationalDatabaseError
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError
from psycopg.errors import LockNotAvailable

from metering.adapters import usage_source
from metering.domain.policy import GapPolicy, MeteringPolicy
from metering.domain.waste_rules import WasteThresholds, thresholds_of
from metering.protocols import UsageSource
from metering.selectors.due import due_recheck_ids, due_window_ids
from metering.selectors.locks import try_tick_lock
from metering.services.deriving import Derived, derive_windows
from metering.services.partitions import MONTHS_AHEAD, ensure_partitions
from metering.services.recheck_sweeping import RecheckSweep, recheck_due, recheck_one
from metering.services.rechecks import make_due_rechecks
from metering.services.sweeping import Progress, Sweep, Worker, meter_due, meter_one
from metering.services.watching.settling import settle_everywhere
from metering.services.windows import open_due_windows
from tenants.domain.actors import Actor, system_actor

logger = structlog.get_logger(__name__)

ACTOR = system_actor("metering.tick")
HINT_SECONDS_MAX = 120
"""A hint older than two ticks is thrown away: every tick hints anew at what is still due, so that
without an end a backlog would fill the queue with hints at hours that are sealed by then."""


@shared_task(name="metering.tick_windows")
def tick_windows() -> int:
    """Open the hours that are due and hint at every window that wants work; return how many."""
    at = timezone.now()
    policy = policy_from_settings()
    with transaction.atomic():
        if not try_tick_lock("metering.tick_windows"):
            return 0
        open_due_windows(at=at, policy=policy)
        due = due_window_ids(at=at)
        transaction.on_commit(lambda: _hint(due, task=collect_window))
    settle_everywhere(actor=ACTOR, at=at)
    return len(due)


@shared_task(name="metering.tick_partitions")
def tick_partitions() -> int:
    """Make the partitions of this month and of the next three; return how many were missing."""
    return ensure_partitions(from_month=timezone.now(), months=MONTHS_AHEAD + 1)


@shared_task(name="metering.tick_rechecks")
def tick_rechecks() -> int:
    """Ask for the rechecks that are due and hint at each that wants a worker; return how many."""
    at = timezone.now()
    with transaction.atomic():
        if not try_tick_lock("metering.tick_rechecks"):
            return 0
        make_due_rechecks(at=at, policy=policy_from_settings())
        due = due_recheck_ids(at=at)
        transaction.on_commit(lambda: _hint(due, task=recheck_window))
    return len(due)


@shared_task(name="metering.recheck_window")
def recheck_window(recheck_id: int) -> bool:
    """Do one recheck if it is due and nobody else does; return whether it came to an end."""
    worker = worker_from_settings()
    return recheck_one(recheck_id=recheck_id, worker=worker, at=timezone.now()).done > 0


@shared_task(name="metering.tick_waste")
def tick_waste() -> int:
    """Derive health, credits and waste from newly sealed windows; return how many there were."""
    derived = derive(at=timezone.now(), actor=ACTOR)
    return 0 if derived is None else derived.windows


@shared_task(name="metering.collect_window")
def collect_window(window_id: int) -> bool:
    """Meter one window if it is due and nobody else does; return whether anything was done."""
    sweep = meter_one(window_id=window_id, worker=worker_from_settings(), at=timezone.now())
    return not sweep.is_idle


def tick(*, at: datetime, actor: Actor, progress: Progress | None = None) -> Sweep:
    """Do one round of everything in this process, for `manage.py tick`; return what was done."""
    _make_partitions_ahead(at=at)
    settle_everywhere(actor=actor, at=at)
    return meter_due(worker=worker_from_settings(actor=actor), at=at, progress=progress)


def _make_partitions_ahead(*, at: datetime) -> None:
    """Make partitions before they are needed; whoever reads usage for long only puts it off.

    A month that is needed now is made when its hours are opened.
    """
    try:
        ensure_partitions(from_month=at, months=MONTHS_AHEAD + 1)
    except OperationalDatabaseError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        logger.warning("metering.partitions.put_off", reason=str(error).partition("\n")[0])


def recheck(*, at: datetime, actor: Actor) -> RecheckSweep:
    """Do one round of rechecks in this process, for `manage.py tick`; return what was done."""
    return recheck_due(worker=worker_from_settings(actor=actor), at=at)


def derive(*, at: datetime, actor: Actor) -> Derived | None:
    """Do one round of what follows from sealed windows, with the settings' thresholds.

    Returns:
        What was done; None when another worker is at it.
    """
    return derive_windows(actor=actor, at=at, thresholds=thresholds_from_settings())


def thresholds_from_settings() -> WasteThresholds:
    """Return from when waste is told; the settings were checked at the start."""
    return thresholds_of(settings.WASTE_THRESHOLDS)


def policy_from_settings() -> MeteringPolicy:
    """Return the limits metering works within."""
    return MeteringPolicy(
        lateness_seconds=settings.WINDOW_LATENESS_SECONDS,
        minimum_coverage=settings.MINIMUM_COVERAGE,
        gap_policy=None if settings.GAP_POLICY == "wait" else GapPolicy(settings.GAP_POLICY),
        recheck_seconds=settings.RECHECK_SECONDS,
        recheck_retention_seconds=settings.RECHECK_RETENTION_SECONDS,
        posts_late_usage=settings.POST_LATE_USAGE,
    )


def worker_from_settings(*, actor: Actor = ACTOR) -> Worker:
    """Return this process as a worker, with the source the settings name."""
    return Worker(
        name=f"{socket.gethostname()[:40]}/{os.getpid()}",
        source=process_source(),
        actor=actor,
        policy=policy_from_settings(),
    )


@cache
def process_source() -> UsageSource:
    """Return the process's one source: it keeps connections open between windows."""
    return usage_source(settings.USAGE_SOURCE)


def _hint(ids: list[int], *, task: Task[..., bool]) -> None:
    """Send a message for each window; a broker that is away only makes them wait for a tick."""
    try:
        for key in ids:
            task.apply_async((key,), expires=HINT_SECONDS_MAX)
    except OperationalError as error:
        logger.warning("metering.hint.not_sent", windows=len(ids), reason=str(error))

"""Celery's kinds of work in metering: they read the clock and the settings, and hold no rule.

No message names a window: the tables say what is due, a lost wake-up costs a minute and a doubled
one nothing. `tick` does the same without Celery.
"""

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from typing import Final, Protocol, TypeVar

from celery import shared_task
from django.conf import settings

from metering.adapters import usage_source
from metering.domain.collection.avoidance import AvoidedClusters
from metering.domain.collection.windows import GapPolicy, MeteringPolicy
from metering.domain.efficiency.rules import WasteThresholds, thresholds_of
from metering.protocols import UsageSource
from metering.selectors.collection.windows import clusters_served
from metering.services.allocations.sizing import settle_everywhere
from metering.services.collection.composed import ClaimedWindow
from metering.services.collection.sealing import make_missing_due
from metering.services.collection.sweeping import (
    CollectionSweep,
    Progress,
    Worker,
    meter_due,
    meter_next,
    open_due,
    seal_due,
)
from metering.services.collection.windows import MONTHS_AHEAD, ensure_partitions, try_partitions
from metering.services.corrections.notices import report_new_incidents
from metering.services.corrections.rechecking import RecheckSweep, recheck_due, recheck_next
from metering.services.corrections.rechecks import make_due_rechecks
from metering.services.devices.collection import DeviceSweep, collect_due_devices, collect_next
from metering.services.efficiency.deriving import Derived, derive_each, derive_windows
from tenants.domain.actors import Actor, system_actor
from tenants.selectors.clock import database_now
from tenants.services.turns import run_isolated
from tenants.services.wakeups import WakeUp, wake, wake_beside

Swept_co = TypeVar("Swept_co", covariant=True)
ACTOR: Final = system_actor("metering.tick")
SLOTS: Final = 64
"""Far more workers than one Prometheus bears; a further one is woken only while it is free."""

AHEAD: Final = MONTHS_AHEAD + 1
"""Months whose partitions are made ahead, this one included."""
DEVICE_SLOTS: Final = 8
"""Device figures wait for nobody's bill, and leave most of Prometheus and of the workers to it."""


@shared_task(base=WakeUp, name="metering.tick_windows")
def tick_windows() -> None:
    """Open the hours that are due, wake the workers that meter, and seal what is settled."""
    at = database_now()
    _wake_workers(meter_windows.name)
    if open_due(at=at, policy=policy_from_settings()):
        _wake_workers(meter_windows.name)
    seal_due(worker=worker_from_settings(), at=at)
    settle_everywhere(actor=ACTOR, at=at)


@shared_task(base=WakeUp, name="metering.meter_windows", slots=SLOTS)
def meter_windows() -> Iterator[CollectionSweep]:
    """Meter one due window after another."""
    yield from meter()


@shared_task(base=WakeUp, name="metering.tick_partitions")
def tick_partitions() -> None:
    """Make the partitions of this month and of the next three."""
    ensure_partitions(from_month=database_now(), months=AHEAD)


@shared_task(base=WakeUp, name="metering.tick_rechecks")
def tick_rechecks() -> None:
    """Ask for the rechecks that are due, and wake the workers that do them."""
    make_due_rechecks(at=database_now(), policy=policy_from_settings())
    _wake_workers(recheck_windows.name)


@shared_task(base=WakeUp, name="metering.recheck_windows", slots=SLOTS)
def recheck_windows() -> Iterator[RecheckSweep]:
    """Do one due recheck after another."""
    yield from sweep(recheck_next)


@shared_task(base=WakeUp, name="metering.tick_devices")
def tick_devices() -> None:
    """Wake the workers that collect device figures; none of a sealed hour are missing."""
    make_missing_due(at=database_now())
    _wake_workers(collect_devices.name)


@shared_task(base=WakeUp, name="metering.collect_devices", slots=DEVICE_SLOTS)
def collect_devices() -> Iterator[DeviceSweep]:
    """Collect the device figures of one sealed hour after another."""
    yield from sweep(collect_next)


class SweepNext(Protocol[Swept_co]):
    """Does what is longest due, or returns None."""

    def __call__(self, *, worker: Worker, at: datetime) -> Swept_co | None:
        """Do one row."""


def sweep(sweep_next: SweepNext[Swept_co], *, slug: str = "") -> Iterator[Swept_co]:
    """Do one row after another: of a cluster with workers of its own, or of all others."""
    served = clusters_served(slug, dedicated=settings.DEDICATED_CLUSTERS)
    worker = replace(worker_from_settings(), clusters=served)
    first = replace(worker, on_leased=wake_beside)
    swept = sweep_next(worker=first, at=database_now())
    while swept is not None:
        yield swept
        swept = sweep_next(worker=worker, at=database_now())


def meter(*, slug: str = "") -> Iterator[CollectionSweep]:
    """Meter one due window after another; wake those who may do the other parts of one."""
    for swept in sweep(meter_next, slug=slug):
        if swept.steps:
            wake(_kind_of(meter_windows.name, slug=slug))
        yield swept


def dedicate(slug: str) -> None:
    """Register the kinds of work of a cluster that has workers of its own.

    Each is named as the kind for all others, with the slug: its wake-ups and slots are apart.
    """

    def task_of(sweep_due: Callable[..., Iterator[object]]) -> Callable[[], Iterator[object]]:
        # Celery makes a class with the name of the function.
        def sweep_cluster() -> Iterator[object]:
            return sweep_due(slug=slug)

        return sweep_cluster

    for kind, sweep_due in (
        (meter_windows, meter),
        (recheck_windows, partial(sweep, recheck_next)),
        (collect_devices, partial(sweep, collect_next)),
    ):
        name = _kind_of(kind.name, slug=slug)
        shared_task(base=WakeUp, name=name, slots=kind.slots)(task_of(sweep_due))


def _kind_of(kind: str, *, slug: str) -> str:
    """Return the kind of work of a cluster that has workers of its own; "" for all others."""
    return f"{kind}:{slug}" if slug else kind


for _slug in settings.DEDICATED_CLUSTERS:
    dedicate(_slug)


def _wake_workers(kind: str) -> None:
    """Wake the workers that serve all clusters, and those of single ones."""
    for slug in ("", *settings.DEDICATED_CLUSTERS):
        wake(_kind_of(kind, slug=slug))


@shared_task(base=WakeUp, name="metering.tick_waste")
def tick_waste() -> Iterator[Derived | None]:
    """Derive health, credits and waste from one newly sealed window after another."""
    yield from derive_each(actor=ACTOR, at=database_now(), thresholds=thresholds_from_settings())


@shared_task(base=WakeUp, name="metering.tick_incidents")
def tick_incidents() -> None:
    """Report the incidents that are new."""
    report_new_incidents(at=database_now())


def report_incidents(*, at: datetime, actor: Actor) -> int:  # noqa: ARG001 - As every step of a tick.
    """Report the incidents that are new; return how many."""
    return report_new_incidents(at=at)


def tick(*, at: datetime, actor: Actor, progress: Progress | None = None) -> CollectionSweep:
    """Do one round of everything in this process, for `manage.py tick`; return what was done."""
    settle = partial(settle_everywhere, actor=actor, at=at)
    run_isolated(settle, otherwise=0, event="metering.sizes.failed", key="", at=at)
    done = meter_due(worker=worker_from_settings(actor=actor), at=at, progress=progress)
    # Last, since its failure fails the round, and hours that are due make their own month.
    try_partitions(from_month=at, months=AHEAD)
    return done


def recheck(*, at: datetime, actor: Actor) -> RecheckSweep:
    """Do one round of rechecks in this process, for `manage.py tick`; return what was done."""
    return recheck_due(worker=worker_from_settings(actor=actor), at=at)


def measure_devices(*, at: datetime, actor: Actor) -> DeviceSweep:
    """Collect all device figures that are due in this process, for `manage.py tick`."""
    make_missing_due(at=at)
    return collect_due_devices(worker=worker_from_settings(actor=actor), at=at)


def derive(*, at: datetime, actor: Actor) -> Derived | None:
    """Do one round of what follows from sealed windows, with the settings' thresholds.

    Returns:
        What was done; None when another worker is at it.
    """
    return derive_windows(actor=actor, at=at, thresholds=thresholds_from_settings())


def thresholds_from_settings() -> WasteThresholds:
    """Return from when waste is reported; the settings were checked at the start."""
    return thresholds_of(settings.WASTE_THRESHOLDS)


def policy_from_settings() -> MeteringPolicy:
    """Return the limits metering works within."""
    return MeteringPolicy(
        lateness_seconds=settings.WINDOW_LATENESS_SECONDS,
        hole_seconds_max=settings.HOLE_SECONDS_MAX,
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
        avoided=process_avoided(),
        alone=process_alone(),
        lost=process_lost(),
    )


@cache
def process_avoided() -> AvoidedClusters:
    """Return the process's memory of clusters whose sources it could not reach."""
    return AvoidedClusters()


@cache
def process_alone() -> AvoidedClusters:
    """Return its memory of clusters whose sources refused several hours together."""
    return AvoidedClusters()


@cache
def process_lost() -> list[ClaimedWindow]:
    """Return its memory of claims that it could not finish, since the database was away."""
    return []


@cache
def process_source() -> UsageSource:
    """Return the process's one source: it keeps connections open between windows."""
    return usage_source(settings.USAGE_SOURCE)

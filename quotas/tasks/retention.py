"""Ticks of retention: purge or aggregate old rows."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from celery import shared_task
from django.conf import settings

from quotas.services.admission import retention
from quotas.tasks.ticking import ACTOR
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.services.wakeups import WakeUp

FORGETTING_SECONDS_MAX: Final = 60
"""No batch begins later; what is left is found by the next tick."""


def purge(
    at: datetime, actor: Actor = ACTOR, *, clock_ns: Callable[[], int] = time.monotonic_ns
) -> retention.PurgedReservations:
    """Purge reservations released long ago, and aggregate old refusals; return how many of each."""
    until_ns = clock_ns() + FORGETTING_SECONDS_MAX * 1_000_000_000

    def after(days: int, purge_them: Callable[..., int]) -> int:
        has_time, kept = (lambda: clock_ns() < until_ns), timedelta(days)
        return purge_them(kept=kept, has_time=has_time, actor=actor, at=at)

    return retention.PurgedReservations(
        reservations=after(settings.RESERVATION_KEPT_DAYS, retention.purge_reservations),
        refusals=after(settings.REFUSALS_KEPT_DAYS, retention.fold_refusals),
        admitted_pods=after(settings.RESERVATION_KEPT_DAYS, retention.purge_admitted_pods),
    )


@shared_task(base=WakeUp, name="quotas.tick_retention")
def tick_retention() -> None:
    """Purge old rows."""
    purge(database_now())

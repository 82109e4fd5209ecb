"""Ticks of live use: reservations follow their pods, and counters their reservations."""

from datetime import datetime

from celery import shared_task
from django.conf import settings

from quotas.services.admission import live_use
from quotas.services.admission import live_use as allowances
from quotas.tasks.ticking import ACTOR
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.services.wakeups import WakeUp


def look_after_live_use(at: datetime, actor: Actor = ACTOR) -> int:
    """Let reservations follow their pods, compare counters, and read what months have used.

    Returns:
        How many reservations and counters were touched.
    """
    swept = live_use.sweep_live_use(
        burst_classes=settings.BURST_PRIORITY_CLASSES, actor=actor, at=at
    )
    repairs = live_use.repair_counters(actor=actor, at=at)
    read = allowances.refresh_allowances(actor=actor, at=at)
    return swept.touched + len(repairs) + read


@shared_task(base=WakeUp, name="quotas.tick_live_use")
def tick_live_use() -> None:
    """Let reservations follow their pods."""
    live_use.sweep_live_use(
        burst_classes=settings.BURST_PRIORITY_CLASSES, actor=ACTOR, at=database_now()
    )


@shared_task(base=WakeUp, name="quotas.tick_repair")
def tick_repair() -> None:
    """Compare counters with their reservations, and read what months have used."""
    at = database_now()
    live_use.repair_counters(actor=ACTOR, at=at)
    allowances.refresh_allowances(actor=ACTOR, at=at)

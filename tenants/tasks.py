"""The Celery door of tenants: what is to be told is sent.

A tick that is lost loses nothing; the next one finds the same deliveries.
"""

import time
from datetime import datetime
from typing import Final

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from tenants.adapters import notification_senders
from tenants.domain.actors import Actor, system_actor
from tenants.services.deliveries import claim_deliveries, send_claimed

DELIVERIES_PER_BATCH: Final = 20
"""At 5 s each they fit into the task's time limit (200 s) even when nobody answers."""
SECONDS_PER_TICK: Final = 60
"""No batch begins later, so that the last one ends within the lease of what was claimed."""
ACTOR: Final = system_actor("tenants.tick")


def tick(at: datetime, actor: Actor = ACTOR) -> int:
    """Send what is due; return how many deliveries were tried.

    A batch in which somebody did not answer is the tick's last: waiting for the dead must not keep
    a worker busy.

    Args:
        at: When, UTC.
        actor: Who ticks.
    """
    senders = notification_senders(settings.NOTIFICATION_SENDERS)
    until = time.monotonic() + SECONDS_PER_TICK
    tried = 0
    while time.monotonic() < until:
        claimed = claim_deliveries(limit=DELIVERIES_PER_BATCH, actor=actor, at=at)
        failed = send_claimed(claimed=claimed, senders=senders, at=at)
        tried += len(claimed)
        if failed or len(claimed) < DELIVERIES_PER_BATCH:
            break
    return tried


@shared_task(name="tenants.tick_notifications")
def tick_notifications() -> None:
    """Send what is due."""
    tick(timezone.now())

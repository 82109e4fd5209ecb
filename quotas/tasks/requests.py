"""Ticks of requests: what time does to them."""

from datetime import datetime

from celery import shared_task

from quotas.services.requests import clock as request_clock
from quotas.tasks.ticking import ACTOR
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.services.wakeups import WakeUp


def look_after_requests(at: datetime, actor: Actor = ACTOR) -> int:
    """Expire, escalate and remind of due requests; return how many. Idempotent.

    Args:
        at: When, UTC.
        actor: The account that ticks.
    """
    return (
        request_clock.expire_requests(actor=actor, at=at)
        + request_clock.escalate_requests(actor=actor, at=at)
        + request_clock.remind_of_ends(actor=actor, at=at)
    )


@shared_task(base=WakeUp, name="quotas.tick_requests")
def tick_requests() -> None:
    """Do what time does to requests."""
    look_after_requests(database_now())

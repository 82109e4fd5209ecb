"""Retention: released reservations are forgotten, and old refusals added up.

Reservations are admission's trail, so that each batch that is forgotten leaves an audit entry.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import structlog
from django.db import connection, transaction

from tenants.domain.actors import Actor
from tenants.services.audit import record
from tenants.services.retention import in_batches, require_service

log = structlog.get_logger(__name__)


def forget_reservations(
    *, kept: timedelta, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Forget reservations that were released long ago, oldest first; return how many.

    What counts is never touched, nor what is about a pod that lives: one that handed its units to a
    device claim, or whose namespace has no project for now.

    Args:
        kept: How long they are kept after their release.
        has_time: Asked before each batch, whether another may begin.
        actor: Who cleans up; a system actor.
        at: When, UTC.

    Raises:
        ValueError: Somebody else than the service itself asks.
    """
    require_service(actor=actor)
    before = at - kept

    @transaction.atomic
    def forget_batch(most: int) -> int:
        count = _answer("SELECT quotas_forget_reservations(%s, %s)", before, most)
        if count:
            record(
                actor=actor,
                at=at,
                action="quotas:reservation:forgotten",
                object_kind="reservation",
                object_id=at.isoformat(),
                facts={"reservations": count, "released_before": before.isoformat()},
            )
        return count

    forgotten = in_batches(forget_batch, has_time=has_time)
    if forgotten:
        log.info("quotas.retention.forgotten", reservations=forgotten)
    return forgotten


def fold_refusals(
    *, kept: timedelta, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Add up refusals nobody has tried again since, by cluster, reason and size; return how many.

    How many pods were refused since the beginning stays what it is.

    Args:
        kept: How long they are kept one by one after their last try.
        has_time: Asked before each batch, whether another may begin.
        actor: Who cleans up; a system actor.
        at: When, UTC.

    Raises:
        ValueError: Somebody else than the service itself asks.
    """
    require_service(actor=actor)
    folded = in_batches(
        lambda most: _answer("SELECT quotas_fold_refusals(%s, %s)", at - kept, most),
        has_time=has_time,
    )
    if folded:
        log.info("quotas.retention.folded", refusals=folded)
    return folded


def _answer(statement: str, before: datetime, most: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, (before, most))
        (count,) = cursor.fetchone()
    return int(count)

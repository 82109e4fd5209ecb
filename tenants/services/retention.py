"""Retention: what was told long ago is forgotten, in short transactions and bounded batches.

Nothing that anybody still waits for is forgotten, however old it is. Ledgers and the audit trail
are kept for ever.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import connection

from tenants.domain.actors import Actor

BATCH: Final = 5_000
"""Rows of one transaction: over well within a second, so nobody waits for its locks."""
BATCHES_MAX: Final = 400
"""Two million rows a tick; what is left is found by the next one."""
FORGET: Final = """
WITH old AS (
  SELECT n.id FROM tenants_notification n
   WHERE n.occurred_at < %(before)s
     AND NOT EXISTS (SELECT FROM tenants_notificationdelivery d
                      WHERE d.notification_id = n.id AND d.state = 'pending')
   ORDER BY n.occurred_at LIMIT %(most)s
     FOR UPDATE SKIP LOCKED),
deliveries AS (
  DELETE FROM tenants_notificationdelivery d USING old WHERE d.notification_id = old.id)
DELETE FROM tenants_notification n USING old WHERE n.id = old.id
"""

log = structlog.get_logger(__name__)


def forget_notifications(
    *, kept: timedelta, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Forget notifications and their deliveries, oldest first; return how many notifications.

    One with a delivery that is still on its way is kept, with all of its deliveries.

    Args:
        kept: How long they are kept after they happened.
        has_time: Asked before each batch, whether another may begin.
        actor: Who cleans up; a system actor.
        at: When, UTC.

    Raises:
        ValueError: Somebody else than the service itself asks.
    """
    require_service(actor=actor)

    def forget_batch(most: int) -> int:
        with connection.cursor() as cursor:
            cursor.execute(FORGET, {"before": at - kept, "most": most})
            return int(cursor.rowcount)

    forgotten = in_batches(forget_batch, has_time=has_time)
    if forgotten:
        log.info("tenants.retention.forgotten", notifications=forgotten)
    return forgotten


def in_batches(forget_batch: Callable[[int], int], *, has_time: Callable[[], bool]) -> int:
    """Forget batch after batch until one is not full, or time is up; return how many rows.

    Args:
        forget_batch: Forgets as many rows as it is given at most, in a transaction of its own, and
            returns how many it did.
        has_time: Asked before each batch.
    """
    forgotten = 0
    for _ in range(BATCHES_MAX):
        if not has_time():
            break
        count = forget_batch(BATCH)
        forgotten += count
        if count < BATCH:
            break
    return forgotten


def require_service(*, actor: Actor) -> None:
    """Refuse anybody but the service itself.

    Raises:
        ValueError: The actor is somebody.
    """
    if not actor.is_system:
        raise ValueError("only the service itself forgets")

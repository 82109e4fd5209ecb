"""Retention: what was told long ago is forgotten, in short transactions and bounded batches.

Nothing that anybody still waits for is forgotten, however old it is. Ledgers and the audit trail
are kept for ever. A sweep that forgot anything leaves one audit entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.db import connection, transaction

from tenants.domain.actors import Actor
from tenants.services.audit import record

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


@dataclass(frozen=True)
class Forgotten:
    """How much a tick forgot: notifications, and stored answers of Idempotency-Keys."""

    notifications: int = 0
    answers: int = 0


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
    before = at - kept

    def forget_batch(most: int) -> int:
        with connection.cursor() as cursor:
            cursor.execute(FORGET, {"before": before, "most": most})
            return int(cursor.rowcount)

    def tell(forgotten: int) -> None:
        record(
            actor=actor,
            at=at,
            action="tenants:notification:forgotten",
            object_kind="notification",
            object_id=at.isoformat(),
            facts={"notifications": forgotten, "occurred_before": before.isoformat()},
        )
        log.info("tenants.retention.forgotten", notifications=forgotten)

    return in_batches(forget_batch, tell=tell, has_time=has_time)


def in_batches(
    forget_batch: Callable[[int], int],
    *,
    tell: Callable[[int], None],
    has_time: Callable[[], bool],
) -> int:
    """Forget batch after batch until one is not full, or time is up; return how many rows.

    What was forgotten is told once, in the transaction of the last batch. If a batch fails, what
    those before it forgot is told before the fault goes on.

    Args:
        forget_batch: Forgets as many rows as it is given at most, and returns how many it did;
            each batch is a transaction of its own.
        tell: Called with how many rows, unless there were none; in a transaction.
        has_time: Asked before each batch.
    """
    forgotten = batches = 0
    is_over = not has_time()
    try:
        while not is_over:
            with transaction.atomic():
                count = forget_batch(BATCH)
                batches += 1
                is_over = count < BATCH or batches == BATCHES_MAX or not has_time()
                if is_over and forgotten + count:
                    tell(forgotten + count)
            forgotten += count
    except Exception:
        if forgotten:
            with transaction.atomic():
                tell(forgotten)
        raise
    return forgotten


def require_service(*, actor: Actor) -> None:
    """Refuse anybody but the service itself.

    Raises:
        ValueError: The actor is somebody.
    """
    if not actor.is_system:
        raise ValueError("only the service itself forgets")

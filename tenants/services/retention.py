"""Retention: purge old notifications in short transactions and bounded batches.

Pending deliveries are never purged. Ledgers and the audit trail are kept for ever. A batch that
purged rows writes one audit entry in the same transaction.
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
"""Rows of one transaction: it takes well under a second, so its locks delay no one.

Large enough that a usual hour is one batch, and so one audit entry.
"""
BATCHES_MAX: Final = 400
"""Two million rows a tick; the next tick purges the rest."""
PURGE: Final = """
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
class PurgeNames:
    """Names under which a purged batch is logged and audited.

    Attributes:
        event: The log event.
        action, object_kind: Of the audit entry.
        counted: The fact with the number of rows, such as "notifications".
        since: The fact with the time limit, such as "occurred_before".
    """

    event: str
    action: str
    object_kind: str
    counted: str
    since: str


NOTIFICATIONS: Final = PurgeNames(
    event="tenants.retention.purged",
    action="tenants:notification:purged",
    object_kind="notification",
    counted="notifications",
    since="occurred_before",
)


@dataclass(frozen=True)
class PurgedNotifications:
    """How much a tick purged: notifications, answers of Idempotency-Keys, counts of attempts."""

    notifications: int = 0
    answers: int = 0
    attempts: int = 0


def purge_notifications(
    *, kept: timedelta, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Purge notifications and their deliveries, oldest first; return how many notifications.

    One with a pending delivery is kept, with all of its deliveries.

    Args:
        kept: Retention period after the event.
        has_time: Called before each batch; whether another may begin.
        actor: A system actor.
        at: When, UTC.

    Raises:
        ValueError: The actor is not the service itself.
    """
    return purge_and_record(
        _purge_batch,
        names=NOTIFICATIONS,
        kept=kept,
        has_time=has_time,
        actor=actor,
        at=at,
    )


def _purge_batch(before: datetime, most: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(PURGE, {"before": before, "most": most})
        return int(cursor.rowcount)


def purge_and_record(
    purge_batch: Callable[[datetime, int], int],
    *,
    names: PurgeNames,
    kept: timedelta,
    has_time: Callable[[], bool],
    actor: Actor,
    at: datetime,
) -> int:
    """Purge batch after batch, each with its audit entry; return how many rows.

    A batch and its entry are one transaction, so a crash loses no entry. The entries of one sweep
    have the same object id.

    Args:
        purge_batch: Takes a time and a limit, deletes at most so many older rows and returns
            their number.
        names: Of the log event and the audit entry.
        kept: Retention period.
        has_time: Called before each batch; whether another may begin.
        actor: A system actor.
        at: When, UTC.

    Raises:
        ValueError: The actor is not the service itself.
    """
    require_service(actor=actor)
    before = at - kept

    def purge_audited(most: int) -> int:
        count = purge_batch(before, most)
        if count:
            record(
                actor=actor,
                at=at,
                action=names.action,
                object_kind=names.object_kind,
                object_id=at.isoformat(),
                facts={names.counted: count, names.since: before.isoformat()},
            )
            log.info(names.event, **{names.counted: count})
        return count

    return in_batches(purge_audited, has_time=has_time)


def in_batches(purge_batch: Callable[[int], int], *, has_time: Callable[[], bool]) -> int:
    """Purge batch after batch until one is not full, or time is up; return how many rows.

    Args:
        purge_batch: Takes a limit, deletes at most so many rows and returns their number; each
            batch is a transaction of its own.
        has_time: Called before each batch.
    """
    purged = 0
    for _ in range(BATCHES_MAX):
        if not has_time():
            break
        with transaction.atomic():
            count = purge_batch(BATCH)
        purged += count
        if count < BATCH:
            break
    return purged


def require_service(*, actor: Actor) -> None:
    """Refuse all actors but the service itself.

    Raises:
        ValueError: The actor is not a system actor.
    """
    if not actor.is_system:
        raise ValueError("only the service itself purges")

"""Retention: purge released reservations, and aggregate old refusals.

Each batch that deletes or aggregates rows writes one audit entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from django.db import connection

from tenants.domain.actors import Actor
from tenants.services.retention import PurgeNames, purge_and_record

RESERVATIONS: Final = PurgeNames(
    event="quotas.retention.purged",
    action="quotas:reservation:purged",
    object_kind="reservation",
    counted="reservations",
    since="released_before",
)
REFUSALS: Final = PurgeNames(
    event="quotas.retention.aggregated",
    action="quotas:refusal:folded",
    object_kind="admission_refusal",
    counted="refusals",
    since="tried_before",
)

ADMITTED_PODS: Final = PurgeNames(
    event="quotas.retention.pods_purged",
    action="quotas:admitted_pod:purged",
    object_kind="admitted_pod",
    counted="admitted_pods",
    since="admitted_before",
)
_PURGE_PODS: Final = """
WITH old AS (
  SELECT id FROM quotas_admittedpod WHERE admitted_at < %s ORDER BY admitted_at LIMIT %s
     FOR UPDATE SKIP LOCKED)
DELETE FROM quotas_admittedpod p USING old WHERE p.id = old.id
"""


@dataclass(frozen=True)
class PurgedReservations:
    """How much a tick removed: reservations, aggregated refusals, owners of pods."""

    reservations: int = 0
    refusals: int = 0
    admitted_pods: int = 0


def purge_reservations(
    *, kept: timedelta, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Purge reservations that were released long ago, oldest first; return how many.

    Reservations that count are kept, and so are those of a running pod: one that handed its units
    to a device claim, or whose namespace has no project for now.

    Args:
        kept: Retention period after the release.
        has_time: Called before each batch; whether another may begin.
        actor: A system actor.
        at: When, UTC.

    Raises:
        ValueError: The actor is not the system actor.
    """
    return purge_and_record(
        partial(_answer, "SELECT quotas_purge_reservations(%s, %s)"),
        names=RESERVATIONS,
        kept=kept,
        has_time=has_time,
        actor=actor,
        at=at,
    )


def purge_admitted_pods(
    *, kept: timedelta, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Purge the owners of pods that were admitted long ago; return how many.

    Metering has kept the owner of a pod that it has observed.

    Args:
        kept: Retention period after the admission.
        has_time: Called before each batch; whether another may begin.
        actor: A system actor.
        at: When, UTC.

    Raises:
        ValueError: The actor is not the system actor.
    """
    return purge_and_record(
        _purge_pods, names=ADMITTED_PODS, kept=kept, has_time=has_time, actor=actor, at=at
    )


def _purge_pods(before: datetime, most: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_PURGE_PODS, (before, most))
        return int(cursor.rowcount)


def fold_refusals(
    *, kept: timedelta, has_time: Callable[[], bool] = lambda: True, actor: Actor, at: datetime
) -> int:
    """Aggregate refusals without a later try by cluster, reason and size; return how many.

    The total number of refused pods does not change.

    Args:
        kept: Retention period of single rows after their last try.
        has_time: Called before each batch; whether another may begin.
        actor: A system actor.
        at: When, UTC.

    Raises:
        ValueError: The actor is not the system actor.
    """
    return purge_and_record(
        partial(_answer, "SELECT quotas_fold_refusals(%s, %s)"),
        names=REFUSALS,
        kept=kept,
        has_time=has_time,
        actor=actor,
        at=at,
    )


def _answer(statement: str, before: datetime, most: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, (before, most))
        (count,) = cursor.fetchone()
    return int(count)

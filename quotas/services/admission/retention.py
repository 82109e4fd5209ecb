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


@dataclass(frozen=True)
class PurgedReservations:
    """How much a tick removed: purged reservations and aggregated refusals."""

    reservations: int = 0
    refusals: int = 0


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

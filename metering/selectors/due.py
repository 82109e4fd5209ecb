"""Due work: which windows want a worker now."""

from datetime import datetime

from django.db import connection

from metering.domain.exceptions import BLOCKING_KINDS

DUE_MAX = 500
"""Windows told at once; a backlog is told again at the next tick."""

_DUE = """
SELECT w.id FROM metering_meteringwindow w
 WHERE w.state IN ('open', 'collecting', 'collected', 'reconciled') AND w.not_before <= %(at)s
   AND (w.state <> 'collecting' OR w.lease_until <= clock_timestamp())
   AND (w.state <> 'collected' OR NOT EXISTS (
     SELECT FROM metering_meteringexception e
      WHERE e.window_id = w.id AND e.state = 'open' AND e.kind = ANY(%(blocking)s)))
 ORDER BY w.start_at, w.cluster_id
 LIMIT %(limit)s
"""
_DUE_RECHECKS = """
SELECT r.id FROM metering_windowrecheck r
 WHERE r.state IN ('due', 'checking') AND r.not_before <= %(at)s
   AND (r.state = 'due' OR r.lease_until <= clock_timestamp())
 ORDER BY r.not_before, r.id
 LIMIT %(limit)s
"""
_SETTLED = """
SELECT w.id FROM metering_meteringwindow w
 WHERE w.state IN ('collected', 'reconciled')
   AND (%(window_ids)s::bigint[] IS NULL OR w.id = ANY(%(window_ids)s))
   AND (w.state = 'reconciled' OR NOT EXISTS (
     SELECT FROM metering_meteringexception e
      WHERE e.window_id = w.id AND e.state = 'open' AND e.kind = ANY(%(blocking)s)))
 ORDER BY w.start_at, w.cluster_id
 LIMIT %(limit)s
"""


def due_window_ids(*, at: datetime, limit: int = DUE_MAX) -> list[int]:
    """Return windows to be collected, taken over, reconciled or sealed now, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"at": at, "limit": min(limit, DUE_MAX), "blocking": _blocking()})
        return [window_id for (window_id,) in cursor.fetchall()]


def due_recheck_ids(*, at: datetime, limit: int = DUE_MAX) -> list[int]:
    """Return rechecks to be done or taken over now, longest due first."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE_RECHECKS, {"at": at, "limit": min(limit, DUE_MAX)})
        return [recheck_id for (recheck_id,) in cursor.fetchall()]


def sealable_window_ids(*, window_ids: list[int] | None = None, limit: int = DUE_MAX) -> list[int]:
    """Return windows that only want to be reconciled and sealed, oldest first.

    Args:
        window_ids: Only these; None for any.
        limit: How many at most.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _SETTLED,
            {"window_ids": window_ids, "limit": min(limit, DUE_MAX), "blocking": _blocking()},
        )
        return [window_id for (window_id,) in cursor.fetchall()]


def _blocking() -> list[str]:
    return sorted(kind.value for kind in BLOCKING_KINDS)

"""What accrual has still to do: sealed windows whose usage is not charged in full."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection


@dataclass(frozen=True)
class UsageExtent:
    """The first and last hour in which an organization used something in some windows."""

    organization_id: UUID
    first_hour: datetime
    last_hour: datetime


def pending_window_ids(*, limit: int) -> list[int]:
    """Return sealed windows that are not charged in full, new ones first, then longest unlooked-at.

    A window that waits for a price is looked at again in every round, last of all, so that it
    never keeps new windows waiting.
    """
    with connection.cursor() as cursor:
        cursor.execute(_PENDING, {"limit": limit})
        return [row[0] for row in cursor.fetchall()]


def extents_of(window_ids: list[int]) -> tuple[UsageExtent, ...]:
    """Return who used something in sealed windows and when, by organization."""
    with connection.cursor() as cursor:
        cursor.execute(_EXTENTS, {"windows": window_ids})
        return tuple(UsageExtent(*row) for row in cursor.fetchall())


_PENDING = """
SELECT w.id
  FROM metering_sealed_window w
  LEFT JOIN billing_accruedwindow a ON a.window_id = w.id
 WHERE a.window_id IS NULL OR NOT a.is_complete
 ORDER BY a.accrued_at NULLS FIRST, w.start_at, w.id
 LIMIT %(limit)s
"""
_EXTENTS = """
SELECT u.organization_id, min(u.window_start), max(u.window_start)
  FROM metering_sealed_window w
  JOIN metering_sealed_usage u ON u.window_id = w.id AND u.window_start = w.start_at
 WHERE w.id = ANY(%(windows)s)
 GROUP BY u.organization_id
 ORDER BY u.organization_id
"""

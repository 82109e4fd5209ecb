"""Pending accrual: windows and corrections whose usage is not charged, and may be charged now.

What waits for a price is pending again once a price or an assignment of its organization's books
has changed: the mark that was stored with it is then below `billing_price_mark`. Until then it
costs a sweep nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from django.db import connection

RETRIES_MAX = 200
"""Windows of one sweep that were added up and not rated: a closing or a fault kept them out."""
Extents: TypeAlias = dict[UUID, tuple[datetime, datetime]]
"""Organization to its first and last hour of usage."""


@dataclass(frozen=True)
class PendingWindow:
    """A sealed window to accrue.

    Attributes:
        records: How many usage records it has; of a repeated window, how many there are at most.
    """

    id: int
    records: int


def pending_windows(*, limit: int) -> list[PendingWindow]:
    """Return sealed windows to accrue: new ones first, then those least recently tried.

    Args:
        limit: At most so many of each kind.
    """
    with connection.cursor() as cursor:
        cursor.execute(_PENDING, {"limit": limit, "retries": min(limit, RETRIES_MAX)})
        return [PendingWindow(*row) for row in cursor.fetchall()]


def pending_window_ids(*, limit: int) -> list[int]:
    """Return at most so many sealed windows to accrue, in the order of `pending_windows`."""
    return [window.id for window in pending_windows(limit=limit)][:limit]


def sealed_hours(window_ids: list[int]) -> list[datetime]:
    """Return the hours of those windows that are sealed, each once, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_HOURS, {"windows": window_ids})
        return [row[0] for row in cursor.fetchall()]


def unpriced_extents(
    window_ids: list[int], *, organization_ids: Sequence[UUID] | None = None
) -> Extents:
    """Return the hours of windows in which organizations have usage that is not charged.

    Organizations are left out of which none may be charged now.

    Args:
        window_ids: Windows whose usage is added up.
        organization_ids: Only these; None for all.
    """
    only = None if organization_ids is None else list(organization_ids)
    with connection.cursor() as cursor:
        cursor.execute(_EXTENTS, {"windows": window_ids, "only": only})
        return {key: (first, last) for key, first, last in cursor.fetchall()}


def pending_correction_ids(*, limit: int) -> list[UUID]:
    """Return posted corrections to accrue, in the order of windows above."""
    with connection.cursor() as cursor:
        cursor.execute(_PENDING_CORRECTIONS, {"limit": limit})
        return [row[0] for row in cursor.fetchall()]


def corrected_hours(correction_ids: list[UUID]) -> list[datetime]:
    """Return the hours of posted corrections, each once, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_CORRECTED_HOURS, {"corrections": correction_ids})
        return [row[0] for row in cursor.fetchall()]


def correction_extents(correction_ids: list[UUID]) -> Extents:
    """Return by organization the first and last hour that posted corrections correct."""
    with connection.cursor() as cursor:
        cursor.execute(_CORRECTION_EXTENTS, {"corrections": correction_ids})
        return {key: (first, last) for key, first, last in cursor.fetchall()}


_PENDING_CORRECTIONS = """
SELECT c.id
  FROM metering_posted_correction c
  LEFT JOIN billing_accruedcorrection a ON a.correction_id = c.id
 WHERE a.correction_id IS NULL
    OR (NOT a.is_complete AND a.price_mark < coalesce(
         (SELECT m.mark FROM billing_price_mark m WHERE m.organization_id = a.organization_id), 0))
 ORDER BY a.accrued_at NULLS FIRST, c.posted_at, c.id
 LIMIT %(limit)s
"""
_CORRECTED_HOURS = """
SELECT DISTINCT window_start FROM metering_posted_correction
 WHERE id = ANY(%(corrections)s) ORDER BY window_start
"""
_CORRECTION_EXTENTS = """
SELECT organization_id, min(window_start), max(window_start) FROM metering_posted_correction
 WHERE id = ANY(%(corrections)s)
 GROUP BY organization_id
 ORDER BY organization_id
"""
# The index of unpriced usage begins with the organization and its mark: what waits for a price is
# not read. OFFSET 0 keeps the marks apart, so that each organization looks its own usage up.
_PENDING = """
WITH fresh AS (
  SELECT w.id, w.record_count, w.start_at
    FROM metering_sealed_window w
    LEFT JOIN billing_accruedwindow a ON a.window_id = w.id
   WHERE a.window_id IS NULL
   ORDER BY w.start_at, w.id
   LIMIT %(limit)s
),
unrated AS (
  SELECT a.window_id, min(a.accrued_at) AS at
    FROM billing_accruedusage a
   WHERE a.unpriced_unit_seconds <> 0 AND a.price_mark < 0
   GROUP BY 1 ORDER BY 2, 1
   LIMIT %(retries)s
),
marked AS MATERIALIZED (SELECT organization_id, mark FROM billing_price_mark),
repriced AS (
  SELECT a.window_id, min(a.accrued_at) AS at
    FROM marked m
   CROSS JOIN LATERAL (
     SELECT a.window_id, a.accrued_at FROM billing_accruedusage a
      WHERE a.organization_id = m.organization_id AND a.unpriced_unit_seconds <> 0
        AND a.price_mark >= 0 AND a.price_mark < m.mark
     OFFSET 0) a
   GROUP BY 1 ORDER BY 2, 1
   LIMIT %(limit)s
)
SELECT p.id, p.record_count
  FROM (SELECT f.id, f.record_count, NULL::timestamptz AS at, f.start_at FROM fresh f
        UNION ALL
        SELECT w.id, w.record_count, r.at, w.start_at
          FROM (SELECT window_id, min(at) AS at
                  FROM (SELECT * FROM unrated UNION ALL SELECT * FROM repriced) b
                 GROUP BY 1) r
          JOIN metering_sealed_window w ON w.id = r.window_id) p
 ORDER BY p.at NULLS FIRST, p.start_at, p.id
"""
_HOURS = """
SELECT DISTINCT start_at FROM metering_sealed_window WHERE id = ANY(%(windows)s) ORDER BY start_at
"""
_EXTENTS = """
SELECT a.organization_id, min(a.window_start), max(a.window_start)
  FROM billing_accruedusage a
  LEFT JOIN billing_price_mark m ON m.organization_id = a.organization_id
 WHERE a.window_id = ANY(%(windows)s) AND a.unpriced_unit_seconds <> 0
   AND (%(only)s::uuid[] IS NULL OR a.organization_id = ANY(%(only)s))
 GROUP BY a.organization_id
HAVING bool_or(a.price_mark < coalesce(m.mark, 0))
 ORDER BY a.organization_id
"""


def count_unaccrued_windows() -> int:
    """Return how many sealed windows are not charged in full."""
    with connection.cursor() as cursor:
        cursor.execute(_UNACCRUED)
        return int(cursor.fetchone()[0])


def count_unaccrued_corrections() -> int:
    """Return how many posted usage corrections are not charged in full."""
    with connection.cursor() as cursor:
        cursor.execute(_UNACCRUED_CORRECTIONS)
        return int(cursor.fetchone()[0])


_UNACCRUED_CORRECTIONS = """
SELECT count(*)
  FROM metering_posted_correction c
  LEFT JOIN billing_accruedcorrection a ON a.correction_id = c.id
 WHERE a.correction_id IS NULL OR NOT a.is_complete
"""
_UNACCRUED = """
SELECT count(*)
  FROM metering_sealed_window w
  LEFT JOIN billing_accruedwindow a ON a.window_id = w.id
 WHERE a.window_id IS NULL OR NOT a.is_complete
"""

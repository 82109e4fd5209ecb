"""Pending accrual: windows and corrections whose usage is not charged in full."""

from datetime import datetime
from uuid import UUID

from django.db import connection


def pending_window_ids(*, limit: int) -> list[int]:
    """Return sealed windows not charged in full: new ones first, then least recently tried.

    A window that waits for a price is retried in every run, after all others, so that it never
    delays new windows.
    """
    with connection.cursor() as cursor:
        cursor.execute(_PENDING, {"limit": limit})
        return [row[0] for row in cursor.fetchall()]


def sealed_hours(window_ids: list[int]) -> list[datetime]:
    """Return the hours of those windows that are sealed, each once, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_HOURS, {"windows": window_ids})
        return [row[0] for row in cursor.fetchall()]


def extents_of(
    window_ids: list[int], *, hours: list[datetime]
) -> dict[UUID, tuple[datetime, datetime]]:
    """Return by organization the first and last hour of its usage in sealed windows.

    Args:
        window_ids: The windows.
        hours: Their hours, so that only the partitions of those are read.
    """
    with connection.cursor() as cursor:
        cursor.execute(_EXTENTS, {"windows": window_ids, "hours": hours})
        return {key: (first, last) for key, first, last in cursor.fetchall()}


def pending_correction_ids(*, limit: int) -> list[UUID]:
    """Return posted corrections that are not charged in full, in the order of windows above."""
    with connection.cursor() as cursor:
        cursor.execute(_PENDING_CORRECTIONS, {"limit": limit})
        return [row[0] for row in cursor.fetchall()]


def corrected_hours(correction_ids: list[UUID]) -> list[datetime]:
    """Return the hours of posted corrections, each once, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_CORRECTED_HOURS, {"corrections": correction_ids})
        return [row[0] for row in cursor.fetchall()]


def correction_extents(correction_ids: list[UUID]) -> dict[UUID, tuple[datetime, datetime]]:
    """Return by organization the first and last hour that posted corrections correct."""
    with connection.cursor() as cursor:
        cursor.execute(_CORRECTION_EXTENTS, {"corrections": correction_ids})
        return {key: (first, last) for key, first, last in cursor.fetchall()}


_PENDING_CORRECTIONS = """
SELECT c.id
  FROM metering_posted_correction c
  LEFT JOIN billing_accruedcorrection a ON a.correction_id = c.id
 WHERE a.correction_id IS NULL OR NOT a.is_complete
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
_PENDING = """
SELECT w.id
  FROM metering_sealed_window w
  LEFT JOIN billing_accruedwindow a ON a.window_id = w.id
 WHERE a.window_id IS NULL OR NOT a.is_complete
 ORDER BY a.accrued_at NULLS FIRST, w.start_at, w.id
 LIMIT %(limit)s
"""
_HOURS = """
SELECT DISTINCT start_at FROM metering_sealed_window WHERE id = ANY(%(windows)s) ORDER BY start_at
"""
_EXTENTS = """
SELECT organization_id, min(window_start), max(window_start)
  FROM metering_sealed_usage
 WHERE window_id = ANY(%(windows)s) AND window_start = ANY(%(hours)s)
 GROUP BY organization_id
 ORDER BY organization_id
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

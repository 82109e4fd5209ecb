"""Gauges of billing, for operators' metrics."""

from django.db import connection


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

"""Gauges of billing, for operators' metrics."""

from django.db import connection


def count_unaccrued_windows() -> int:
    """Return how many sealed windows are not charged in full."""
    with connection.cursor() as cursor:
        cursor.execute(_UNACCRUED)
        return int(cursor.fetchone()[0])


_UNACCRUED = """
SELECT count(*)
  FROM metering_sealed_window w
  LEFT JOIN billing_accruedwindow a ON a.window_id = w.id
 WHERE a.window_id IS NULL OR NOT a.is_complete
"""

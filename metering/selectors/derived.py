"""What is still to be derived: windows with final device figures, or corrected since."""

from typing import Any

from django.db import connection

from metering.selectors.waste import JudgedWindow

_UNDERIVED = """
SELECT w.id, w.cluster_id, w.start_at
  FROM metering_meteringwindow w
 WHERE w.state = 'sealed'
   AND NOT EXISTS (SELECT FROM metering_clusterhealth h WHERE h.window_id = w.id)
   AND NOT EXISTS (SELECT FROM metering_devicewindow d
                    WHERE d.window_id = w.id AND d.state IN ('due', 'collecting'))
 ORDER BY w.start_at, w.id
 LIMIT %(limit)s
"""
# Corrections are only ever added, so that their number tells whether there are new ones.
_CORRECTED = """
SELECT w.id, w.cluster_id, w.start_at
  FROM (SELECT window_id, count(*) AS posted FROM metering_posted_correction GROUP BY 1) c
  JOIN metering_clusterhealth h USING (window_id)
  JOIN metering_meteringwindow w ON w.id = h.window_id
 WHERE h.corrections_seen <> c.posted
 ORDER BY w.start_at, w.id
 LIMIT %(limit)s
"""
_HAS_NEWS = """
SELECT h.corrections_seen <> (
         SELECT count(*) FROM metering_posted_correction c WHERE c.window_id = h.window_id)
  FROM metering_clusterhealth h WHERE h.window_id = %(window)s
"""
_IS_FIRST_OF_DAY = """
SELECT NOT EXISTS (
  SELECT FROM metering_clusterhealth
   WHERE cluster_id = %(cluster)s AND window_start >= %(day)s AND window_start < %(start)s)
"""
_IS_NEWEST = """
SELECT NOT EXISTS (
  SELECT FROM metering_clusterhealth
   WHERE cluster_id = %(cluster)s AND window_start > %(start)s)
"""


def underived_windows(*, limit: int) -> tuple[JudgedWindow, ...]:
    """Return windows from which nothing was derived yet, oldest first.

    Their usage is sealed and their device figures are final: sealed, or never to be known.
    """
    with connection.cursor() as cursor:
        cursor.execute(_UNDERIVED, {"limit": limit})
        return tuple(JudgedWindow(*row) for row in cursor.fetchall())


def corrected_windows(*, limit: int) -> tuple[JudgedWindow, ...]:
    """Return derived windows of which corrections were posted since, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_CORRECTED, {"limit": limit})
        return tuple(JudgedWindow(*row) for row in cursor.fetchall())


def has_news(window_id: int) -> bool:
    """Whether a derived window was corrected after its credits were looked at."""
    with connection.cursor() as cursor:
        cursor.execute(_HAS_NEWS, {"window": window_id})
        found = cursor.fetchone()
    return found is not None and bool(found[0])


def is_first_of_day(window: JudgedWindow) -> bool:
    """Whether nothing was derived from an earlier window of the cluster's UTC day."""
    given: dict[str, Any] = {
        "cluster": window.cluster_id,
        "start": window.start_at,
        "day": window.start_at.replace(hour=0, minute=0, second=0, microsecond=0),
    }
    with connection.cursor() as cursor:
        cursor.execute(_IS_FIRST_OF_DAY, given)
        return bool(cursor.fetchone()[0])


def is_newest(window: JudgedWindow) -> bool:
    """Whether nothing was derived from a later window of the cluster."""
    with connection.cursor() as cursor:
        cursor.execute(_IS_NEWEST, {"cluster": window.cluster_id, "start": window.start_at})
        return bool(cursor.fetchone()[0])

"""What is still to be derived: sealed windows without a health row, oldest first."""

from django.db import connection

from metering.selectors.waste import JudgedWindow

_UNDERIVED = """
SELECT w.id, w.cluster_id, w.start_at
  FROM metering_meteringwindow w
 WHERE w.state = 'sealed'
   AND NOT EXISTS (SELECT FROM metering_clusterhealth h WHERE h.window_id = w.id)
 ORDER BY w.start_at, w.id
 LIMIT %(limit)s
"""
_IS_NEWEST = """
SELECT NOT EXISTS (
  SELECT FROM metering_clusterhealth
   WHERE cluster_id = %(cluster)s AND window_start > %(start)s)
"""


def underived_windows(*, limit: int) -> tuple[JudgedWindow, ...]:
    """Return sealed windows from which nothing was derived yet, oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(_UNDERIVED, {"limit": limit})
        return tuple(JudgedWindow(*row) for row in cursor.fetchall())


def is_newest(window: JudgedWindow) -> bool:
    """Whether nothing was derived from a later window of the cluster."""
    with connection.cursor() as cursor:
        cursor.execute(_IS_NEWEST, {"cluster": window.cluster_id, "start": window.start_at})
        return bool(cursor.fetchone()[0])

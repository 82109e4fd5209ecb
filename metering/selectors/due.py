"""Due work: which windows only have to be reconciled and sealed."""

from django.db import connection

from metering.domain.exceptions import BLOCKING_KINDS

DUE_MAX = 500
"""Windows returned at once; the rest comes with the next call."""

_SETTLED = """
SELECT w.id FROM metering_meteringwindow w
 WHERE w.state IN ('collected', 'reconciled')
   AND (w.state = 'reconciled' OR NOT EXISTS (
     SELECT FROM metering_meteringexception e
      WHERE e.window_id = w.id AND e.state = 'open' AND e.kind = ANY(%(blocking)s)))
 ORDER BY w.start_at, w.cluster_id
 LIMIT %(limit)s
"""


def sealable_window_ids() -> list[int]:
    """Return windows that only have to be reconciled and sealed, oldest first."""
    blocking = sorted(kind.value for kind in BLOCKING_KINDS)
    with connection.cursor() as cursor:
        cursor.execute(_SETTLED, {"limit": DUE_MAX, "blocking": blocking})
        return [window_id for (window_id,) in cursor.fetchall()]

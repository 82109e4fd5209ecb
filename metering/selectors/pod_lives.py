"""Pod lives: how long pods of a project have run before, by the kind of what controls them."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection

LOOKBACK: Final = timedelta(days=90)
"""A quarter: what ran before that was other work."""
LIVES_MAX: Final = 500
"""The newest of each kind; percentiles of more differ by less than their own error."""

_LIVES: Final = """
SELECT project_id, kind, array_agg(seconds ORDER BY seconds)
  FROM (SELECT project_id, split_part(controller, '/', 1) AS kind,
               extract(epoch FROM end_at - begin_at)::bigint AS seconds,
               row_number() OVER (
                 PARTITION BY project_id, split_part(controller, '/', 1) ORDER BY end_at DESC
               ) AS newest
          FROM metering_podallocation
         WHERE project_id = ANY(%(projects)s) AND end_at >= %(since)s AND end_at < %(at)s) ended
 WHERE newest <= %(most)s
 GROUP BY 1, 2
"""


def pod_lives(
    project_ids: Collection[UUID], *, at: datetime
) -> dict[tuple[UUID, str], tuple[int, ...]]:
    """Return seconds that pods ran, shortest first, by project and kind; one statement.

    Kinds are such as "Job"; "" is a pod without a controller.
    """
    given: dict[str, Any] = {
        "projects": list(project_ids),
        "since": at - LOOKBACK,
        "at": at,
        "most": LIVES_MAX,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LIVES, given)
        return {(project, kind): tuple(seconds) for project, kind, seconds in cursor.fetchall()}

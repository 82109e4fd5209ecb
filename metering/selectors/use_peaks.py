"""Use peaks: how many units each project used in its busy hours, for quotas to compare with."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import connection

from metering.domain.gpu_sizes import GPUSize

# The hours without use count as 0: only the ranks above them are looked at.
_PEAKS: Final = """
WITH by_hour AS (
  SELECT project_id, size, window_start,
         ceil(sum(unit_seconds) / 3600) AS units
    FROM metering_usagerecord
   WHERE window_start >= %(begin)s AND window_start < %(end)s
   GROUP BY 1, 2, 3),
ranked AS (
  SELECT project_id, size, units,
         row_number() OVER (PARTITION BY project_id, size ORDER BY units DESC) AS rank
    FROM by_hour)
SELECT project_id, size, GREATEST(0, units)::bigint FROM ranked WHERE rank = %(rank)s
"""


def peak_units(*, before: datetime, hours: int, percent: int) -> dict[tuple[UUID, GPUSize], int]:
    """Return the units that each project and size used in all but its busiest hours; one statement.

    Units of an hour are its unit-seconds over 3,600, rounded up. A key that is not there peaked
    at 0: it was used in too few hours.

    Args:
        before: End of the time looked at, excluded.
        hours: How long it is.
        percent: The percentile, such as 95.
    """
    given: dict[str, datetime | int] = {
        "begin": before - timedelta(hours=hours),
        "end": before,
        "rank": hours - (hours * percent + 99) // 100 + 1,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PEAKS, given)
        return {(project, GPUSize(size)): int(units) for project, size, units in cursor.fetchall()}

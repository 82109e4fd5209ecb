"""Use peaks: how many units each project used in its busy hours, for quotas to compare with."""

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
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


_DAILY: Final = """
WITH by_hour AS (
  SELECT project_id, size, window_start, ceil(sum(unit_seconds) / 3600) AS units
    FROM metering_usagerecord
   WHERE window_start >= %(begin)s AND window_start < %(end)s AND project_id = ANY(%(projects)s)
     AND price_group NOT LIKE '%%/burst'
   GROUP BY 1, 2, 3)
SELECT project_id, size, (window_start AT TIME ZONE 'UTC')::date, GREATEST(0, max(units))::bigint
  FROM by_hour
 GROUP BY 1, 2, 3
"""


def daily_peaks(
    project_ids: Collection[UUID], *, begin: date, end: date
) -> dict[tuple[UUID, GPUSize], dict[date, int]]:
    """Return the most units used in an hour of each UTC day, by project and size; one statement.

    A day that is not there was a day without use.

    Args:
        project_ids: Whose use.
        begin: First day.
        end: The day after the last one.
    """
    given: dict[str, Any] = {
        "begin": datetime.combine(begin, time(), tzinfo=UTC),
        "end": datetime.combine(end, time(), tzinfo=UTC),
        "projects": list(project_ids),
    }
    peaks: dict[tuple[UUID, GPUSize], dict[date, int]] = {}
    with connection.cursor() as cursor:
        cursor.execute(_DAILY, given)
        for project_id, size, day, units in cursor.fetchall():
            peaks.setdefault((project_id, GPUSize(size)), {})[day] = int(units)
    return peaks

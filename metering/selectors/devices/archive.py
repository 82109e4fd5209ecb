"""A month of device rows as it is archived, and what still reads it."""

from datetime import datetime, timedelta
from typing import Final

from django.db import connection

from metering.selectors.collection.record_digest import DIGEST_OF_DEVICES, device_lines
from tenants.domain.archives import ArchivedFacts, ArchivedTable, ArchiveMonth, MonthTable

DEVICES: Final = MonthTable(
    name=ArchivedTable.DEVICES,
    app="metering",
    table="metering_devicefigure",
    key="id",
    sums="""jsonb_build_object(
      'energy_millijoules', coalesce(sum(r.energy_millijoules), 0)::text)""",
    guard="metering_guard_device_partition",
    relation="metering_devicefigure",
    facts=(
        ArchivedFacts("device_facts", "metering_devicefact", "device_id"),
        ArchivedFacts("device_holders", "metering_deviceholder", "holder_id"),
        ArchivedFacts("device_coverages", "metering_devicecoverage", "coverage_id"),
    ),
)
DEVICE_MONTHS: Final = """
SELECT DISTINCT date_trunc('month', window_start, 'UTC') AS begin_at
  FROM metering_devicewindow WHERE state = 'sealed' AND row_count > 0"""
"""SQL of the months that have sealed device figures."""

# An hour's waste is derived from the device rows of the hours before it, a week by default.
_UNFINISHED: Final = """
SELECT 'hours whose waste is not derived, of the month or of the days after', count(*)
  FROM metering_meteringwindow w LEFT JOIN metering_clusterhealth h ON h.window_id = w.id
 WHERE h.window_id IS NULL AND w.start_at >= %(begin)s
   AND w.start_at < %(until)s
 UNION ALL
SELECT 'days whose waste is derived from the month',
       ceil(extract(epoch FROM %(until)s - %(at)s::timestamptz) / 86400)::bigint
 WHERE %(at)s::timestamptz < %(until)s
"""
_OTHERWISE: Final = f"""
SELECT w.window_id, to_char(w.window_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24"Z"')
  FROM metering_devicewindow w
 CROSS JOIN LATERAL (
   SELECT count(*) AS rows, {DIGEST_OF_DEVICES} AS digest
     FROM ({device_lines("w.window_id", "w.window_start")}) lines) d
 WHERE w.state = 'sealed' AND w.row_digest <> ''
   AND w.window_start >= %(begin)s AND w.window_start < %(end)s
   AND (d.rows, d.digest) IS DISTINCT FROM (w.row_count::bigint, w.row_digest)
 ORDER BY w.window_id LIMIT 20
"""  # noqa: S608 - Constants.


def unfinished_waste(month: ArchiveMonth, *, hours: int, at: datetime) -> list[str]:
    """Return what still reads the device rows of a month, a phrase each; one statement.

    Args:
        month: A month in UTC.
        hours: How far the rules of waste look back.
        at: Now.
    """
    until = month.end_at + timedelta(hours=hours)
    with connection.cursor() as cursor:
        cursor.execute(_UNFINISHED, {"begin": month.begin_at, "until": until, "at": at})
        return [f"{count} {what}" for what, count in cursor.fetchall() if count]


def changed_device_windows(month: ArchiveMonth) -> list[str]:
    """Return the first hours of a month whose device figures have another digest than sealed."""
    with connection.cursor() as cursor:
        cursor.execute(_OTHERWISE, {"begin": month.begin_at, "end": month.end_at})
        return [f"the devices of window {window} of {hour}" for window, hour in cursor.fetchall()]

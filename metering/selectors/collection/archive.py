"""A month of usage as it is archived: what holds it up, its windows, and what they are held to."""

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from django.db import connection

from metering.selectors.collection.record_digest import DIGEST_OF_LINES, RECORD_LINE
from tenants.domain.archives import ArchivedTable, ArchiveMonth, MonthTable

USAGE: Final = MonthTable(
    name=ArchivedTable.USAGE,
    app="metering",
    table="metering_usagerecord",
    key="window_start, cluster_id, pod_uid, resource, revision, organization_id",
    sums="jsonb_build_object('unit_seconds', coalesce(sum(r.unit_seconds), 0)::text)",
    guard="metering_guard_partition",
    relation="metering_usage",
    restore="metering_restore_usage",
    left_out=("fact_id",),
)
USAGE_MONTHS: Final = """
SELECT DISTINCT date_trunc('month', start_at, 'UTC') AS begin_at
  FROM metering_meteringwindow WHERE state = 'sealed' AND record_count > 0"""
"""SQL of the months that have sealed usage."""

# An exception that holds usage can still release it, and a credit is derived from the usage it is
# for: without the rows none would be proposed, and accepted ones would be taken back. An earlier
# first hour of a cluster has hours that are not opened yet; as for billing, those with bindings
# count.
_UNFINISHED: Final = """
SELECT 'windows that are not sealed', count(*) FROM metering_meteringwindow
 WHERE state <> 'sealed' AND start_at >= %(begin)s AND start_at < %(end)s
 UNION ALL
SELECT 'hours that are metered and have no window yet', count(*)
  FROM tenants_cluster c
 CROSS JOIN LATERAL generate_series(
   greatest(date_trunc('hour', c.metered_from, 'UTC'), %(begin)s::timestamptz),
   least(c.metered_until, c.closed_at, %(end)s::timestamptz) - interval '1 microsecond',
   interval '1 hour') AS hour
 WHERE EXISTS (SELECT FROM tenants_namespacebinding b
                WHERE b.cluster_id = c.id AND b.valid @> hour)
   AND NOT EXISTS (SELECT FROM metering_meteringwindow w
                    WHERE w.cluster_id = c.id AND w.start_at = hour)
 UNION ALL
SELECT 'hours whose device figures are not sealed', count(*) FROM metering_devicewindow
 WHERE state NOT IN ('sealed', 'unavailable')
   AND window_start >= %(begin)s AND window_start < %(end)s
 UNION ALL
SELECT 'rechecks that are not done', count(*) FROM metering_windowrecheck
 WHERE state IN ('due', 'checking') AND window_start >= %(begin)s AND window_start < %(end)s
 UNION ALL
SELECT 'corrections that are not decided', count(*) FROM metering_usagecorrection
 WHERE state = 'proposed' AND window_start >= %(begin)s AND window_start < %(end)s
 UNION ALL
SELECT 'open exceptions that hold usage', count(*) FROM metering_meteringexception
 WHERE state = 'open' AND held_unit_seconds <> 0
   AND window_start >= %(begin)s AND window_start < %(end)s
 UNION ALL
SELECT 'credits that are not decided', count(*) FROM metering_creditproposal
 WHERE state = 'proposed' AND window_start >= %(begin)s AND window_start < %(end)s
 UNION ALL
SELECT 'hours whose credits are not derived', count(*)
  FROM metering_meteringwindow w LEFT JOIN metering_clusterhealth h ON h.window_id = w.id
 WHERE h.window_id IS NULL AND w.start_at >= %(begin)s AND w.start_at < %(end)s
 UNION ALL
SELECT 'hours that were corrected since their credits were derived', count(*)
  FROM metering_clusterhealth h
 WHERE h.window_start >= %(begin)s AND h.window_start < %(end)s
   AND h.corrections_seen <> (
         SELECT count(*) FROM metering_posted_correction c WHERE c.window_id = h.window_id)
"""
_WINDOWS: Final = """
COPY (SELECT w.id, c.slug AS cluster,
             to_char(w.start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS start_at,
             w.record_count, w.record_digest
        FROM metering_meteringwindow w JOIN tenants_cluster c ON c.id = w.cluster_id
       WHERE w.state = 'sealed' AND w.start_at >= %(begin)s AND w.start_at < %(end)s
       ORDER BY w.id) TO STDOUT (FORMAT csv, HEADER)
"""
_OTHERWISE: Final = f"""
SELECT w.id, to_char(w.start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24"Z"')
  FROM metering_meteringwindow w
  LEFT JOIN LATERAL (
    SELECT count(*) AS records, {DIGEST_OF_LINES} AS digest
      FROM (SELECT u.pod_uid, u.resource, u.revision, {RECORD_LINE} AS line
              FROM metering_usage u
             WHERE u.window_start = w.start_at AND u.window_id = w.id AND u.revision = 0) lines
    ) d ON true
 WHERE w.state = 'sealed' AND w.start_at >= %(begin)s AND w.start_at < %(end)s
   AND (d.records, d.digest) IS DISTINCT FROM (w.record_count::bigint, w.record_digest)
 ORDER BY w.id LIMIT 20
"""  # noqa: S608 - Constants.


def unfinished_usage(month: ArchiveMonth) -> list[str]:
    """Return what could still change the usage of a month, a phrase each; one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_UNFINISHED, _hours(month))
        return [f"{count} {what}" for what, count in cursor.fetchall() if count]


def window_lines(month: ArchiveMonth) -> Iterator[bytes]:
    """Yield the sealed windows of a month with their digests as CSV."""
    with connection.cursor() as cursor, cursor.copy(_WINDOWS, _hours(month)) as copy:
        yield from map(bytes, copy)


def windows_digest(month: ArchiveMonth) -> str:
    """Return the SHA-256 of `window_lines`."""
    digest = hashlib.sha256()
    for line in window_lines(month):
        digest.update(line)
    return digest.hexdigest()


def changed_windows(month: ArchiveMonth) -> list[str]:
    """Return the first windows of a month whose records have another digest than was sealed."""
    with connection.cursor() as cursor:
        cursor.execute(_OTHERWISE, _hours(month))
        return [f"window {window_id} of {hour}" for window_id, hour in cursor.fetchall()]


def _hours(month: ArchiveMonth) -> dict[str, datetime]:
    return {"begin": month.begin_at, "end": month.end_at}

"""Checks of what metering froze: records of sealed windows, and posted corrections."""

from typing import Final

from django.db import connection

from metering.domain.correction import digest_of_lines
from metering.models import UsageCorrection
from metering.selectors.record_digest import (
    DIGEST_OF_DEVICES,
    DIGEST_OF_LINES,
    RECORD_LINE,
    device_lines,
)
from tenants.domain.verification import Batch, Cursor

RECORDS_PER_BATCH: Final = 20_000
"""A second of the database's time."""
WINDOWS_PER_BATCH: Final = 500
"""Where hours have few records or none."""
DEVICE_WINDOWS_PER_BATCH: Final = 10
"""Some thousands of devices an hour."""
CORRECTIONS_PER_BATCH: Final = 500

_PAGE: Final = """
SELECT id, window_start FROM (
  SELECT id, start_at AS window_start, sum(record_count) OVER (ORDER BY id) - record_count AS before
    FROM (SELECT id, start_at, record_count FROM metering_meteringwindow
           WHERE state = 'sealed' AND id > %s ORDER BY id LIMIT %s) page) counted
 WHERE before < %s ORDER BY id
"""
# The digest in the audit entry of the seal is compared too: to change records unseen, one would
# have to change window, entry and leaf alike.
_WINDOWS: Final = f"""
SELECT w.id, w.start_at, d.records, w.record_count, d.digest, w.record_digest, a.digest,
       coalesce(k.billed = used.unit_seconds, true)
  FROM metering_meteringwindow w
  LEFT JOIN LATERAL (
    SELECT facts ->> 'digest' AS digest FROM tenants_auditentry
     WHERE object_kind = 'metering_window' AND object_id = w.id::text
       AND action = 'metering:window:seal' ORDER BY id LIMIT 1) a ON true
  LEFT JOIN LATERAL (
    SELECT count(*) AS records, {DIGEST_OF_LINES} AS digest
      FROM (SELECT u.pod_uid, u.resource, u.revision, {RECORD_LINE} AS line
              FROM metering_usagerecord u
             WHERE u.window_start = w.start_at AND u.window_id = w.id AND u.revision = 0) lines
    ) d ON true
  LEFT JOIN LATERAL (
    SELECT sum(c.billed_unit_seconds) AS billed FROM metering_capacityrecord c
     WHERE c.window_id = w.id) k ON true
  LEFT JOIN LATERAL (
    SELECT coalesce(sum(u.unit_seconds), 0) AS unit_seconds FROM metering_usagerecord u
     WHERE u.window_start = w.start_at AND u.window_id = w.id) used ON true
 WHERE w.id = ANY(%s) ORDER BY w.id
"""  # noqa: S608 - Constants.
_DEVICES: Final = f"""
SELECT w.window_id, w.row_count, w.row_digest, d.rows, d.digest
  FROM (SELECT * FROM metering_devicewindow WHERE state = 'sealed' AND window_id > %s
         ORDER BY window_id LIMIT %s) w
 CROSS JOIN LATERAL (
   SELECT count(*) AS rows, {DIGEST_OF_DEVICES} AS digest
     FROM ({device_lines("w.window_id")}) lines) d
 ORDER BY w.window_id
"""  # noqa: S608 - Constants.
_CORRECTED: Final = """
SELECT c.id FROM metering_usagecorrection c
  LEFT JOIN LATERAL (
    SELECT count(*) AS records, sum(u.unit_seconds) AS unit_seconds FROM metering_usagerecord u
     WHERE u.correction_id = c.id AND u.window_start = c.window_start) w ON true
 WHERE c.id = ANY(%s) AND (w.records, w.unit_seconds)
       IS DISTINCT FROM (c.record_count::bigint, c.unit_seconds::numeric)
"""


def check_sealed_windows(cursor: Cursor) -> Batch:
    """Recompute the digests of sealed windows from their records."""
    with connection.cursor() as database:
        database.execute(_PAGE, [cursor.get("id", 0), WINDOWS_PER_BATCH, RECORDS_PER_BATCH])
        ids = [window_id for window_id, _ in database.fetchall()]
        if not ids:
            return Batch(0)
        database.execute(_WINDOWS, [ids])
        rows = database.fetchall()
    found = []
    for window_id, start_at, records, kept, digest, sealed, audited, is_balanced in rows:
        name = f"The window {window_id} of {start_at:%Y-%m-%dT%HZ}"
        if (records, digest) != (kept, sealed):
            found.append(f"{name} has {records} records, and not the {kept} that were sealed.")
        if sealed != audited:
            found.append(f"{name} has another digest than the audit entry of its seal.")
        if not is_balanced:
            found.append(f"{name} has other capacity billed than its records hold.")
    return Batch(sum(row[2] for row in rows), tuple(found), {"id": ids[-1]})


def check_device_windows(cursor: Cursor) -> Batch:
    """Recompute the digests of sealed device figures."""
    with connection.cursor() as database:
        database.execute(_DEVICES, [cursor.get("id", 0), DEVICE_WINDOWS_PER_BATCH])
        rows = database.fetchall()
    found = tuple(
        f"The {there} device figures of window {window_id} are not the {kept} that were sealed."
        for window_id, kept, sealed, there, digest in rows
        if (kept, sealed) != (there, digest)
    )
    cursor_after = {"id": rows[-1][0]} if rows else None
    return Batch(sum(row[3] for row in rows), found, cursor_after)


def check_corrections(cursor: Cursor) -> Batch:
    """Recompute the digests of corrections, and compare the posted ones with their records."""
    rows = UsageCorrection.objects.order_by("id")
    if cursor:
        rows = rows.filter(id__gt=cursor["id"])
    page = list(rows.only("id", "lines", "digest", "state")[:CORRECTIONS_PER_BATCH])
    if not page:
        return Batch(0)
    with connection.cursor() as database:
        database.execute(_CORRECTED, [[row.pk for row in page if row.state == "posted"]])
        written_otherwise = [row_id for (row_id,) in database.fetchall()]
    found = [
        f"The correction {row.pk} has other lines than were asked for."
        for row in page
        if digest_of_lines(row.lines) != row.digest
    ]
    found += [f"The correction {row_id} has other records." for row_id in written_otherwise]
    return Batch(len(page), tuple(found), {"id": str(page[-1].pk)})

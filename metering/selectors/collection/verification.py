"""Checks of what metering froze: records of sealed windows, corrections and accepted credits."""

from collections.abc import Sequence
from functools import partial
from typing import Final
from uuid import UUID

from django.db import DataError, connection, transaction

from metering.domain.corrections.correction import digest_of_lines
from metering.models import UsageCorrection
from metering.selectors.collection.record_digest import (
    DIGEST_OF_CAPACITY,
    DIGEST_OF_DEVICES,
    DIGEST_OF_LINES,
    RECORD_LINE,
    device_lines,
)
from metering.selectors.corrections.ledger import LINE_TYPES
from tenants.domain.archives import ArchivedTable
from tenants.domain.verification import CheckedBatch, Cursor, differences_of
from tenants.selectors.archives import archived_hour
from tenants.selectors.verification import check_frozen_by_entries

RECORDS_PER_BATCH: Final = 20_000
"""A second of the database's time."""
WINDOWS_PER_BATCH: Final = 500
"""Where hours have few records or none."""
DEVICE_WINDOWS_PER_BATCH: Final = 10
"""Some thousands of devices an hour."""
CORRECTIONS_PER_BATCH: Final = 500

_PAGE: Final = """
SELECT id FROM (
  SELECT id, sum(record_count) OVER (ORDER BY id) - record_count AS before
    FROM (SELECT id, record_count FROM metering_meteringwindow
           WHERE state = 'sealed' AND id > %s ORDER BY id LIMIT %s) page) counted
 WHERE before < %s ORDER BY id
"""
# The digest in the audit entry of the seal is compared too: to change records unseen, one would
# have to change window, entry and leaf alike. Capacity is that of the last entry about it, of the
# seal or of a posted correction.
_WINDOWS: Final = f"""
SELECT w.id, to_char(w.start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24"Z"'), d.records,
       w.record_count, d.digest, w.record_digest, a.digest,
       coalesce(k.billed = used.unit_seconds, true), used.is_corrected,
       last.id IS NULL OR coalesce(last.digest = k.digest, false),
       {archived_hour(ArchivedTable.USAGE, "w.start_at")}
  FROM metering_meteringwindow w
  LEFT JOIN LATERAL (
    SELECT facts ->> 'digest' AS digest FROM tenants_auditentry
     WHERE object_kind = 'metering_window' AND object_id = w.id::text
       AND action = 'metering:window:seal' ORDER BY id LIMIT 1) a ON true
  LEFT JOIN LATERAL (
    SELECT count(*) AS records, {DIGEST_OF_LINES} AS digest
      FROM (SELECT u.pod_uid, u.resource, u.revision, {RECORD_LINE} AS line
              FROM metering_usage u
             WHERE u.window_start = w.start_at AND u.window_id = w.id AND u.revision = 0) lines
    ) d ON true
  LEFT JOIN LATERAL (
    SELECT sum(k.billed_unit_seconds) AS billed, {DIGEST_OF_CAPACITY} AS digest
      FROM metering_capacityrecord k WHERE k.window_id = w.id) k ON true
  LEFT JOIN LATERAL (
    SELECT id, facts ->> 'capacity_digest' AS digest FROM (
      SELECT id, facts FROM tenants_auditentry
       WHERE object_kind = 'metering_window' AND object_id = w.id::text
         AND action IN ('metering:window:seal', 'metering:window:recheck')
       UNION ALL
      SELECT e.id, e.facts FROM metering_usagecorrection c
        JOIN tenants_auditentry e
          ON e.object_kind = 'usage_correction' AND e.object_id = c.id::text
         AND e.action = 'metering:correction:post'
       WHERE c.window_id = w.id) said
     WHERE facts ? 'capacity_digest' ORDER BY id DESC LIMIT 1) last ON true
  LEFT JOIN LATERAL (
    SELECT coalesce(sum(u.unit_seconds), 0) AS unit_seconds,
           coalesce(bool_and(u.revision = 0 OR c.id IS NOT NULL), true) AS is_corrected
      FROM metering_usage u
      LEFT JOIN metering_usagecorrection c
        ON c.id = u.correction_id AND c.window_id = u.window_id AND c.state = 'posted'
     WHERE u.window_start = w.start_at AND u.window_id = w.id) used ON true
 WHERE w.id = ANY(%s) ORDER BY w.id
"""  # noqa: S608 - Constants.
_DEVICES: Final = f"""
SELECT w.window_id, w.row_count, w.row_digest, d.rows, d.digest, d.device_rows,
       {archived_hour(ArchivedTable.DEVICES, "w.window_start")}
  FROM (SELECT * FROM metering_devicewindow WHERE state = 'sealed' AND window_id > %s
         ORDER BY window_id LIMIT %s) w
 CROSS JOIN LATERAL (
   SELECT count(*) AS rows, {DIGEST_OF_DEVICES} AS digest,
          count(*) FILTER (WHERE starts_with(line, '["device"')) AS device_rows
     FROM ({device_lines("w.window_id", "w.window_start")}) lines) d
 ORDER BY w.window_id
"""  # noqa: S608 - Constants.
_COLUMNS: Final = ", ".join(LINE_TYPES)
_TYPES: Final = ", ".join(f"{name} {kind}" for name, kind in LINE_TYPES.items())
_CORRECTED: Final = f"""
SELECT c.id FROM metering_usagecorrection c
  LEFT JOIN LATERAL (
    SELECT array_agg(l::text ORDER BY l::text) AS lines, count(*) AS records,
           sum(l.unit_seconds) AS unit_seconds,
           bool_and((l.organization_id, l.project_id) = (c.organization_id, c.project_id)) AS is_own
      FROM (SELECT {_COLUMNS} FROM jsonb_to_recordset(c.lines) AS l({_TYPES})) l) asked ON true
  LEFT JOIN LATERAL (
    SELECT array_agg(u::text ORDER BY u::text) AS lines
      FROM (SELECT {_COLUMNS} FROM metering_usage r
             WHERE (r.correction_id, r.window_start, r.window_id, r.cluster_id)
                   = (c.id, c.window_start, c.window_id, c.cluster_id)) u) there ON true
 WHERE c.id = ANY(%s) AND NOT {archived_hour(ArchivedTable.USAGE, "c.window_start")}
   AND (asked.records, asked.unit_seconds, asked.is_own, asked.lines)
       IS DISTINCT FROM (c.record_count::bigint, c.unit_seconds::numeric, true, there.lines)
"""  # noqa: S608 - Constants.
_IS_SEALED: Final = """EXISTS (
  SELECT FROM metering_meteringwindow w
   WHERE w.id = CASE WHEN e.object_id ~ '^[0-9]{1,18}$' THEN e.object_id::bigint END
     AND w.state = 'sealed' AND w.record_digest = e.facts ->> 'digest')"""
# A recheck has one entry for all that it corrected.
_POSTED_BY: Final = """jsonb_array_elements(CASE
         WHEN e.action = 'metering:correction:post'
           THEN jsonb_build_array(e.facts || '{"state": "posted"}')
         WHEN jsonb_typeof(e.facts -> 'corrections') = 'array' THEN e.facts -> 'corrections'
         ELSE '[]' END)"""
_IS_POSTED: Final = f"""NOT EXISTS (
  SELECT FROM {_POSTED_BY} AS said(fact)
   WHERE said.fact ->> 'state' = 'posted' AND NOT EXISTS (
     SELECT FROM metering_usagecorrection c
      WHERE c.id = CASE WHEN said.fact ->> 'correction'
                             ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$'
                        THEN (said.fact ->> 'correction')::uuid END
        AND c.state = 'posted' AND c.digest = said.fact ->> 'digest'))"""  # noqa: S608 - Constants.
_UNAUDITED: Final = f"""
SELECT c.id FROM metering_usagecorrection c
 WHERE c.id = ANY(%s) AND (NOT EXISTS (
   SELECT FROM tenants_auditentry e CROSS JOIN LATERAL {_POSTED_BY} AS said(fact)
    WHERE (e.object_kind, e.object_id, e.action) IN (
            ('usage_correction', c.id::text, 'metering:correction:post'),
            ('metering_window', c.window_id::text, 'metering:window:recheck'))
      AND (e.actor_label, e.actor_id) = (c.decided_by, c.decided_by_id)
      AND said.fact @> jsonb_build_object(
            'correction', c.id::text, 'digest', c.digest, 'state', 'posted'))
   OR NOT EXISTS (
   SELECT FROM tenants_auditentry e
    WHERE (e.actor_label, e.actor_id) = (c.requested_by, c.requested_by_id)
      AND (e.object_kind, e.object_id, e.action) IN (
            ('usage_correction', c.id::text, 'metering:correction:ask'),
            ('usage_correction', c.id::text, 'metering:correction:post'),
            ('metering_window', c.window_id::text, 'metering:window:recheck'))))
"""  # noqa: S608 - Constants.


# Entries of credits that were accepted before billing put them on documents have fewer facts.
_IS_ACCEPTED: Final = """EXISTS (
  SELECT FROM metering_creditproposal r
   WHERE r.state = 'accepted'
     AND r.id = CASE WHEN e.object_id ~ '^[0-9]{1,18}$' THEN e.object_id::bigint END)"""
_CREDITS: Final = """
SELECT r.id, coalesce(e.organization_id = r.organization_id AND NOT EXISTS (
         SELECT FROM jsonb_each(jsonb_build_object(
                  'unit_seconds', r.unit_seconds, 'project', r.project_id::text, 'size', r.size,
                  'price_group', r.price_group, 'is_credited_by_hand', r.is_credited_by_hand,
                  'hour', to_char(r.window_start AT TIME ZONE 'UTC',
                                  'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'))) kept
          WHERE e.facts ? kept.key AND e.facts -> kept.key <> kept.value), false)
  FROM metering_creditproposal r
  LEFT JOIN LATERAL (
    SELECT organization_id, facts FROM tenants_auditentry
     WHERE (object_kind, object_id, action)
           = ('credit_proposal', r.id::text, 'metering:credit:accept')
     ORDER BY id LIMIT 1) e ON true
 WHERE r.state = 'accepted'
 ORDER BY r.id
"""

# Until a correction has been looked at, a credit does not know of it yet.
_RETRACTED: Final = f"""
SELECT q.id
  FROM metering_creditproposal q
  JOIN metering_clusterhealth h ON h.window_id = q.window_id
   AND h.corrections_seen = (
         SELECT count(*) FROM metering_posted_correction c WHERE c.window_id = q.window_id)
 CROSS JOIN LATERAL (
   SELECT coalesce(sum(r.unit_seconds), 0) AS unit_seconds
     FROM metering_usage r
    WHERE (r.window_id, r.window_start, r.pod_uid, r.resource)
          = (q.window_id, q.window_start, q.pod_uid, q.resource)) net
 WHERE q.state = 'accepted' AND NOT {archived_hour(ArchivedTable.USAGE, "q.window_start")}
   AND q.retracted_unit_seconds <> q.unit_seconds - least(q.unit_seconds, net.unit_seconds)
 ORDER BY q.id
"""  # noqa: S608 - Constants.


def check_seals(cursor: Cursor) -> CheckedBatch:
    """Compare every seal of the audit trail with its window: there, sealed, of the same digest."""
    return check_frozen_by_entries(
        cursor,
        actions=["metering:window:seal"],
        is_kept=_IS_SEALED,
        sentence="The window {} was sealed by the audit trail, and is not, or is another.",
    )


def check_postings(cursor: Cursor) -> CheckedBatch:
    """Compare every posting of the audit trail with its correction: there, posted, the same."""
    return check_frozen_by_entries(
        cursor,
        actions=["metering:correction:post", "metering:window:recheck"],
        is_kept=_IS_POSTED,
        sentence="A correction of {} was posted by the audit trail, and is not, or is another.",
    )


def check_sealed_windows(cursor: Cursor) -> CheckedBatch:
    """Recompute the digests of sealed windows from their records, where these are not archived."""
    with connection.cursor() as database:
        database.execute(_PAGE, [cursor.get("id", 0), WINDOWS_PER_BATCH, RECORDS_PER_BATCH])
        ids = [window_id for (window_id,) in database.fetchall()]
        if not ids:
            return CheckedBatch(0)
        database.execute(_WINDOWS, [ids])
        rows = database.fetchall()
    found = []
    for window_id, hour, records, kept, digest, sealed, audited, *facts in rows:
        is_balanced, is_corrected, is_capacity_kept, is_archived = facts
        name = f"The window {window_id} of {hour}"
        if (records, digest) != (kept, sealed) and not is_archived:
            found.append(f"{name} has {records} records, and not the {kept} that were sealed.")
        if sealed != audited:
            found.append(f"{name} has another digest than the audit entry of its seal.")
        if not is_balanced and not is_archived:
            found.append(f"{name} has other capacity billed than its records hold.")
        if not is_corrected:
            found.append(f"{name} has records of no posted correction.")
        if not is_capacity_kept:
            found.append(f"{name} has other capacity than the last audit entry about it.")
    return CheckedBatch(sum(row[2] for row in rows), tuple(found), {"id": ids[-1]})


def check_device_windows(cursor: Cursor) -> CheckedBatch:
    """Recompute the digests of sealed device figures, where these are not archived.

    Those that were copied from the first version have no digest; of them the devices are counted.
    """
    with connection.cursor() as database:
        database.execute(_DEVICES, [cursor.get("id", 0), DEVICE_WINDOWS_PER_BATCH])
        rows = database.fetchall()
    found = tuple(
        f"The {there} device figures of window {window_id} are not the {kept} that were sealed."
        for window_id, kept, sealed, there, digest, device_rows, is_archived in rows
        if not is_archived and (kept, sealed) not in {(there, digest), (device_rows, "")}
    )
    cursor_after = {"id": rows[-1][0]} if rows else None
    return CheckedBatch(sum(row[3] for row in rows), found, cursor_after)


def check_credits(cursor: Cursor) -> CheckedBatch:
    """Compare accepted credits with the audit entries of their acceptance, and back.

    What corrections took back of their usage is compared with the records.
    """
    batch = check_frozen_by_entries(
        cursor,
        actions=["metering:credit:accept"],
        is_kept=_IS_ACCEPTED,
        sentence="The credit {} was accepted by the audit trail, and is not.",
    )
    if not batch.is_last:
        return batch
    with connection.cursor() as database:
        database.execute(_CREDITS)
        rows = database.fetchall()
        database.execute(_RETRACTED)
        otherwise = {row_id for (row_id,) in database.fetchall()}
    found = [
        f"The credit {row_id} is not what was accepted by the audit trail."
        if not is_same
        else f"The credit {row_id} has more or less usage taken back than its records."
        for row_id, is_same in rows
        if not is_same or row_id in otherwise
    ]
    return CheckedBatch(len(rows), tuple(found))


def check_corrections(cursor: Cursor) -> CheckedBatch:
    """Recompute the digests of corrections, and compare the posted ones with their records."""
    rows = UsageCorrection.objects.order_by("id")
    if cursor:
        rows = rows.filter(id__gt=cursor["id"])
    page = list(rows.only("id", "lines", "digest", "state")[:CORRECTIONS_PER_BATCH])
    if not page:
        return CheckedBatch(0)
    posted = [row.pk for row in page if row.state == "posted"]
    found = [
        sentence
        for row in page
        for sentence in differences_of(f"The correction {row.pk}", partial(_line_differences, row))
    ]
    found += [f"The correction {row_id} has other records." for row_id in _otherwise(posted)]
    with connection.cursor() as database:
        database.execute(_UNAUDITED, [posted])
        unaudited = database.fetchall()
    found += [
        f"The correction {row_id} is posted without audit entries of its asker and decider."
        for (row_id,) in unaudited
    ]
    return CheckedBatch(len(page), tuple(found), {"id": str(page[-1].pk)})


def _line_differences(row: UsageCorrection) -> list[str]:
    is_same = digest_of_lines(row.lines) == row.digest
    return [] if is_same else ["has other lines than were asked for"]


def _otherwise(correction_ids: Sequence[UUID]) -> list[UUID]:
    """Return those whose records are not their lines; lines that are none hide no others."""
    try:
        with transaction.atomic(), connection.cursor() as database:
            database.execute(_CORRECTED, [list(correction_ids)])
            return [row_id for (row_id,) in database.fetchall()]
    except DataError:
        half = len(correction_ids) // 2
        if not half:
            return list(correction_ids)
        return _otherwise(correction_ids[:half]) + _otherwise(correction_ids[half:])

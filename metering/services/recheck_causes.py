"""Causes of rechecks: the one statement that finds every sealed window to be looked at again."""

from typing import Final

# A window that was collected after a moment has seen what a recheck at that moment would see. Of
# several that are due at once only the latest is made.
MAKE: Final = """
WITH sealed AS NOT MATERIALIZED (
  SELECT w.id, w.cluster_id, w.start_at, w.collected_at, w.catalogue_version
    FROM metering_meteringwindow w
   WHERE w.state = 'sealed' AND w.gap_policy <> 'waive' AND w.start_at > %(oldest)s
     AND w.collected_at IS NOT NULL
),
timed AS (
  SELECT DISTINCT ON (w.id) w.id, 'scheduled' AS reason, s.after::text AS key, s.after,
         w.start_at + interval '1 hour' + make_interval(secs => s.after) AS not_before
    FROM sealed w CROSS JOIN unnest(%(seconds)s::integer[]) AS s(after)
   WHERE w.start_at > %(scheduled_from)s
     AND w.start_at + interval '1 hour' + make_interval(secs => s.after)
         <= LEAST(%(at)s, clock_timestamp())
     AND w.start_at + interval '1 hour' + make_interval(secs => s.after) > w.collected_at
     AND NOT EXISTS (
       SELECT FROM metering_windowrecheck r
        WHERE r.window_id = w.id AND r.reason = 'scheduled' AND r.after_seconds >= s.after)
   ORDER BY w.id, s.after DESC
),
bound AS (
  SELECT DISTINCT w.id, 'binding', b.id::text, NULL::integer, %(at)s::timestamptz
    FROM sealed w
    JOIN metering_meteringexception e
      ON e.window_id = w.id AND e.state = 'open' AND e.kind = 'unbound_namespace'
    JOIN tenants_namespacebinding b
      ON b.cluster_id = e.cluster_id AND b.namespace = e.namespace AND b.valid @> e.window_start
),
catalogued AS (
  SELECT DISTINCT w.id, 'catalogue', v.version::text, NULL::integer, %(at)s::timestamptz
    FROM sealed w
    JOIN metering_meteringexception e
      ON e.window_id = w.id AND e.state = 'open' AND e.kind IN ('unknown_device', 'unknown_node')
   CROSS JOIN (SELECT max(version) AS version FROM metering_catalogueversion) v
   WHERE w.catalogue_version < v.version
),
watched AS (
  SELECT w.id, 'watch', s.id::text, NULL::integer, %(at)s::timestamptz
    FROM sealed w
    JOIN metering_meteringexception e
      ON e.window_id = w.id AND e.kind = 'single_source' AND e.details ? %(missed_claims)s
   CROSS JOIN LATERAL (
     SELECT s.id FROM metering_watchspan s
      WHERE s.cluster_id = w.cluster_id AND s.begin_at > w.collected_at
      ORDER BY s.begin_at LIMIT 1) s
),
wanted(id, reason, key, after, not_before) AS (
  SELECT * FROM timed UNION ALL SELECT * FROM bound UNION ALL SELECT * FROM catalogued
   UNION ALL SELECT * FROM watched
)
INSERT INTO metering_windowrecheck (window_id, cluster_id, window_start, reason, key, after_seconds,
  note, asked_by, created_at, state, not_before)
SELECT w.id, w.cluster_id, w.start_at, n.reason, n.key, n.after, '', %(asked_by)s, %(at)s, 'due',
       n.not_before
  FROM wanted n JOIN sealed w USING (id)
 WHERE NOT EXISTS (
   SELECT FROM metering_windowrecheck r
    WHERE (r.window_id, r.reason, r.key) = (n.id, n.reason, n.key))
 ORDER BY n.not_before, w.id
 LIMIT %(limit)s
ON CONFLICT (window_id, reason, key) DO NOTHING
"""

"""Cluster health: one row per sealed window, added up by the database in one statement."""

from datetime import datetime
from typing import Final

from django.db import connection

MEMORY_XIDS: Final = ("48", "63", "64", "94", "95", "140")
"""XIDs that tell of memory: double-bit errors, remapping, contained and uncontained errors."""

# With a watch, nodes are counted Ready by what the API said of them. Without one, all that is known
# is for how long each was seen to offer its GPUs.
_INSERT = """
WITH w AS (
  SELECT id, cluster_id, start_at, start_at + interval '1 hour' AS end_at
    FROM metering_meteringwindow WHERE id = %(window)s AND state = 'sealed'),
told AS (
  SELECT count(DISTINCT n.node) AS nodes,
         sum(extract(epoch FROM LEAST(n.end_at, w.end_at) - GREATEST(n.begin_at, w.start_at)))
           AS expected,
         COALESCE(sum(extract(epoch FROM LEAST(n.end_at, w.end_at)
           - GREATEST(n.begin_at, w.start_at))) FILTER (WHERE n.is_ready), 0) AS ready
    FROM w JOIN metering_noderecord n ON n.cluster_id = w.cluster_id AND n.begin_at < w.end_at
      AND (n.end_at IS NULL OR n.end_at > w.start_at)),
offered AS (
  SELECT count(*) AS nodes, 3600 * count(*) AS expected, sum(seconds) AS ready
    FROM (SELECT c.node, max(c.capacity_unit_seconds / c.allocatable_units) AS seconds
            FROM w JOIN metering_capacityrecord c ON c.window_id = w.id
           WHERE c.allocatable_units > 0 GROUP BY c.node) by_node),
queue AS (
  SELECT count(*) AS queued,
         count(*) FILTER (WHERE COALESCE(q.bound_at, q.gone_at) IS NULL
           OR COALESCE(q.bound_at, q.gone_at) >= w.end_at) AS pending,
         percentile_disc(0.5) WITHIN GROUP (ORDER BY floor(extract(epoch FROM
           LEAST(COALESCE(q.bound_at, q.gone_at), w.end_at) - q.created_at))) AS p50,
         max(floor(extract(epoch FROM
           LEAST(COALESCE(q.bound_at, q.gone_at), w.end_at) - q.created_at))) AS longest
    FROM w JOIN metering_queuedpod q ON q.cluster_id = w.cluster_id AND q.created_at < w.end_at
      AND COALESCE(q.bound_at, q.gone_at, 'infinity') > w.start_at),
errors AS (
  SELECT count(*) FILTER (WHERE e.kind IN ('ecc', 'row_remap')
           OR (e.kind = 'xid' AND e.code = ANY(%(memory_xids)s))) AS memory,
         count(*) FILTER (WHERE e.severity = 'fail') AS failures
    FROM w JOIN metering_deviceevent e ON e.cluster_id = w.cluster_id
      AND e.begin_at >= w.start_at AND e.begin_at < w.end_at),
measured AS (
  SELECT count(DISTINCT d.uuid) AS devices
    FROM w JOIN metering_deviceusage d ON d.window_id = w.id)
INSERT INTO metering_clusterhealth (window_id, window_start, cluster_id, nodes, expected_seconds,
  ready_seconds, node_source, queued_pods, pending_pods, wait_seconds_p50, wait_seconds_max,
  memory_errors, failures, devices, corrections_seen, created_at)
SELECT w.id, w.start_at, w.cluster_id,
       CASE WHEN told.nodes > 0 THEN told.nodes ELSE offered.nodes END,
       CASE WHEN told.nodes > 0 THEN told.expected ELSE NULLIF(offered.expected, 0) END,
       CASE WHEN told.nodes > 0 THEN told.ready ELSE offered.ready END,
       CASE WHEN told.nodes > 0 THEN 'kubernetes' WHEN offered.nodes > 0 THEN 'prometheus'
            ELSE '' END,
       CASE WHEN watched.is_so THEN queue.queued END,
       CASE WHEN watched.is_so THEN queue.pending END,
       CASE WHEN watched.is_so THEN queue.p50 END,
       CASE WHEN watched.is_so THEN queue.longest END,
       errors.memory, errors.failures, measured.devices,
       (SELECT count(*) FROM w JOIN metering_posted_correction c ON c.window_id = w.id), %(at)s
  FROM w, told, offered, queue, errors, measured,
       (SELECT EXISTS (SELECT FROM w JOIN metering_clusterwatch c USING (cluster_id)) AS is_so)
         AS watched
ON CONFLICT (window_id) DO NOTHING
"""
_SEE_CORRECTIONS = """
UPDATE metering_clusterhealth h
   SET corrections_seen = c.posted
  FROM (SELECT count(*) AS posted FROM metering_posted_correction
         WHERE window_id = %(window)s) c
 WHERE h.window_id = %(window)s AND h.corrections_seen <> c.posted
"""


def write_cluster_health(*, window_id: int, at: datetime) -> bool:
    """Write the health of a sealed window; return False when it is there, or not sealed."""
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, {"window": window_id, "memory_xids": list(MEMORY_XIDS), "at": at})
        return int(cursor.rowcount) == 1


def see_corrections(*, window_id: int) -> bool:
    """Take note of a derived window's corrections; return False when there are no new ones."""
    with connection.cursor() as cursor:
        cursor.execute(_SEE_CORRECTIONS, {"window": window_id})
        return int(cursor.rowcount) == 1

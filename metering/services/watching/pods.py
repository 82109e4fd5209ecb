"""Pods: sights of a stage written into the queue and the allocation ledger, in a few statements.

A bind is snapshotted once: whatever a later sight tells of labels or priorities, the row stays. An
end is only ever replaced by better evidence; see `ends`.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from metering.domain.catalogue import Catalogue
from metering.domain.pod_life import CLAIM_PREFIX
from metering.services.watching.ends import end_told
from metering.services.watching.ledgered import Changed
from metering.services.watching.sizing import SIZES, burst_classes, group_sql, labelled, sizes_json

_QUEUE = """
INSERT INTO metering_queuedpod AS q (cluster_id, pod_uid, namespace, pod_name, requests,
  priority_class, owner, created_at, bound_at, deletion_at, gone_at, reason,
  defects)
SELECT %(cluster_id)s, uid, namespace, name, requests, priority_class, left(owner, 150), created_at,
       bound_at, deletion_at, COALESCE(finished_at, gone_at), left(reason, 128),
       defects
  FROM watch_sight
ON CONFLICT (cluster_id, pod_uid) DO UPDATE
   SET bound_at = COALESCE(q.bound_at, EXCLUDED.bound_at),
       deletion_at = COALESCE(q.deletion_at, EXCLUDED.deletion_at),
       defects = CASE WHEN EXCLUDED.defects = '[]' THEN q.defects ELSE EXCLUDED.defects END,
       reason = COALESCE(NULLIF(EXCLUDED.reason, ''), q.reason),
       gone_at = LEAST(q.gone_at, EXCLUDED.gone_at)
 WHERE (q.bound_at IS NULL AND EXCLUDED.bound_at IS NOT NULL)
    OR (q.deletion_at IS NULL AND EXCLUDED.deletion_at IS NOT NULL)
    OR (EXCLUDED.reason NOT IN ('', q.reason))
    OR (EXCLUDED.defects <> '[]' AND EXCLUDED.defects <> q.defects)
    OR (EXCLUDED.gone_at < COALESCE(q.gone_at, 'infinity'))
"""
# The labels are those the node had at the bind; of a node that is known only since later, the
# earliest ones that are known.
_HOLD = """
INSERT INTO watch_hold (uid, resource, units, labels)
SELECT s.uid, r.key, (r.value #>> '{}')::integer, COALESCE(n.labels, '{}')
  FROM watch_sight s
 CROSS JOIN LATERAL jsonb_each(s.requests) AS r
  LEFT JOIN LATERAL (
    SELECT labels FROM metering_noderecord
     WHERE cluster_id = %(cluster_id)s AND node = s.node
       AND COALESCE(end_at, 'infinity') > s.bound_at
     ORDER BY begin_at LIMIT 1) n ON true
 WHERE s.bound_at IS NOT NULL AND jsonb_typeof(r.value) = 'number'
   AND NOT starts_with(r.key, %(claims)s)
   AND NOT EXISTS (SELECT FROM metering_podallocation a
     WHERE a.cluster_id = %(cluster_id)s AND a.pod_uid = s.uid AND a.resource = r.key)
"""
_ASKED = "SELECT DISTINCT resource, labels FROM watch_hold"
_OPEN = f"""
INSERT INTO metering_podallocation (cluster_id, pod_uid, resource, namespace, pod_name, node, owner,
  priority_class, priority, controller, source, project_id, units, size, price_group, sharing_mode,
  product, share_numerator, share_denominator, catalogue_version, node_labels, begin_at, started_at,
  end_slack_seconds, end_kind, last_seen_at)
SELECT %(cluster_id)s, s.uid, h.resource, s.namespace, s.name, s.node, left(s.owner, 150),
       s.priority_class, s.priority, left(s.controller, 320), 'kubernetes', b.project_id, h.units,
       COALESCE(z.size, ''), {group_sql("s.priority_class")}, COALESCE(z.sharing_mode, ''),
       COALESCE(z.product, ''), COALESCE(z.share_numerator, 1), COALESCE(z.share_denominator, 1),
       z.catalogue_version, h.labels, s.bound_at, s.started_at, 0, 'open',
       GREATEST(s.alive_at, s.bound_at)
  FROM watch_hold h
  JOIN watch_sight s ON s.uid = h.uid
  LEFT JOIN {SIZES} ON z.resource = h.resource AND z.labels = h.labels
  LEFT JOIN tenants_namespacebinding b
    ON b.cluster_id = %(cluster_id)s AND b.namespace = s.namespace AND b.valid @> s.bound_at
"""  # noqa: S608 - The relation is a constant of ours.


def write_pods(
    cluster_id: UUID, *, catalogue: Catalogue, alive_at: datetime | None, is_list: bool
) -> Changed:
    """Write the staged sights; the number of statements does not grow with them.

    Args:
        cluster_id: The cluster.
        catalogue: The version in force, for what was bound since.
        alive_at: When the watch last was healthy, so that everything open was alive then.
        is_list: Whether the sights are a consistent list, which proves who is there.
    """
    given: dict[str, Any] = {"cluster_id": cluster_id, "claims": CLAIM_PREFIX}
    with connection.cursor() as cursor:
        cursor.execute(_QUEUE, given)
        cursor.execute(_HOLD, given)
        opened = 0
        if cursor.rowcount:
            opened = _open(cluster_id, catalogue=catalogue)
    return Changed(opened, end_told(cluster_id, alive_at=alive_at, is_list=is_list))


def _open(cluster_id: UUID, *, catalogue: Catalogue) -> int:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE watch_hold")
        cursor.execute(_ASKED)
        sizes = sizes_json(catalogue, labelled(cursor.fetchall()))
        given: dict[str, Any] = {"cluster_id": cluster_id, "sizes": sizes, "burst": burst_classes()}
        cursor.execute(_OPEN, given)
        return int(cursor.rowcount)

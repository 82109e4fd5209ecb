"""Unbilled devices: device figures and allocations of sealed hours that no usage record covers."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection

from metering.domain.devices.unbilled import BUSY_MIN, NAMING_LAG, UnbilledCause
from tenants.domain.archives import ArchivedTable
from tenants.selectors.archives import require_rows

# An exception holds a named pod by its namespace, and a device without a name by its node.
# A claim is billed to the pods that used it, so its record may carry a consumer's uid.
_UNBILLED: Final = """
WITH hour AS MATERIALIZED (
  SELECT w.id, w.cluster_id, c.slug, w.start_at, w.start_at + interval '1 hour' AS end_at
    FROM metering_meteringwindow w JOIN tenants_cluster c ON c.id = w.cluster_id
   WHERE w.state = 'sealed' AND w.start_at >= %(begin_at)s AND w.start_at < %(end_at)s
     AND (%(cluster)s::uuid IS NULL OR w.cluster_id = %(cluster)s::uuid)
),
device AS MATERIALIZED (
  SELECT h.start_at, h.slug, d.node, d.uuid, d.instance_id,
         CASE WHEN d.pod_name = '' THEN 'busy_without_pod' ELSE 'pod_named' END AS cause,
         d.namespace, d.pod_name, '' AS pod_uid, d.resource, d.seconds, d.busy_ratio, h.id
    FROM hour h
    JOIN metering_deviceusage d ON d.window_id = h.id AND d.window_start = h.start_at
   WHERE d.attribution <> 'overhead'
     AND CASE WHEN d.pod_name = '' THEN d.busy_ratio >= %(busy)s
           -- Of a shared device, or without labels, the exporter names none of its billed pods.
           AND (d.attribution = 'idle' OR NOT EXISTS (
             SELECT FROM metering_usage u
              WHERE u.window_start = h.start_at AND u.cluster_id = h.cluster_id
                AND u.node = d.node))
         ELSE NOT EXISTS (
           SELECT FROM metering_usage u
            WHERE u.cluster_id = h.cluster_id AND u.namespace = d.namespace
              AND u.pod_name = d.pod_name
              AND u.window_start BETWEEN h.start_at - interval '1 hour'
                                     AND h.start_at + interval '1 hour'
              AND (u.window_start = h.start_at OR d.seconds <= %(lag)s))
         END
),
allocation AS (
  SELECT h.start_at, h.slug, a.node, '' AS uuid, '' AS instance_id, 'allocated' AS cause,
         a.namespace, a.pod_name, a.pod_uid, a.resource,
         EXTRACT(epoch FROM LEAST(a.end_at, h.end_at) - GREATEST(a.begin_at, h.start_at))::bigint
           AS seconds, NULL::numeric AS busy_ratio, h.id
    FROM hour h
    JOIN metering_podallocation a ON a.cluster_id = h.cluster_id AND a.begin_at < h.end_at
     AND (a.end_at IS NULL OR a.end_at > h.start_at)
   WHERE NOT EXISTS (
           SELECT FROM metering_usage u
            WHERE u.window_start = h.start_at AND u.cluster_id = h.cluster_id
              AND (u.pod_uid = a.pod_uid OR u.pod_uid IN (
                     SELECT c.pod_uid FROM metering_claimconsumer c
                      WHERE c.cluster_id = a.cluster_id AND c.claim_uid = a.pod_uid))
              AND regexp_replace(u.resource, '[^a-zA-Z0-9_]', '_', 'g')
                  = regexp_replace(a.resource, '[^a-zA-Z0-9_]', '_', 'g'))
     AND NOT EXISTS (
           SELECT FROM device d
            WHERE d.id = h.id AND d.namespace = a.namespace AND d.pod_name = a.pod_name)
)
SELECT r.start_at, r.slug, r.node, r.cause, r.uuid, r.instance_id, r.namespace, r.pod_name,
       r.pod_uid, r.resource, r.seconds, r.busy_ratio, COALESCE(e.kind, '')
  FROM (SELECT * FROM device UNION ALL SELECT * FROM allocation) r
  LEFT JOIN LATERAL (
    SELECT min(x.kind) AS kind FROM metering_meteringexception x
     WHERE x.window_id = r.id AND x.state = 'open'
       AND CASE WHEN r.pod_uid <> '' THEN split_part(x.subject, ' ', 1) = r.pod_uid
                WHEN r.namespace <> '' THEN x.namespace = r.namespace
                ELSE x.details->>'node' = r.node END
  ) e ON true
 WHERE r.seconds > 0
 ORDER BY r.start_at, r.slug, r.node, r.cause, r.uuid, r.instance_id, r.namespace, r.pod_name,
       r.resource
 LIMIT %(limit)s
"""
_UNKNOWN: Final = """
SELECT c.slug, count(*)
  FROM metering_meteringwindow w JOIN tenants_cluster c ON c.id = w.cluster_id
  LEFT JOIN metering_devicewindow d ON d.window_id = w.id AND d.state = 'sealed'
 WHERE w.state = 'sealed' AND w.start_at >= %(begin_at)s AND w.start_at < %(end_at)s
   AND (%(cluster)s::uuid IS NULL OR w.cluster_id = %(cluster)s::uuid) AND d.window_id IS NULL
 GROUP BY c.slug ORDER BY c.slug
"""


@dataclass(frozen=True)
class UnbilledDevice:
    """One device, or one allocation, in one hour without a usage record.

    Attributes:
        uuid: Of the GPU; "" where only the allocation is known.
        seconds: How long in that hour.
        busy_ratio: 0 to 1; None when unknown.
        exception: Kind of the open exception that holds it; "" for none.
    """

    window_start: datetime
    cluster: str
    node: str
    cause: UnbilledCause
    uuid: str
    instance_id: str
    namespace: str
    pod_name: str
    pod_uid: str
    resource: str
    seconds: int
    busy_ratio: Decimal | None
    exception: str


@dataclass(frozen=True)
class UnbilledReport:
    """The rows, by hour and node, and how many sealed hours have no device figures, by cluster."""

    rows: tuple[UnbilledDevice, ...]
    unknown_hours: dict[str, int]


def unbilled_devices(
    *, begin_at: datetime, end_at: datetime, limit: int, cluster_id: UUID | None = None
) -> UnbilledReport:
    """Return what was in use and on no bill, in three statements.

    Args:
        begin_at: Start of the first hour.
        end_at: End of the last hour, excluded.
        limit: At most so many rows.
        cluster_id: Only in this cluster; None for all.
    """
    given: dict[str, Any] = {
        "begin_at": begin_at,
        "end_at": end_at,
        "cluster": cluster_id,
        "busy": BUSY_MIN,
        "lag": int(NAMING_LAG.total_seconds()),
        "limit": limit,
    }
    require_rows(ArchivedTable.USAGE, ArchivedTable.DEVICES, begin_at=begin_at, end_at=end_at)
    with connection.cursor() as cursor:
        cursor.execute(_UNBILLED, given)
        rows = tuple(_row(values) for values in cursor.fetchall())
        cursor.execute(_UNKNOWN, given)
        return UnbilledReport(rows, dict(cursor.fetchall()))


def _row(values: tuple[Any, ...]) -> UnbilledDevice:
    start_at, cluster, node, cause, *rest = values
    return UnbilledDevice(start_at, cluster, node, UnbilledCause(cause), *rest)

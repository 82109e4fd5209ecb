"""The hardware that pods held: every kind once, with how much of it."""

import json
from datetime import datetime

from django.db import connection

from metering.domain.catalogue_editing import SeenHardware

# Every kind of hardware is one (resource, labels), however many pods and nodes there were. Labels
# are the sizing ones only, so nothing of a single node is among them. Whether a pod was preemptible
# is no matter of the hardware.
_SEEN = """
WITH used AS (
  SELECT cluster_id, pod_uid, resource, sum(unit_seconds)::bigint AS unit_seconds
    FROM metering_usagerecord WHERE window_start >= %(since)s GROUP BY 1, 2, 3
)
SELECT a.resource, a.node_labels, a.size, regexp_replace(a.price_group, '/burst$', ''),
       coalesce(sum(a.units) FILTER (WHERE a.end_at IS NULL), 0)::bigint,
       coalesce(sum(u.unit_seconds), 0)::bigint
  FROM metering_podallocation a
  LEFT JOIN used u USING (cluster_id, pod_uid, resource)
 WHERE a.end_at IS NULL OR a.end_at >= %(since)s
 GROUP BY 1, 2, 3, 4
 ORDER BY 1, 3, 4, 2
"""


def hardware_seen(*, since: datetime) -> tuple[SeenHardware, ...]:
    """Return what pods held at or after a time, one per kind, in one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_SEEN, {"since": since})
        rows = cursor.fetchall()
    return tuple(
        SeenHardware(
            resource=resource,
            labels=json.loads(labels),
            size=size,
            price_group=price_group,
            open_units=open_units,
            unit_seconds=unit_seconds,
        )
        for resource, labels, size, price_group, open_units, unit_seconds in rows
    )

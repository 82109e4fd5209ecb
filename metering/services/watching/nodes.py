"""Nodes: what each offered, from one change of its offer, labels or health to the next."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from metering.protocols.watch import NodeState
from metering.services.watching.ledgered import Changed
from metering.services.watching.sizing import sizing_labels
from metering.services.watching.told import Told

_TOLD = """WITH told AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(told)s) AS n(node text, node_uid text, labels jsonb,
    allocatable jsonb, is_ready boolean, is_schedulable boolean, is_gone boolean,
    told_at timestamptz))"""
# A node that is absent from a list was there until the watch last was healthy.
_CLOSE = f"""{_TOLD}
UPDATE metering_noderecord r
   SET end_at = GREATEST(r.begin_at, COALESCE(t.told_at, LEAST(%(at)s, %(alive_at)s)))
  FROM metering_noderecord o
  LEFT JOIN told t ON t.node = o.node
 WHERE o.id = r.id AND o.cluster_id = %(cluster_id)s AND o.end_at IS NULL
   AND CASE WHEN t.node IS NULL THEN %(is_list)s ELSE t.is_gone
     OR (t.node_uid, t.labels, t.allocatable, t.is_ready, t.is_schedulable) IS DISTINCT FROM
        (o.node_uid, o.labels, o.allocatable, o.is_ready, o.is_schedulable) END
"""  # noqa: S608 - The relation is a constant of ours.
# A node that never offered a GPU is none of ours.
_OPEN = f"""{_TOLD}
INSERT INTO metering_noderecord (cluster_id, node, node_uid, labels, allocatable, is_ready,
  is_schedulable, begin_at)
SELECT %(cluster_id)s, t.node, t.node_uid, t.labels, t.allocatable, t.is_ready, t.is_schedulable,
       GREATEST(t.told_at, former.end_at)
  FROM told t
  LEFT JOIN LATERAL (
    SELECT max(r.end_at) AS end_at FROM metering_noderecord r
     WHERE r.cluster_id = %(cluster_id)s AND r.node = t.node) former ON true
 WHERE NOT t.is_gone
   AND (t.labels <> '{{}}' OR t.allocatable <> '{{}}' OR former.end_at IS NOT NULL)
ON CONFLICT (cluster_id, node) WHERE end_at IS NULL DO NOTHING
"""  # noqa: S608 - As above.


def write_nodes(
    cluster_id: UUID,
    *,
    told: Iterable[tuple[Told, NodeState]],
    at: datetime,
    alive_at: datetime | None,
    is_list: bool,
) -> Changed:
    """Write what nodes offer now; those a complete list does not show are closed.

    Of several states of a node the last one stands: what lasted less than a batch is no history.
    """
    rows = {node.name: _values(item, node=node) for item, node in told}
    given: dict[str, Any] = {
        "cluster_id": cluster_id,
        "at": at,
        "alive_at": alive_at,
        "is_list": is_list,
        "told": json.dumps(list(rows.values())),
    }
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE, given)
        closed = cursor.rowcount
        cursor.execute(_OPEN, given)
        return Changed(opened=cursor.rowcount, closed=closed)


def _values(item: Told, *, node: NodeState) -> dict[str, object]:
    return {
        "node": node.name,
        "node_uid": node.uid,
        "labels": sizing_labels(node.labels),
        "allocatable": dict(sorted(node.allocatable.items())),
        "is_ready": node.is_ready,
        "is_schedulable": node.is_schedulable,
        "is_gone": item.is_gone,
        "told_at": item.told_at.isoformat(),
    }

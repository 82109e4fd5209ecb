"""Ends: how the rows of the ledger are closed, each by the best evidence there is.

Best first: `exact`, a container's end by the kubelet; `vanished` without slack, an event that
arrived while the watch was healthy, or the policy for a lost node; then bounds, the narrower the
better: `vanished_in_gap` ends at the last time it was known alive; `end_slack_seconds` is how much
later the true end may be. A better end replaces a worse one, never the reverse.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from metering.domain.allocations.pod_life import LOST_NODE_GRACE
from metering.domain.allocations.timeline import HEALTHY_FOR
from metering.domain.catalogue.units import CLAIM_PREFIX

_RANK = """CASE WHEN {0}end_kind = 'exact' THEN 3
  WHEN {0}end_kind = 'vanished' AND {0}{1} = 0 THEN 2 WHEN {0}end_kind = 'open' THEN 0 ELSE 1 END"""

# Every object in a consistent list is alive, and so is every object in a prompt event: a bound
# before that was wrong. An event reopens only a bound, and only some time after it: an event right
# after a list may have been sent before the pod was gone. A deletion that arrived after the list
# was taken is not before it, although its bound begins there.
_OBSERVED = f"""
WITH bounded AS (
  SELECT a.id, s.started_at, s.controller, s.priority, s.alive_at, s.gone_at,
         CASE WHEN s.finished_at IS NOT NULL THEN 'exact' WHEN s.gone_at IS NULL THEN 'open'
              WHEN s.is_prompt THEN 'vanished' ELSE 'vanished_in_gap' END AS end_kind,
         GREATEST(a.begin_at, CASE
           WHEN s.finished_at IS NOT NULL THEN s.finished_at
           WHEN s.is_prompt THEN s.gone_at
           WHEN s.gone_at IS NOT NULL THEN LEAST(s.gone_at,
             date_trunc('second', GREATEST(a.last_seen_at, s.alive_at, %(alive_at)s))) END)
           AS end_at
    FROM watch_snapshot s
    JOIN metering_podallocation a ON a.cluster_id = %(cluster_id)s AND a.pod_uid = s.uid
     AND NOT starts_with(a.resource, %(claims)s)),
reported AS (
  SELECT *, CASE WHEN end_kind = 'vanished_in_gap'
    THEN GREATEST(0, ceil(extract(epoch FROM gone_at - end_at)))::integer ELSE 0 END AS slack
    FROM bounded),
judged AS (
  SELECT t.*,
         t.end_kind = 'open' AND (%(is_list)s OR a.end_kind = 'vanished_in_gap')
           AND a.end_at + make_interval(secs => a.end_slack_seconds)
             + CASE WHEN %(is_list)s THEN interval '0' ELSE %(under_way)s END < t.alive_at
           AND {_RANK.format("a.", "end_slack_seconds")} = 1 AS reopens,
         CASE WHEN t.end_kind = 'open' THEN false
              WHEN {_RANK.format("t.", "slack")} <> {_RANK.format("a.", "end_slack_seconds")}
              THEN {_RANK.format("t.", "slack")} > {_RANK.format("a.", "end_slack_seconds")}
              WHEN t.end_kind = 'exact' THEN t.end_at > a.end_at
              ELSE (t.slack, t.end_at) < (a.end_slack_seconds, a.end_at) END AS is_better
    FROM reported t JOIN metering_podallocation a ON a.id = t.id),
written AS (
UPDATE metering_podallocation a
   SET end_at = CASE WHEN j.reopens THEN NULL WHEN j.is_better THEN j.end_at ELSE a.end_at END,
       end_kind = CASE WHEN j.reopens OR j.is_better THEN j.end_kind ELSE a.end_kind END,
       end_slack_seconds = CASE WHEN j.reopens OR j.is_better THEN j.slack
                                ELSE a.end_slack_seconds END,
       started_at = LEAST(a.started_at, j.started_at),
       controller = COALESCE(NULLIF(a.controller, ''), left(j.controller, 320)),
       priority = COALESCE(a.priority, j.priority),
       last_seen_at = GREATEST(a.last_seen_at, j.alive_at)
  FROM judged j
 WHERE a.id = j.id
   AND (j.reopens OR j.is_better
     OR j.started_at < COALESCE(a.started_at, 'infinity')
     OR (a.controller = '' AND j.controller <> '')
     OR (a.priority IS NULL AND j.priority IS NOT NULL)
     OR j.alive_at > a.last_seen_at + interval '5 minutes')
RETURNING a.pod_uid, j.is_better, j.reopens),
back AS (
UPDATE metering_queuedpod q SET gone_at = NULL
  FROM written w WHERE w.reopens AND q.cluster_id = %(cluster_id)s AND q.pod_uid = w.pod_uid)
SELECT count(*) FILTER (WHERE is_better) FROM written
"""  # noqa: S608 - Pieces of SQL of ours.

_ABSENT = """
UPDATE metering_podallocation a
   SET end_at = b.end_at, end_kind = 'vanished_in_gap',
       end_slack_seconds = ceil(extract(epoch FROM %(at)s - b.end_at))
  FROM (SELECT id, GREATEST(begin_at, LEAST(%(at)s,
                 date_trunc('second', GREATEST(last_seen_at, %(alive_at)s)))) AS end_at
          FROM metering_podallocation
         WHERE cluster_id = %(cluster_id)s AND end_at IS NULL AND begin_at <= %(at)s
           AND last_seen_at <= %(at)s AND NOT starts_with(resource, %(claims)s)) b
 WHERE a.id = b.id AND NOT EXISTS (SELECT FROM watch_snapshot s WHERE s.uid = a.pod_uid)
"""
_ABSENT_FROM_QUEUE = """
UPDATE metering_queuedpod q
   SET gone_at = GREATEST(COALESCE(q.bound_at, q.created_at),
                          LEAST(%(at)s, date_trunc('second', %(alive_at)s::timestamptz)))
 WHERE q.cluster_id = %(cluster_id)s AND q.gone_at IS NULL AND q.created_at <= %(at)s
   AND NOT EXISTS (SELECT FROM watch_snapshot s WHERE s.uid = q.pod_uid)
"""

# The few overdue pods are selected first; in the other join order, on newly filled tables, this
# took half a minute for 20,000 pods.
_LOST = """
WITH overdue AS MATERIALIZED (
  SELECT pod_uid, deletion_at FROM metering_queuedpod
   WHERE cluster_id = %(cluster_id)s AND gone_at IS NULL AND deletion_at <= %(overdue_at)s
     AND EXISTS (SELECT FROM metering_watchcursor
       WHERE cluster_id = %(cluster_id)s AND kind = 'nodes'))
UPDATE metering_podallocation a
   SET end_at = GREATEST(a.begin_at, date_trunc('second', o.deletion_at) + %(grace)s),
       end_kind = 'vanished', end_slack_seconds = 0
  FROM overdue o
 WHERE a.cluster_id = %(cluster_id)s AND a.pod_uid = o.pod_uid AND a.end_at IS NULL
   AND NOT EXISTS (SELECT FROM metering_noderecord n
     WHERE n.cluster_id = a.cluster_id AND n.node = a.node AND n.end_at IS NULL AND n.is_ready)
"""


def end_gone_pods(cluster_id: UUID, *, alive_at: datetime | None, is_list: bool) -> int:
    """End the rows whose pods have ended by the staged observations; return how many."""
    given: dict[str, Any] = {
        "cluster_id": cluster_id,
        "alive_at": alive_at,
        "is_list": is_list,
        "under_way": HEALTHY_FOR,
        "claims": CLAIM_PREFIX,
    }
    with connection.cursor() as cursor:
        cursor.execute(_OBSERVED, given)
        return int(cursor.fetchone()[0])


def end_absent(cluster_id: UUID, *, alive_at: datetime | None, at: datetime) -> int:
    """End the open rows whose pods a complete list of `at` does not show; return how many."""
    given = {"cluster_id": cluster_id, "alive_at": alive_at, "at": at, "claims": CLAIM_PREFIX}
    with connection.cursor() as cursor:
        cursor.execute(_ABSENT, given)
        closed = int(cursor.rowcount)
        cursor.execute(_ABSENT_FROM_QUEUE, given)
    return closed


def end_on_lost_nodes(cluster_id: UUID, *, at: datetime) -> int:
    """End what is being deleted on a node that is not ready or not there; return how many.

    A pod that is being deleted holds its devices until it is gone. When its node is lost no
    component reports the end, so by policy it ends five minutes after its deletion time. If the
    node returns and reports the containers' end, that end replaces it. Until the nodes were listed
    once, none counts as lost.
    """
    given: dict[str, Any] = {
        "cluster_id": cluster_id,
        "overdue_at": at - LOST_NODE_GRACE,
        "grace": LOST_NODE_GRACE,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LOST, given)
        return int(cursor.rowcount)

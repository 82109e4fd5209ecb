"""Batches: a list or some events of one kind, checked and written by the steps of that kind."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

from metering.domain.allocations.pod_life import merge_snapshots
from metering.domain.catalogue.sizing import Catalogue
from metering.domain.catalogue.units import CLAIM_PREFIX
from metering.protocols.watch import (
    ClaimState,
    ClassState,
    NodeState,
    PodState,
    SliceState,
    WatchedKind,
)
from metering.services.allocations.claims import write_claims, write_classes, write_slices
from metering.services.allocations.ends import end_absent, end_on_lost_nodes
from metering.services.allocations.pods import ObservationSpool, snapshot_of, write_pods
from metering.services.allocations.sizing import settle_open_sizes, sizing_labels
from metering.services.allocations.states import Changed, Observed
from tenants.domain.errors import SourceUnavailableError

_OBSERVED = """WITH reported AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(%(reported)s) AS n(node text, node_uid text, labels jsonb,
    allocatable jsonb, is_ready boolean, is_schedulable boolean, is_gone boolean,
    observed_at timestamptz))"""
# A node that is absent from a list was there until the watch last was healthy.
_CLOSE = f"""{_OBSERVED}
UPDATE metering_noderecord r
   SET end_at = GREATEST(r.begin_at, COALESCE(t.observed_at, LEAST(%(at)s, %(alive_at)s)))
  FROM metering_noderecord o
  LEFT JOIN reported t ON t.node = o.node
 WHERE o.id = r.id AND o.cluster_id = %(cluster_id)s AND o.end_at IS NULL
   AND CASE WHEN t.node IS NULL THEN %(is_list)s ELSE t.is_gone
     OR (t.node_uid, t.labels, t.allocatable, t.is_ready, t.is_schedulable) IS DISTINCT FROM
        (o.node_uid, o.labels, o.allocatable, o.is_ready, o.is_schedulable) END
"""  # noqa: S608 - The relation is a constant of ours.
# A node that never offered a GPU is none of ours.
_OPEN = f"""{_OBSERVED}
INSERT INTO metering_noderecord (cluster_id, node, node_uid, labels, allocatable, is_ready,
  is_schedulable, begin_at)
SELECT %(cluster_id)s, t.node, t.node_uid, t.labels, t.allocatable, t.is_ready, t.is_schedulable,
       GREATEST(t.observed_at, former.end_at)
  FROM reported t
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
    observed: Iterable[tuple[Observed, NodeState]],
    at: datetime,
    alive_at: datetime | None,
    is_list: bool,
) -> Changed:
    """Write what nodes offer now; those a complete list does not show are closed.

    Of several states of a node the last one counts: what lasted less than a batch is no history.
    """
    rows = {node.name: _values(item, node=node) for item, node in observed}
    given: dict[str, Any] = {
        "cluster_id": cluster_id,
        "at": at,
        "alive_at": alive_at,
        "is_list": is_list,
        "reported": json.dumps(list(rows.values())),
    }
    with connection.cursor() as cursor:
        cursor.execute(_CLOSE, given)
        closed = cursor.rowcount
        cursor.execute(_OPEN, given)
        return Changed(opened=cursor.rowcount, closed=closed)


def _values(item: Observed, *, node: NodeState) -> dict[str, object]:
    return {
        "node": node.name,
        "node_uid": node.uid,
        "labels": sizing_labels(node.labels),
        "allocatable": dict(sorted(node.allocatable.items())),
        "is_ready": node.is_ready,
        "is_schedulable": node.is_schedulable,
        "is_gone": item.is_gone,
        "observed_at": item.observed_at.isoformat(),
    }


OPEN_MIN: Final = 20
"""With fewer rows most may end within the ten minutes between two lists, by mere chance."""
ABSENT_PERCENT_MAX: Final = 50
"""More than half at once is usually a fault; if it is true, the next list shows it again."""

_OPEN_PODS = """
SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (
         SELECT FROM watch_snapshot s WHERE s.uid = a.pod_uid))
  FROM metering_podallocation a
 WHERE a.cluster_id = %(cluster_id)s AND a.end_at IS NULL AND a.begin_at <= %(at)s
   AND NOT starts_with(a.resource, %(claims)s)
"""
_OPEN_CLAIMS = """
SELECT count(*), count(*) FILTER (WHERE a.pod_uid <> ALL(%(uids)s))
  FROM metering_podallocation a
 WHERE a.cluster_id = %(cluster_id)s AND a.end_at IS NULL AND a.begin_at <= %(at)s
   AND starts_with(a.resource, %(claims)s)
"""
_OPEN_NODES = """
SELECT count(*), count(*) FILTER (WHERE n.node_uid <> ALL(%(uids)s))
  FROM metering_noderecord n
 WHERE n.cluster_id = %(cluster_id)s AND n.end_at IS NULL AND n.begin_at <= %(at)s
"""
_OPEN_ROWS: Final = {
    WatchedKind.PODS: _OPEN_PODS,
    WatchedKind.CLAIMS: _OPEN_CLAIMS,
    WatchedKind.NODES: _OPEN_NODES,
}


class ImplausibleListError(SourceUnavailableError):
    """Raised when a list would end most of what is open; nothing was written."""


def refuse_implausible(
    cluster_id: UUID, *, kind: WatchedKind, uids: Collection[str], at: datetime
) -> None:
    """Refuse a complete list in which most of what is open is missing.

    Args:
        cluster_id: The cluster.
        kind: What is listed; slices hold nothing, so they are not doubted.
        uids: What the list shows. Pods are read from the stage instead.
        at: When the list was requested.

    Raises:
        DoubtfulListError: More than `ABSENT_PERCENT_MAX` of at least `OPEN_MIN` rows are missing.
    """
    statement = _OPEN_ROWS.get(kind)
    if statement is None:
        return
    given: dict[str, Any] = {
        "cluster_id": cluster_id,
        "at": at,
        "uids": list(uids),
        "claims": CLAIM_PREFIX,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, given)
        known, absent = cursor.fetchone()
    if known >= OPEN_MIN and absent * 100 > known * ABSENT_PERCENT_MAX:
        raise ImplausibleListError(
            f"{absent} of {known} open rows are missing in a list; is it the right cluster, and"
            " may all of it be read? It is believed when it is reported again.",
            reason="doubtful_list",
        )


@dataclass(frozen=True)
class WatchBatch:
    """The parameters of every step of a batch.

    Attributes:
        at: When it is written; of a list, when it was requested.
        alive_at: Everything open in the ledger was alive then; None when unknown.
        is_list: Whether it is a complete list, so that absence means something.
        is_sure: Whether it is accepted even when most open objects are absent.
    """

    cluster_id: UUID
    catalogue: Catalogue
    at: datetime
    alive_at: datetime | None
    is_list: bool
    is_sure: bool = False


def spool_pods(spool: ObservationSpool, observed: Sequence[Observed], *, is_list: bool) -> None:
    """Keep what the states of some pods show, one observation per pod."""
    snapshots = (
        snapshot_of(
            item.state,
            observed_at=item.observed_at,
            is_deleted=item.is_gone,
            is_prompt=item.is_prompt,
            is_list=is_list,
        )
        for item in observed
        if isinstance(item.state, PodState)
    )
    spool.add(merge_snapshots(snapshot for snapshot in snapshots if snapshot is not None))


def write_batch(
    batch: WatchBatch, *, kind: WatchedKind, observed: Sequence[Observed], pods: ObservationSpool
) -> tuple[int, Changed]:
    """Write a batch within a transaction; return how many objects it contained, and what changed.

    Pods are read from `pods`; all other kinds from `reported`.

    Raises:
        DoubtfulListError: It is a list that would end most open rows.
    """
    if kind is WatchedKind.PODS:
        return _pods(batch, pods)
    uids = {item.state.uid for item in observed}
    objects = len(uids)
    _implausible(batch, kind=kind, uids=uids)
    if kind is WatchedKind.NODES:
        return objects, _nodes(batch, observed=observed)
    if kind is WatchedKind.SLICES:
        slices = [(item, item.state) for item in observed if isinstance(item.state, SliceState)]
        return objects, write_slices(
            batch.cluster_id, observed=slices, at=batch.at, is_list=batch.is_list
        )
    if kind is WatchedKind.CLASSES:
        classes = [(item, item.state) for item in observed if isinstance(item.state, ClassState)]
        return objects, write_classes(batch.cluster_id, observed=classes, is_list=batch.is_list)
    claims = [(item, item.state) for item in observed if isinstance(item.state, ClaimState)]
    changed = write_claims(
        batch.cluster_id,
        observed=claims,
        at=batch.at,
        alive_at=batch.alive_at,
        is_list=batch.is_list,
        catalogue=batch.catalogue,
    )
    settle_open_sizes(batch.cluster_id, catalogue=batch.catalogue)
    return objects, changed


def _implausible(batch: WatchBatch, *, kind: WatchedKind, uids: Collection[str]) -> None:
    if batch.is_list and not batch.is_sure:
        refuse_implausible(batch.cluster_id, kind=kind, uids=uids, at=batch.at)


def _pods(batch: WatchBatch, spool: ObservationSpool) -> tuple[int, Changed]:
    if spool.is_empty and not batch.is_list:
        return 0, Changed(closed=end_on_lost_nodes(batch.cluster_id, at=batch.at))
    pods = spool.load()
    _implausible(batch, kind=WatchedKind.PODS, uids=())
    changed = write_pods(
        batch.cluster_id,
        catalogue=batch.catalogue,
        alive_at=batch.alive_at,
        is_list=batch.is_list,
    )
    closed = changed.closed
    if batch.is_list:
        closed += end_absent(batch.cluster_id, alive_at=batch.alive_at, at=batch.at)
    closed += end_on_lost_nodes(batch.cluster_id, at=batch.at)
    return pods, Changed(opened=changed.opened, closed=closed)


def _nodes(batch: WatchBatch, *, observed: Sequence[Observed]) -> Changed:
    nodes = [(item, item.state) for item in observed if isinstance(item.state, NodeState)]
    changed = write_nodes(
        batch.cluster_id,
        observed=nodes,
        at=batch.at,
        alive_at=batch.alive_at,
        is_list=batch.is_list,
    )
    settle_open_sizes(batch.cluster_id, catalogue=batch.catalogue)
    end_on_lost_nodes(batch.cluster_id, at=batch.at)
    return changed

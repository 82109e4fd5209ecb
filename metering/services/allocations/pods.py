"""Pods: states of pods loaded into staging tables, and from there into the allocation ledger.

A bind is snapshotted once: later labels or priorities do not change the row. An end is only ever
replaced by better evidence; see `ends`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import Any, Final, Self
from uuid import UUID

from django.db import connection

from metering.domain.allocations.pod_life import (
    TERMINAL_PHASES,
    PodSnapshot,
    believed,
    is_refused,
)
from metering.domain.allocations.timeline import whole_second
from metering.domain.catalogue.names import CLASS_PREFIX
from metering.domain.catalogue.sizing import Catalogue
from metering.domain.catalogue.units import CLAIM_PREFIX, effective_units
from metering.protocols import ContainerRequest
from metering.protocols.watch import PodState
from metering.services.allocations.ends import end_gone_pods
from metering.services.allocations.owners import believe_owners
from metering.services.allocations.sizing import (
    SIZES,
    burst_classes,
    group_sql,
    labelled,
    sizes_json,
)
from metering.services.allocations.states import Changed

_QUEUE = """
INSERT INTO metering_queuedpod AS q (cluster_id, pod_uid, namespace, pod_name, requests,
  priority_class, owner, created_at, bound_at, deletion_at, gone_at, reason,
  defects, unproven_owner)
SELECT %(cluster_id)s, uid, namespace, name, requests, priority_class, left(owner, 150), created_at,
       bound_at, deletion_at, COALESCE(finished_at, gone_at), left(reason, 128),
       defects, left(unproven_owner, 150)
  FROM watch_snapshot
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
# earliest ones that are known. Devices of a class are held by the ResourceClaim made for the pod.
_HOLD = """
INSERT INTO watch_hold (uid, resource, units, labels)
SELECT s.uid, r.key, (r.value #>> '{}')::integer, COALESCE(n.labels, '{}')
  FROM watch_snapshot s
 CROSS JOIN LATERAL jsonb_each(s.requests) AS r
  LEFT JOIN LATERAL (
    SELECT labels FROM metering_noderecord
     WHERE cluster_id = %(cluster_id)s AND node = s.node
       AND COALESCE(end_at, 'infinity') > s.bound_at
     ORDER BY begin_at LIMIT 1) n ON true
 WHERE s.bound_at IS NOT NULL AND jsonb_typeof(r.value) = 'number'
   AND NOT starts_with(r.key, %(claims)s)
   AND (s.extended_claim = '' OR NOT starts_with(r.key, %(classes)s))
   AND NOT EXISTS (SELECT FROM metering_podallocation a
     WHERE a.cluster_id = %(cluster_id)s AND a.pod_uid = s.uid AND a.resource = r.key)
"""
_ASKED = "SELECT DISTINCT resource, labels FROM watch_hold"
_OPEN = f"""
WITH kept AS MATERIALIZED (
  SELECT labels, metering_label_set(labels) AS id FROM (SELECT DISTINCT labels FROM watch_hold) d)
INSERT INTO metering_podallocation (cluster_id, pod_uid, resource, namespace, pod_name, node, owner,
  priority_class, priority, controller, source, project_id, units, size, price_group, sharing_mode,
  product, share_numerator, share_denominator, catalogue_version, label_set_id, begin_at,
  started_at, end_slack_seconds, end_kind, last_seen_at)
SELECT %(cluster_id)s, s.uid, h.resource, s.namespace, s.name, s.node, left(s.owner, 150),
       s.priority_class, s.priority, left(s.controller, 320), 'kubernetes', b.project_id, h.units,
       COALESCE(z.size, ''), {group_sql("s.priority_class")}, COALESCE(z.sharing_mode, ''),
       COALESCE(z.product, ''), COALESCE(z.share_numerator, 1), COALESCE(z.share_denominator, 1),
       z.catalogue_version, l.id, s.bound_at, s.started_at, 0, 'open',
       GREATEST(s.alive_at, s.bound_at)
  FROM watch_hold h
  JOIN watch_snapshot s ON s.uid = h.uid
  LEFT JOIN {SIZES} ON z.resource = h.resource AND z.labels = h.labels
  LEFT JOIN kept l ON l.labels = h.labels
  LEFT JOIN tenants_namespacebinding b
    ON b.cluster_id = %(cluster_id)s AND b.namespace = s.namespace AND b.valid @> s.bound_at
"""  # noqa: S608 - The relation is a constant of ours.


def write_pods(
    cluster_id: UUID, *, catalogue: Catalogue, alive_at: datetime | None, is_list: bool
) -> Changed:
    """Write the staged observations in a constant number of statements.

    Args:
        cluster_id: The cluster.
        catalogue: The version in force, for pods bound since.
        alive_at: When the watch last was healthy, so that every open row was alive then.
        is_list: Whether they are a consistent list, which proves which pods exist.
    """
    given: dict[str, Any] = {
        "cluster_id": cluster_id,
        "claims": CLAIM_PREFIX,
        "classes": CLASS_PREFIX,
    }
    believe_owners(cluster_id)
    with connection.cursor() as cursor:
        cursor.execute(_QUEUE, given)
        cursor.execute(_HOLD, given)
        opened = 0
        if cursor.rowcount:
            opened = _open(cluster_id, catalogue=catalogue)
    return Changed(opened, end_gone_pods(cluster_id, alive_at=alive_at, is_list=is_list))


def _open(cluster_id: UUID, *, catalogue: Catalogue) -> int:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE watch_hold")
        cursor.execute(_ASKED)
        sizes = sizes_json(catalogue, labelled(cursor.fetchall()))
        given: dict[str, Any] = {"cluster_id": cluster_id, "sizes": sizes, "burst": burst_classes()}
        cursor.execute(_OPEN, given)
        return int(cursor.rowcount)


def snapshot_of(
    pod: PodState,
    *,
    observed_at: datetime,
    is_deleted: bool = False,
    is_prompt: bool = True,
    is_list: bool = False,
) -> PodSnapshot | None:
    """Return the observation in one state of a pod, or None when it requests no device.

    A pod that cannot be parsed still exists, so that it is not treated as ended.

    Args:
        pod: The state.
        observed_at: When a list was taken, or when an event arrived.
        is_deleted: Whether the object is gone; its last state may be an old one, so its phase
            proves nothing about whether it ever ran.
        is_prompt: Whether the change has just happened; False for events that accumulated while the
            watch was down.
        is_list: Whether it is from a list: that shows promptly which pods exist, not when one
            ended.
    """
    requests = requests_of(pod)
    if not requests and not pod.defects:
        return None
    bound_at = whole_second(pod.scheduled_at) if pod.scheduled_at and pod.node else None
    is_gone = is_deleted or pod.phase in TERMINAL_PHASES
    return PodSnapshot(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        owner=pod.owner,
        controller=pod.controller,
        priority_class=pod.priority_class,
        priority=pod.priority,
        requests=requests,
        reason=pod.reason,
        created_at=whole_second(pod.created_at),
        bound_at=bound_at,
        started_at=pod.started_at,
        deletion_at=pod.deletion_at,
        finished_at=_exact_end(pod, bound_at=bound_at),
        alive_at=whole_second(observed_at) if is_prompt and not is_gone else None,
        gone_at=whole_second(observed_at) if is_gone else None,
        is_prompt=is_gone and is_prompt and not is_list,
        defects=pod.defects,
        stamped_owner=pod.stamped_owner,
        extended_claim=pod.extended_claim,
    )


def requests_of(pod: PodState) -> Mapping[str, int | str]:
    """Return what a pod requests: raw resource to effective units, and each of its claims."""
    asks: dict[str, list[ContainerRequest]] = defaultdict(list)
    for ask in pod.requests:
        asks[ask.resource].append(ask)
    units = {resource: effective_units(listed) for resource, listed in sorted(asks.items())}
    requested = {name: believed(name, units=count) for name, count in units.items() if count}
    claims = set(pod.claims)
    if pod.extended_claim and all(name.startswith(CLASS_PREFIX) for name in requested):
        # The ResourceClaim has a row of its own, with the devices that were allocated.
        requested, claims = {}, {*claims, pod.extended_claim}
    return {**requested, **{CLAIM_PREFIX + name: 1 for name in sorted(claims)}}


def _exact_end(pod: PodState, *, bound_at: datetime | None) -> datetime | None:
    if bound_at is None:
        return None
    has_run = pod.started_at is not None or pod.finished_at is not None
    if is_refused(phase=pod.phase, reason=pod.reason, has_run=has_run):
        return bound_at
    return max(bound_at, whole_second(pod.finished_at)) if pod.finished_at else None


SPOOL_BYTES_IN_MEMORY: Final = 4_000_000
"""Some 8,000 pods; a longer list goes to a file without a name in the temporary folder."""

_TABLES = (
    """
CREATE TEMPORARY TABLE IF NOT EXISTS watch_snapshot (
  uid text NOT NULL, namespace text NOT NULL, name text NOT NULL, node text NOT NULL,
  owner text NOT NULL, controller text NOT NULL, priority_class text NOT NULL, priority integer,
  requests jsonb NOT NULL, reason text NOT NULL, created_at timestamptz NOT NULL,
  bound_at timestamptz, started_at timestamptz, deletion_at timestamptz, finished_at timestamptz,
  alive_at timestamptz, gone_at timestamptz, is_prompt boolean NOT NULL,
  defects jsonb NOT NULL, stamped_owner text NOT NULL, extended_claim text NOT NULL,
  unproven_owner text NOT NULL DEFAULT '')
  ON COMMIT DROP
""",
    """
CREATE TEMPORARY TABLE IF NOT EXISTS watch_hold (
  uid text NOT NULL, resource text NOT NULL, units integer NOT NULL, labels jsonb NOT NULL)
  ON COMMIT DROP
""",
)
_COLUMNS = tuple(field.name for field in fields(PodSnapshot))
_JSON = frozenset({"requests", "defects"})
_COPY = f"COPY watch_snapshot ({', '.join(_COLUMNS)}) FROM STDIN"
# A page received twice counts once: the later copy of a pod is used.
_ONCE = """
DELETE FROM watch_snapshot s USING watch_snapshot later
 WHERE s.uid = later.uid AND s.ctid < later.ctid
"""


class ObservationSpool:
    """Observations that wait, outside any transaction, for the one that loads them."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._file = SpooledTemporaryFile(max_size=SPOOL_BYTES_IN_MEMORY)  # noqa: SIM115 - Closed by `__exit__`.

    def __enter__(self) -> Self:
        """Return the spool, which is empty after the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the resources."""
        self._file.close()

    def add(self, snapshots: Iterable[PodSnapshot]) -> None:
        """Keep some observations."""
        for snapshot in snapshots:
            self._file.write(json.dumps(_values(snapshot), default=str).encode() + b"\n")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was kept."""
        return self._file.tell() == 0

    def load(self) -> int:
        """Stage what was kept, one observation per pod, until the transaction ends.

        Returns:
            How many pods there are.

        Raises:
            RuntimeError: Called outside a transaction: the tables would be gone at once.
        """
        if not connection.in_atomic_block:
            raise RuntimeError("Observations are staged inside a transaction.")
        self._file.seek(0)
        with connection.cursor() as cursor:
            for table in _TABLES:
                cursor.execute(table)
            # Within one transaction a second batch finds the tables of the first.
            cursor.execute("TRUNCATE watch_snapshot, watch_hold")
            with cursor.copy(_COPY) as copy:
                for line in self._file:
                    copy.write_row(json.loads(line))
            # Without this the planner does not know the number of rows, and may use a nested loop.
            cursor.execute("ANALYZE watch_snapshot")
            cursor.execute(_ONCE)
            cursor.execute("SELECT count(*) FROM watch_snapshot")
            return int(cursor.fetchone()[0])


def _values(snapshot: PodSnapshot) -> tuple[object, ...]:
    return tuple(
        json.dumps(getattr(snapshot, name)) if name in _JSON else getattr(snapshot, name)
        for name in _COLUMNS
    )

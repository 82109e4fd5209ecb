"""The allocation ledger: what it holds of one window, in a constant number of statements."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection

from metering.domain.allocations.timeline import EndKind, Life
from metering.domain.catalogue.units import CLAIM_PREFIX
from metering.domain.collection.claim_split import Use
from metering.domain.collection.parts import WHOLE, Part
from metering.domain.collection.reconciliation import Accepted, Side
from metering.models import ClaimConsumer, NodeRecord, OfferedDevice, ReconciliationDecision
from metering.selectors.allocations.rows import AllocationKey, LedgerRow, SettledFacts, ledger_rows
from metering.selectors.allocations.watch import WatchCoverage, watch_coverage


@dataclass(frozen=True)
class RefusedPod:
    """A pod with fields that are not believed, so that the ledger may lack what it held.

    Attributes:
        requests: Raw resource to the request as observed, for impossible requests; they have no
            ledger row.
        defects: Other invalid fields, one sentence each.
        begin_at: When it was bound; when it was created, if its bind is invalid.
        unproven_owner: The owner in its annotation, where admission did not admit it for them and
            its bind is in the queried time; "" otherwise.
    """

    pod_uid: str
    namespace: str
    pod_name: str
    requests: Mapping[str, str]
    defects: tuple[str, ...]
    begin_at: datetime
    gone_at: datetime | None
    unproven_owner: str = ""


@dataclass(frozen=True)
class ClaimUse:
    """A pod's use of a claim, from its bind on where that is known.

    Attributes:
        owner: The user in the pod's label, or "".
    """

    claim_uid: str
    pod_uid: str
    pod_name: str
    owner: str
    begin_at: datetime
    end_at: datetime | None

    @property
    def use(self) -> Use:
        """Return it as the split reads it."""
        return Use(self.pod_uid, self.begin_at, self.end_at)


@dataclass(frozen=True)
class NodeFact:
    """What a node offered from one change to the next; raw names and labels."""

    node: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    begin_at: datetime
    end_at: datetime | None


@dataclass(frozen=True)
class WindowLedger:
    """Everything in the database about what was held in one window.

    Attributes:
        rows: By pod uid and sanitised resource.
        consumers: By claim uid, in the order of their begin.
        refused: Pods that the API reported with fields that are not believed.
        decisions: The evidence a person accepted, by pod uid and sanitised resource.
        decided_namespaces: The namespaces of those pods, likewise.
    """

    rows: Mapping[AllocationKey, LedgerRow] = field(default_factory=dict)
    consumers: Mapping[str, Sequence[ClaimUse]] = field(default_factory=dict)
    nodes: Sequence[NodeFact] = ()
    refused: Sequence[RefusedPod] = ()
    decisions: Mapping[AllocationKey, Accepted] = field(default_factory=dict)
    decided_namespaces: Mapping[AllocationKey, str] = field(default_factory=dict)
    watch: WatchCoverage = field(default_factory=WatchCoverage)


def window_ledger(  # noqa: PLR0913 - All are keyword only.
    cluster_id: UUID,
    *,
    start_at: datetime,
    end_at: datetime,
    until_at: datetime,
    pod_uids: Collection[str],
    is_watched: bool,
    part: Part = WHOLE,
    settled: SettledFacts | None = None,
) -> WindowLedger:
    """Return what the database knows of [start_at, end_at), of what some pods hold besides.

    Args:
        cluster_id: The cluster.
        start_at: Begin, included.
        end_at: End, excluded.
        until_at: How far another source looked, at least the end.
        pod_uids: Pods that another source saw.
        is_watched: Whether there is a watch; without one only allocations are read.
        part: Of which pods and claims; nodes are read for the whole only.
        settled: What was read for the hours before; see `ledger_rows`.
    """
    decided = _decisions(cluster_id, start_at=start_at, part=part) if is_watched else {}
    uids = sorted({*pod_uids, *(uid for uid, _ in decided)})
    rows = ledger_rows(
        cluster_id, start_at=start_at, end_at=end_at, pod_uids=uids, part=part, settled=settled
    )
    if not is_watched:
        return WindowLedger(rows=rows)
    refused = refused_pods(cluster_id, start_at, end_at)
    return WindowLedger(
        rows=rows,
        consumers=_consumers(cluster_id, rows=rows),
        nodes=node_facts(cluster_id, start_at=start_at, end_at=end_at) if part.is_whole else (),
        refused=tuple(pod for pod in refused if part.holds(pod.pod_uid)),
        decisions={key: _accepted(row) for key, row in decided.items()},
        decided_namespaces={key: row.namespace for key, row in decided.items()},
        watch=watch_coverage(cluster_id, start_at=start_at, end_at=end_at, until_at=until_at),
    )


def _consumers(
    cluster_id: UUID, *, rows: Mapping[AllocationKey, LedgerRow]
) -> Mapping[str, Sequence[ClaimUse]]:
    claims = {
        row.fact.pod_uid for row in rows.values() if row.fact.resource.startswith(CLAIM_PREFIX)
    }
    found: dict[str, list[ClaimUse]] = defaultdict(list)
    for use in claim_uses(cluster_id, claim_uids=sorted(claims)):
        found[use.claim_uid].append(use)
    return found


def node_facts(cluster_id: UUID, *, start_at: datetime, end_at: datetime) -> tuple[NodeFact, ...]:
    """Return what a cluster's nodes offered in [start_at, end_at) by its API, oldest first."""
    rows = (
        NodeRecord.objects.filter(cluster_id=cluster_id, begin_at__lt=end_at)
        .exclude(end_at__lte=start_at)
        .order_by("node", "begin_at")
        .values_list("node", "labels", "allocatable", "begin_at", "end_at")
    )
    return tuple(NodeFact(*values) for values in rows)


def _decisions(
    cluster_id: UUID, *, start_at: datetime, part: Part
) -> Mapping[AllocationKey, ReconciliationDecision]:
    rows = ReconciliationDecision.objects.filter(cluster_id=cluster_id, window_start=start_at)
    found = (row for row in rows.order_by("id") if part.holds(row.pod_uid))
    return {(row.pod_uid, row.resource): row for row in found}


def _accepted(row: ReconciliationDecision) -> Accepted:
    life = None
    if row.begin_at is not None:
        life = Life(row.begin_at, row.end_at, EndKind(row.known_as), row.slack_seconds)
    return Accepted(Side(row.side), life, row.units)


_REFUSED = """
SELECT q.pod_uid, q.namespace, q.pod_name, bad.requests, q.defects,
       COALESCE(q.bound_at, q.created_at), q.gone_at,
       CASE WHEN q.bound_at >= %(begin_at)s AND q.bound_at < %(end_at)s THEN q.unproven_owner
            ELSE '' END
  FROM metering_queuedpod q
 CROSS JOIN LATERAL (
   SELECT COALESCE(jsonb_object_agg(r.key, r.value), '{}') AS requests
     FROM jsonb_each(q.requests) AS r WHERE jsonb_typeof(r.value) = 'string') bad
 WHERE q.cluster_id = %(cluster_id)s AND q.created_at < %(end_at)s
   AND COALESCE(q.gone_at, 'infinity') > %(begin_at)s
   AND (q.defects <> '[]'
     OR (q.unproven_owner <> '' AND q.bound_at >= %(begin_at)s AND q.bound_at < %(end_at)s)
     OR (q.bound_at < %(end_at)s
       AND jsonb_path_exists(q.requests, '$.* ? (@.type() == "string")')))
 ORDER BY q.pod_uid
"""


def refused_pods(cluster_id: UUID, begin_at: datetime, end_at: datetime) -> tuple[RefusedPod, ...]:
    """Return the pods in [begin_at, end_at) with fields that are not believed, by uid."""
    with connection.cursor() as cursor:
        cursor.execute(_REFUSED, {"cluster_id": cluster_id, "begin_at": begin_at, "end_at": end_at})
        return tuple(
            RefusedPod(uid, namespace, name, json.loads(bad), tuple(json.loads(defects)), *rest)
            for uid, namespace, name, bad, defects, *rest in cursor.fetchall()
        )


_USES = """
SELECT c.claim_uid, c.pod_uid, c.pod_name, COALESCE(NULLIF(c.owner, ''), q.owner, ''),
       CASE WHEN c.begin_at > min(c.begin_at) OVER (PARTITION BY c.claim_uid, c.pod_uid)
         THEN c.begin_at ELSE COALESCE(q.bound_at, c.begin_at) END AS begin_at,
       LEAST(c.end_at, q.gone_at)
  FROM metering_claimconsumer c
  LEFT JOIN metering_queuedpod q ON q.cluster_id = c.cluster_id AND q.pod_uid = c.pod_uid
 WHERE c.cluster_id = %s AND c.claim_uid = ANY(%s)
 ORDER BY c.claim_uid, begin_at, c.pod_uid
"""


def claim_uses(cluster_id: UUID, *, claim_uids: Collection[str]) -> tuple[ClaimUse, ...]:
    """Return which pods used some claims and when, by claim and begin, in one statement.

    Where a pod's bind is known its first use begins there, and a later one when it returned.
    """
    with connection.cursor() as cursor:
        cursor.execute(_USES, [cluster_id, list(claim_uids)])
        return tuple(ClaimUse(*row) for row in cursor.fetchall())


def has_claims(cluster_id: UUID) -> bool:
    """Whether a cluster has had devices to be claimed, or claims that were used."""
    return (
        OfferedDevice.objects.filter(cluster_id=cluster_id).exists()
        or ClaimConsumer.objects.filter(cluster_id=cluster_id).exists()
    )

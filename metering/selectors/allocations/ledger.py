"""The allocation ledger: what pods were found to hold, and how the ends of that are known."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import connection

from metering.domain.allocations.timeline import EndKind, Life
from metering.domain.catalogue.names import sanitise
from metering.domain.collection.windows import whole_second


@dataclass(frozen=True)
class AllocationFact:
    """What a pod holds of one resource, as settled once and for all; see models.PodAllocation.

    Attributes:
        resource: Kubernetes' spelling.
        owner: The user in the pod's label, or "".
    """

    pod_uid: str
    resource: str
    namespace: str
    pod_name: str
    node: str
    owner: str
    units: int
    size: str
    price_group: str
    sharing_mode: str
    product: str
    share_numerator: int
    share_denominator: int
    catalogue_version: int
    begin_at: datetime


FACT_COLUMNS = tuple(AllocationFact.__dataclass_fields__)

AllocationKey = tuple[str, str]
"""Pod uid and sanitised resource name."""


@dataclass(frozen=True)
class LedgerRow:
    """One row of the ledger as it stands now.

    Attributes:
        fact: What is settled; an empty size and catalogue version 0 mean nothing is yet.
        life: From its bind to its end as far as known; the slack reaches forward.
        is_from_api: Whether the cluster's API reported it, not only Prometheus.
        node_labels: They determine the size; only read while there is none.
        priority_class: As it was at the bind; "" without one.
    """

    fact: AllocationFact
    life: Life
    last_seen_at: datetime
    is_from_api: bool
    node_labels: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""

    @property
    def is_sized(self) -> bool:
        """Whether what it holds has a size."""
        return self.fact.size != ""

    @property
    def key(self) -> AllocationKey:
        """Return its unique key in the cluster."""
        return self.fact.pod_uid, sanitise(self.fact.resource)


# A row whose end is a lower bound may still have lasted into the hour. A row that Prometheus opened
# counts as the API's too, once the watch has observed the pod; its bind is the API's.
_ROWS = """
SELECT pod_uid, resource, namespace, pod_name, node, owner, units, size, price_group, sharing_mode,
       product, share_numerator, share_denominator, COALESCE(catalogue_version, 0), begin_at,
       end_at, end_kind, end_slack_seconds, last_seen_at,
       source,
       CASE WHEN source <> 'kubernetes' THEN (
         SELECT q.bound_at FROM metering_queuedpod q
          WHERE q.cluster_id = a.cluster_id AND q.pod_uid = a.pod_uid) END,
       priority_class, CASE WHEN size = '' THEN node_labels ELSE '{}' END
  FROM metering_podallocation a
 WHERE cluster_id = %(cluster_id)s
   AND (pod_uid = ANY(%(pod_uids)s)
        OR (begin_at < %(end_at)s AND end_at IS NULL)
        OR (begin_at < %(end_at)s AND end_at > %(start_at)s)
        OR (begin_at < %(end_at)s AND end_kind = 'vanished_in_gap'
            AND end_at > %(start_at)s - interval '2 days'
            AND end_at + make_interval(secs => end_slack_seconds) > %(start_at)s))
 ORDER BY pod_uid, resource
"""


# What holds something in the hour and was seen in its time or later has samples in it.
_UNSEEN = """
SELECT namespace || '/' || pod_name, count(*) OVER ()
  FROM metering_podallocation
 WHERE cluster_id = %(cluster_id)s AND source = 'prometheus'
   AND (end_at IS NULL OR end_at > %(start_at)s)
   AND begin_at < %(begun_before)s AND last_seen_at >= %(start_at)s
   AND NOT pod_uid = ANY(%(pod_uids)s)
 ORDER BY 1 LIMIT 3
"""


def unseen_pods(
    cluster_id: UUID, *, start_at: datetime, begun_before: datetime, pod_uids: Collection[str]
) -> tuple[int, tuple[str, ...]]:
    """Return how many allocations other hours show in one and this does not, and some names.

    Args:
        cluster_id: The cluster.
        start_at: Begin of the hour.
        begun_before: A moment of the hour from which on a pod may have been seen too late.
        pod_uids: Pods that were seen in the hour.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _UNSEEN,
            {
                "cluster_id": cluster_id,
                "start_at": start_at,
                "begun_before": begun_before,
                "pod_uids": list(pod_uids),
            },
        )
        rows = cursor.fetchall()
    return (rows[0][1] if rows else 0), tuple(name for name, _ in rows)


def ledger_rows(
    cluster_id: UUID, *, start_at: datetime, end_at: datetime, pod_uids: Collection[str]
) -> Mapping[AllocationKey, LedgerRow]:
    """Return the rows of some pods, and of all that may have held something in [start_at, end_at).

    One statement, however many there are.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _ROWS,
            {
                "cluster_id": cluster_id,
                "start_at": start_at,
                "end_at": end_at,
                "pod_uids": list(pod_uids),
            },
        )
        stored = cursor.fetchall()
    # The pods of a node share one mapping, as `Sizer` expects.
    labels = {values[-1]: json.loads(values[-1]) for values in stored}
    rows = [_row(values, labels=labels[values[-1]]) for values in stored]
    return {row.key: row for row in rows}


def _row(values: tuple[object, ...], *, labels: Mapping[str, str]) -> LedgerRow:
    fact_values, rest = values[: len(FACT_COLUMNS)], values[len(FACT_COLUMNS) :]
    fact = AllocationFact(*fact_values)  # type: ignore[arg-type]
    end_at, end_kind, slack, last_seen_at, source, bound_at, priority_class, _ = rest
    life = Life(
        begin_at=whole_second(bound_at if isinstance(bound_at, datetime) else fact.begin_at),
        end_at=whole_second(end_at) if isinstance(end_at, datetime) else None,
        end_kind=EndKind(str(end_kind)),
        slack_seconds=int(str(slack)),
    )
    return LedgerRow(
        fact=fact,
        life=life,
        last_seen_at=last_seen_at,  # type: ignore[arg-type]
        is_from_api=source == "kubernetes" or bound_at is not None,
        node_labels=labels,
        priority_class=str(priority_class),
    )

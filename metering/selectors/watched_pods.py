"""Watched pods: what the API told of pods beside their allocations."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection
from django.db.models import F, OuterRef, Q, Subquery

from metering.domain.claim_split import Use
from metering.models import ClaimConsumer, OfferedDevice, PodAllocation, QueuedPod


@dataclass(frozen=True)
class RefusedPod:
    """A pod of which something cannot be believed, so that the ledger may lack what it held.

    Attributes:
        requests: Raw resource to the request as it was told, of those no pod can have; nothing
            stands in the ledger for them.
        defects: What else cannot be believed, one sentence each.
        begin_at: When it was bound; when it was made, if its bind is what cannot be believed.
    """

    pod_uid: str
    namespace: str
    pod_name: str
    requests: Mapping[str, str]
    defects: tuple[str, ...]
    begin_at: datetime
    gone_at: datetime | None


@dataclass(frozen=True)
class BeginDifference:
    """An allocation another source opened, whose bind the API tells otherwise."""

    pod_uid: str
    resource: str
    begin_at: datetime
    told_begin_at: datetime


@dataclass(frozen=True)
class ClaimUse:
    """A pod's use of a claim, from its bind on where that is known.

    Attributes:
        owner: Whom the pod's label names, or "".
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


_REFUSED = """
SELECT q.pod_uid, q.namespace, q.pod_name, bad.requests, q.defects,
       COALESCE(q.bound_at, q.created_at), q.gone_at
  FROM metering_queuedpod q
 CROSS JOIN LATERAL (
   SELECT COALESCE(jsonb_object_agg(r.key, r.value), '{}') AS requests
     FROM jsonb_each(q.requests) AS r WHERE jsonb_typeof(r.value) = 'string') bad
 WHERE q.cluster_id = %(cluster_id)s AND q.created_at < %(end_at)s
   AND COALESCE(q.gone_at, 'infinity') > %(begin_at)s
   AND (q.defects <> '[]'
     OR (q.bound_at < %(end_at)s
       AND jsonb_path_exists(q.requests, '$.* ? (@.type() == "string")')))
 ORDER BY q.pod_uid
"""


def refused_pods(cluster_id: UUID, begin_at: datetime, end_at: datetime) -> tuple[RefusedPod, ...]:
    """Return the pods in [begin_at, end_at) of which something cannot be believed, by uid."""
    with connection.cursor() as cursor:
        cursor.execute(_REFUSED, {"cluster_id": cluster_id, "begin_at": begin_at, "end_at": end_at})
        return tuple(
            RefusedPod(uid, namespace, name, json.loads(bad), tuple(json.loads(defects)), *times)
            for uid, namespace, name, bad, defects, *times in cursor.fetchall()
        )


def begin_differences(
    cluster_id: UUID, begin_at: datetime, end_at: datetime
) -> tuple[BeginDifference, ...]:
    """Return the allocations in [begin_at, end_at) whose bind the API tells otherwise, by uid.

    Only rows another source opened can differ; what they say was settled before the API was asked.
    """
    told = QueuedPod.objects.filter(cluster_id=cluster_id, pod_uid=OuterRef("pod_uid"))
    rows = (
        PodAllocation.objects.filter(
            Q(end_at__isnull=True) | Q(end_at__gt=begin_at),
            cluster_id=cluster_id,
            source="prometheus",
            begin_at__lt=end_at,
        )
        .annotate(told=Subquery(told.values("bound_at")))
        .filter(told__isnull=False)
        .exclude(told=F("begin_at"))
        .order_by("pod_uid", "resource")
    )
    return tuple(
        BeginDifference(*row) for row in rows.values_list("pod_uid", "resource", "begin_at", "told")
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

    Where a pod's bind is known its first use begins there, and a later one when it came back.
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

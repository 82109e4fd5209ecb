"""Watches: which clusters have one, how far each has come, and what it reported of pods."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import connection
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Greatest

from metering.domain.collection.claim_split import Use
from metering.models import (
    ClaimConsumer,
    ClusterWatch,
    OfferedDevice,
    PodAllocation,
    QueuedPod,
    WatchCursor,
    WatchSpan,
)
from metering.protocols.watch import WatchedKind, WatchTarget
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode
from tenants.models.organization import LifecycleState


@dataclass(frozen=True)
class SpanFact:
    """A time in which the watch was healthy; see models.WatchSpan."""

    begin_at: datetime
    until_at: datetime
    is_resumed: bool


def cursor_of(cluster_id: UUID, kind: WatchedKind) -> str | None:
    """Return the version a watch of this kind continues from, or None when it must list first."""
    return (
        WatchCursor.objects.filter(cluster_id=cluster_id, kind=kind.value)
        .values_list("resource_version", flat=True)
        .first()
    )


def alive_at(cluster_id: UUID, kind: WatchedKind) -> datetime | None:
    """Return when what the ledger has open was last known alive: a heartbeat or a list.

    None when the watch was never healthy and never listed.
    """
    listed = WatchCursor.objects.filter(cluster_id=cluster_id, kind=kind.value).values("listed_at")
    rows = (
        ClusterWatch.objects.filter(cluster_id=cluster_id)
        .annotate(known=Greatest("healthy_at", Subquery(listed)))
        .values_list("known", flat=True)
    )
    return rows.first()


def watch_spans(cluster_id: UUID, begin_at: datetime, end_at: datetime) -> tuple[SpanFact, ...]:
    """Return the healthy spans around [begin_at, end_at), oldest first, in one statement.

    The last span before and the first one after are included, because the span that ends a gap
    shows whether the gap lost anything.
    """
    ours = WatchSpan.objects.filter(cluster_id=cluster_id).order_by("begin_at")
    before = ours.filter(until_at__lt=begin_at).order_by("-begin_at").values("id")[:1]
    after = ours.filter(begin_at__gte=end_at).values("id")[:1]
    inside = Q(until_at__gte=begin_at, begin_at__lt=end_at)
    rows = ours.filter(inside | Q(id__in=before) | Q(id__in=after))
    return tuple(SpanFact(*row) for row in rows.values_list("begin_at", "until_at", "is_resumed"))


OWNER_ANNOTATION: Final = "gpu-ledger.io/owner"
"""What admission writes into pods; where it enforces, no other client can write it."""


@dataclass(frozen=True)
class WatchedCluster:
    """A cluster whose API is to be watched, and how it is reached."""

    cluster_id: UUID
    target: WatchTarget


def watched_clusters(slugs: Collection[str] = ()) -> tuple[WatchedCluster, ...]:
    """Return the open clusters that are to be watched, by slug; of all, or of those named."""
    rows = Cluster.objects.filter(is_watched=True, state=LifecycleState.ACTIVE).order_by("slug")
    if slugs:
        rows = rows.filter(slug__in=slugs)
    return tuple(
        WatchedCluster(
            cluster_id=row.pk,
            target=WatchTarget(
                slug=row.slug,
                kubernetes_url=row.kubernetes_url,
                credential_reference=row.credential_reference,
                user_label=row.user_label,
                owner_annotation=(
                    OWNER_ANNOTATION if row.admission_mode == AdmissionMode.ENFORCE else ""
                ),
            ),
        )
        for row in rows
    )


def heartbeat_ages(*, at: datetime) -> dict[str, int]:
    """Return how long ago each watched cluster's last heartbeat was, in whole seconds.

    A watch that never was healthy counts from when its cluster was registered.
    """
    rows = Cluster.objects.filter(is_watched=True, state=LifecycleState.ACTIVE).order_by("slug")
    times = rows.values_list("slug", "created_at", "watch__healthy_at")
    return {
        slug: max(0, int((at - (healthy_at or created_at)).total_seconds()))
        for slug, created_at, healthy_at in times
    }


@dataclass(frozen=True)
class RefusedPod:
    """A pod with invalid fields, so that the ledger may lack what it held.

    Attributes:
        requests: Raw resource to the request as observed, for impossible requests; they have no
            ledger row.
        defects: Other invalid fields, one sentence each.
        begin_at: When it was bound; when it was created, if its bind is invalid.
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
    """An allocation another source opened, whose bind differs in the API."""

    pod_uid: str
    resource: str
    begin_at: datetime
    reported_begin_at: datetime


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
    """Return the pods in [begin_at, end_at) with invalid fields, by uid."""
    with connection.cursor() as cursor:
        cursor.execute(_REFUSED, {"cluster_id": cluster_id, "begin_at": begin_at, "end_at": end_at})
        return tuple(
            RefusedPod(uid, namespace, name, json.loads(bad), tuple(json.loads(defects)), *times)
            for uid, namespace, name, bad, defects, *times in cursor.fetchall()
        )


def begin_differences(
    cluster_id: UUID, begin_at: datetime, end_at: datetime
) -> tuple[BeginDifference, ...]:
    """Return the allocations in [begin_at, end_at) whose bind differs in the API, by uid.

    Only rows another source opened can differ; their values were settled before the API was
    queried.
    """
    queued = QueuedPod.objects.filter(cluster_id=cluster_id, pod_uid=OuterRef("pod_uid"))
    rows = (
        PodAllocation.objects.filter(
            Q(end_at__isnull=True) | Q(end_at__gt=begin_at),
            cluster_id=cluster_id,
            source="prometheus",
            begin_at__lt=end_at,
        )
        .annotate(queued_bound_at=Subquery(queued.values("bound_at")))
        .filter(queued_bound_at__isnull=False)
        .exclude(queued_bound_at=F("begin_at"))
        .order_by("pod_uid", "resource")
    )
    return tuple(
        BeginDifference(*row)
        for row in rows.values_list("pod_uid", "resource", "begin_at", "queued_bound_at")
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

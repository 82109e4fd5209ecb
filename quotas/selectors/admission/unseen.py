"""Reservations that the watch has not observed, and the clusters whose API can disprove them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection

from quotas.models import ReleaseReason, Reservation, ReservationState
from quotas.protocols import EnforcementEndpoint
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode

UNSEEN_MAX = 1_000
"""Read at a time, oldest first; the rest follows once these are observed or released."""


@dataclass(frozen=True)
class UnseenPod:
    """One pod that was admitted and not observed.

    Attributes:
        reservation_ids: One for each resource.
        controller: As "Kind/name"; "" without one.
    """

    reservation_ids: tuple[int, ...]
    namespace: str
    controller: str
    name: str
    uid: str
    admitted_at: datetime


_UNSEEN = """
SELECT r.id, r.namespace, r.controller, r.pod_name, r.pod_uid, r.admitted_at
  FROM quotas_reservation r
 WHERE r.cluster_id = %s AND r.state = 'reserved' AND r.expires_at IS NOT NULL
   AND r.resource NOT LIKE 'claim/%%'
   AND NOT EXISTS (SELECT FROM metering_queuedpod q
                    WHERE q.cluster_id = r.cluster_id AND q.pod_uid = r.pod_uid)
   AND NOT EXISTS (SELECT FROM metering_podallocation a
                    WHERE a.cluster_id = r.cluster_id AND a.pod_uid = r.pod_uid)
"""
_OLDEST_FIRST = " ORDER BY r.admitted_at, r.id LIMIT %s"
_SIBLINGS = " AND r.namespace = %s AND r.controller = %s AND r.pod_uid <> %s"


def unseen_pods(cluster_id: UUID) -> tuple[UnseenPod, ...]:
    """Return a cluster's unseen pods, oldest first; claims are observed late, and left out."""
    return _pods(_UNSEEN + _OLDEST_FIRST, cluster_id)


def unseen_siblings(
    cluster_id: UUID, namespace: str, controller: str, *, but: str
) -> tuple[UnseenPod, ...]:
    """Return the unseen pods of a controller but one, by its uid; oldest first."""
    statement = _UNSEEN + _SIBLINGS + _OLDEST_FIRST
    return _pods(statement, cluster_id, namespace, controller, but)


def uncounted_pods(cluster_id: UUID, uids: Collection[str]) -> int:
    """Return how many of these pods were released as not created, and were not observed since."""
    rows = Reservation.objects.filter(
        cluster_id=cluster_id,
        pod_uid__in=list(uids),
        state=ReservationState.RELEASED,
        release_reason__in=[ReleaseReason.REPLACED, ReleaseReason.ABSENT],
    )
    return rows.values("pod_uid").distinct().count()


def provable_clusters() -> Mapping[UUID, EnforcementEndpoint]:
    """Return the clusters that admission counts and whose API this service may ask."""
    rows = Cluster.objects.exclude(admission_mode=AdmissionMode.OFF).exclude(
        credential_reference=""
    )
    return {
        row.pk: EnforcementEndpoint(
            slug=row.slug,
            kubernetes_url=row.kubernetes_url,
            credential_reference=row.credential_reference,
        )
        for row in rows
    }


_BUSY = """
SELECT DISTINCT r.cluster_id
  FROM quotas_reservation r
  LEFT JOIN quotas_releaselease l
    ON l.cluster_id = r.cluster_id AND l.holder <> %s AND l.lease_until > clock_timestamp()
 WHERE r.state = 'reserved' AND r.expires_at IS NOT NULL AND l.cluster_id IS NULL
"""


def clusters_to_look_at(holder: str) -> frozenset[UUID]:
    """Return the clusters with reservations that may be unseen, which no other process follows.

    Args:
        holder: Name of the process that asks.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BUSY, [holder])
        return frozenset(cluster_id for (cluster_id,) in cursor.fetchall())


def _pods(statement: str, *values: UUID | str) -> tuple[UnseenPod, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [*values, UNSEEN_MAX])
        found = cursor.fetchall()
    pods: dict[str, UnseenPod] = {}
    for number, namespace, controller, name, uid, admitted_at in found:
        known = pods[uid].reservation_ids if uid in pods else ()
        numbers = (*known, number)
        pods[uid] = UnseenPod(numbers, namespace, controller, name, uid, admitted_at)
    return tuple(pods.values())

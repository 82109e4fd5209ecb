"""Release of reservations whose pods were never created; reasons are in docs/adr/0043."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import connection

from quotas.models import ReleaseReason
from quotas.selectors.admission.unseen import UnseenPod
from tenants.domain.actors import Actor

_TAKE = """
INSERT INTO quotas_releaselease AS l (cluster_id, holder, lease_until)
VALUES (%(cluster_id)s, %(holder)s, clock_timestamp() + make_interval(secs => %(lease)s))
ON CONFLICT (cluster_id) DO UPDATE SET holder = EXCLUDED.holder, lease_until = EXCLUDED.lease_until
 WHERE l.holder = EXCLUDED.holder OR l.lease_until <= clock_timestamp()
RETURNING true
"""


def hold_release_lease(*, cluster_id: UUID, holder: str, lease_seconds: int, actor: Actor) -> bool:
    """Take or prolong the lease to release a cluster's unseen pods; False if another holds it.

    It only saves reads: releases are checked again under the organization's lock, so that two
    processes at once do no harm. It leaves no audit entry.

    Args:
        cluster_id: The cluster.
        holder: Unique name of the process, at most 64 characters.
        lease_seconds: How long the lease lasts without being prolonged.
        actor: The process that releases.
    """
    del actor
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, {"cluster_id": cluster_id, "holder": holder, "lease": lease_seconds})
        return cursor.fetchone() is not None


def surplus_of(
    pods: Collection[UnseenPod], *, lacking: int, present: Collection[str]
) -> tuple[UnseenPod, ...]:
    """Return the unseen pods beyond what their controller lacks, the oldest of them.

    Args:
        pods: All unseen pods of the controller that had asked before the controller was read.
        lacking: How many of them it may still create.
        present: Uids of its pods that exist: these count until they are observed.
    """
    absent = sorted(
        (pod for pod in pods if pod.uid not in present), key=lambda pod: pod.admitted_at
    )
    return tuple(absent[: max(0, len(absent) - lacking)])


def release_unseen(
    *,
    pods: Collection[UnseenPod],
    reason: ReleaseReason,
    present_uid: str = "",
    actor: Actor,
    at: datetime,
) -> int:
    """Release reservations of pods that were not created; return how many were released.

    Those observed or released meanwhile stay as they are. Like every release of admission it leaves
    no audit entry: the reservation keeps its reason.

    Args:
        pods: The pods.
        reason: REPLACED or ABSENT.
        present_uid: Uid of the pod that has the name instead, "" for none. If that pod's own
            reservation was released, this one counts for it, and stays.
        actor: The process that releases.
        at: When, UTC.

    Raises:
        django.db.OperationalError: A lock was held for half a second; nothing was released.
    """
    del actor
    numbers = [number for pod in pods for number in pod.reservation_ids]
    if not numbers:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT quotas_release_unseen(%s::bigint[], %s::text[], %s, %s)",
            [numbers, [present_uid] * len(numbers), reason.value, at],
        )
        (released,) = cursor.fetchone()
    return int(released)

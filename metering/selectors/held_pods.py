"""Facts of pods that hold devices or wait for them: priority, begin, and whether they end."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from metering.models import ClaimConsumer, PodAllocation, QueuedPod


@dataclass(frozen=True)
class HeldPod:
    """One pod as the ledger and the watch know it.

    Attributes:
        priority: The value of its PriorityClass; None when the source does not know.
        began_at: When it was bound; None before.
        is_ending: Its deletion has been asked for, or all it held has ended.
    """

    controller: str
    priority_class: str
    priority: int | None
    began_at: datetime | None
    is_ending: bool


@dataclass(frozen=True)
class ClaimUser:
    """A pod that a device claim is reserved for now."""

    pod_uid: str
    pod_name: str
    owner: str


def held_pods(uids: Iterable[str]) -> Mapping[tuple[UUID, str], HeldPod]:
    """Return what is known of pods, by cluster and uid; two statements.

    Args:
        uids: Of the pods; one that neither the ledger nor the watch knows is left out.
    """
    wanted = list(uids)
    deleted: dict[tuple[UUID, str], bool] = {}
    found: dict[tuple[UUID, str], HeldPod] = {}
    for queued in QueuedPod.objects.filter(pod_uid__in=wanted):
        key = queued.cluster_id, queued.pod_uid
        deleted[key] = queued.deletion_at is not None or queued.gone_at is not None
        found[key] = HeldPod("", queued.priority_class, None, None, deleted[key])
    # Ended ones first: a pod that holds anything still is as its open allocation says.
    for row in PodAllocation.objects.filter(pod_uid__in=wanted).order_by("end_at", "pk"):
        key = row.cluster_id, row.pod_uid
        found[key] = HeldPod(
            controller=row.controller,
            priority_class=row.priority_class,
            priority=row.priority,
            began_at=row.begin_at,
            is_ending=deleted.get(key, False) or row.end_at is not None,
        )
    return found


def claim_users(claim_uids: Iterable[str]) -> Mapping[tuple[UUID, str], tuple[ClaimUser, ...]]:
    """Return the pods of device claims now, by cluster and claim, by name; one statement."""
    users: dict[tuple[UUID, str], tuple[ClaimUser, ...]] = {}
    rows = ClaimConsumer.objects.filter(claim_uid__in=list(claim_uids), end_at=None)
    for row in rows.order_by("pod_name", "pod_uid"):
        key = row.cluster_id, row.claim_uid
        user = ClaimUser(row.pod_uid, row.pod_name, row.owner)
        users[key] = (*users.get(key, ()), user)
    return users

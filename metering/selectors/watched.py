"""Watched clusters: whose API is to be watched, and how their watches are."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from metering.protocols.watch import WatchTarget
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode
from tenants.models.organization import LifecycleState

OWNER_ANNOTATION: Final = "gpu-ledger.io/owner"
"""What admission writes into pods; only where it enforces, nobody else can."""


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

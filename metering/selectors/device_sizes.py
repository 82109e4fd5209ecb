"""Device sizes: what metering knows of a resource name before a pod is bound to a node."""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from metering.domain.gpu_sizes import GPUSize
from metering.models import CapacityRecord

SEEN_WITHIN: Final = timedelta(hours=48)
"""Long enough to outlast a maintenance, short enough to follow a re-partitioning."""


def sizes_seen(*, at: datetime) -> dict[tuple[UUID, str], frozenset[GPUSize]]:
    """Return the sizes each cluster's nodes lately offered under each name, in one statement.

    Keys are cluster id and resource name, as Kubernetes spells it.
    """
    rows = (
        CapacityRecord.objects.filter(window_start__gte=at - SEEN_WITHIN, window_start__lte=at)
        .exclude(size="")
        .values_list("cluster_id", "resource", "size")
        .order_by("cluster_id", "resource", "size")
        .distinct()
    )
    seen: dict[tuple[UUID, str], frozenset[GPUSize]] = {}
    for cluster_id, resource, size in rows:
        key = (cluster_id, resource)
        seen[key] = seen.get(key, frozenset()) | {GPUSize(size)}
    return seen

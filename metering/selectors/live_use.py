"""Live use: what pods hold now, by the open allocations."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet, Sum

from metering.domain.gpu_sizes import GPUSize
from metering.models import PodAllocation


@dataclass(frozen=True)
class HeldUnits:
    """Units of one size held in one namespace by whom a label names; owner "" is no label."""

    cluster_id: UUID
    namespace: str
    owner: str
    size: GPUSize
    units: int


def held_units() -> tuple[HeldUnits, ...]:
    """Return what is held now, one per namespace, owner and size, in one statement.

    Device claims count like pods. What has no size yet counts against no quota of a size.
    """
    rows = (
        PodAllocation.objects.filter(end_at__isnull=True)
        .exclude(size="")
        .values_list("cluster_id", "namespace", "owner", "size")
        .annotate(held=Sum("units"))
        .order_by("cluster_id", "namespace", "owner", "size")
    )
    return tuple(
        HeldUnits(cluster_id, namespace, owner, GPUSize(size), held)
        for cluster_id, namespace, owner, size, held in rows
    )


def open_unsized() -> QuerySet[PodAllocation]:
    """Return what is held now and nobody knows the size of, for whoever asks whether one is.

    Why each is unknown stands among the exceptions of the hours that were metered since.
    """
    return PodAllocation.objects.filter(size="", end_at__isnull=True)

"""Held units by place: what each namespace holds now, by size, GPU model and kind of pod."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Sum

from metering.domain.gpu_sizes import GPUSize
from metering.models import CapacityRecord, PodAllocation
from metering.selectors.device_sizes import SEEN_WITHIN


@dataclass(frozen=True)
class HeldAtPlace:
    """Units held now in one namespace.

    Attributes:
        model_group: Such as "H100": the price group up to its first slash.
        is_burst: Whether preemptible pods hold them.
    """

    cluster_id: UUID
    namespace: str
    size: GPUSize
    model_group: str
    is_burst: bool
    units: int


def held_by_place(*, burst_classes: Iterable[str]) -> tuple[HeldAtPlace, ...]:
    """Return what open allocations hold, in one statement; what has no size yet is left out.

    Args:
        burst_classes: Names of the priority classes of preemptible pods.
    """
    preemptible = frozenset(burst_classes)
    rows = (
        PodAllocation.objects.filter(end_at__isnull=True)
        .exclude(size="")
        .values_list("cluster_id", "namespace", "size", "price_group", "priority_class")
        .annotate(held=Sum("units"))
        .order_by("cluster_id", "namespace", "size", "price_group", "priority_class")
    )
    return tuple(
        HeldAtPlace(
            cluster_id=cluster_id,
            namespace=namespace,
            size=GPUSize(size),
            model_group=price_group.partition("/")[0],
            is_burst=priority_class in preemptible,
            units=units,
        )
        for cluster_id, namespace, size, price_group, priority_class, units in rows
    )


def only_models(*, at: datetime) -> dict[tuple[UUID, str], str]:
    """Return the GPU model group of each resource name that lately was one only, in one statement.

    Keys are cluster id and resource name, as Kubernetes spells it. A name that stood for several
    models, or for one that no rule knows, is left out.
    """
    rows = (
        CapacityRecord.objects.filter(window_start__gte=at - SEEN_WITHIN, window_start__lte=at)
        .values_list("cluster_id", "resource", "price_group")
        .order_by("cluster_id", "resource", "price_group")
        .distinct()
    )
    seen: dict[tuple[UUID, str], set[str]] = {}
    for cluster_id, resource, price_group in rows:
        seen.setdefault((cluster_id, resource), set()).add(price_group.partition("/")[0])
    return {
        key: next(iter(groups))
        for key, groups in seen.items()
        if len(groups) == 1 and "" not in groups
    }

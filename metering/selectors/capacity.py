"""Capacity totals: what clusters offered, against what was billed, held and idle of it."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Sum

from metering.models import CapacityRecord


@dataclass(frozen=True)
class CapacityTotal:
    """One cluster's one size: capacity = billed + held + idle, in unit-seconds of that size."""

    cluster_id: UUID
    size: str
    price_group: str
    capacity_unit_seconds: int
    billed_unit_seconds: int
    held_unit_seconds: int
    idle_unit_seconds: int


def capacity_totals(*, begin_at: datetime, end_at: datetime) -> tuple[CapacityTotal, ...]:
    """Return totals over the windows that start in [begin_at, end_at), by cluster, size and group.

    What no rule could size has the size "".
    """
    rows = (
        CapacityRecord.objects.filter(window_start__gte=begin_at, window_start__lt=end_at)
        .order_by("cluster_id", "size", "price_group")
        .values_list("cluster_id", "size", "price_group")
        .annotate(
            capacity=Sum("capacity_unit_seconds"),
            billed=Sum("billed_unit_seconds"),
            held=Sum("held_unit_seconds"),
            idle=Sum("idle_unit_seconds"),
        )
    )
    return tuple(
        CapacityTotal(cluster_id, size, group, *(int(total) for total in totals))
        for cluster_id, size, group, *totals in rows
    )

"""Cluster health added up over hours, for dashboards."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Max, Sum

from metering.models import ClusterHealth


@dataclass(frozen=True)
class HealthTotal:
    """One cluster over a range of hours; what no source knew is None.

    Attributes:
        pending_pods_max: Most GPU pods that waited at the end of an hour.
    """

    cluster_id: UUID
    hours: int
    expected_seconds: int | None
    ready_seconds: int | None
    pending_pods_max: int | None
    wait_seconds_max: int | None
    memory_errors: int
    failures: int


def health_totals(*, begin_at: datetime, end_at: datetime) -> tuple[HealthTotal, ...]:
    """Return each cluster's health over the hours that start in [begin_at, end_at), by its id."""
    rows = (
        ClusterHealth.objects.filter(window_start__gte=begin_at, window_start__lt=end_at)
        .order_by("cluster_id")
        .values_list("cluster_id")
        .annotate(
            hours=Count("pk"),
            expected=Sum("expected_seconds"),
            ready=Sum("ready_seconds"),
            pending=Max("pending_pods"),
            waited=Max("wait_seconds_max"),
            memory=Sum("memory_errors"),
            failed=Sum("failures"),
        )
    )
    return tuple(
        HealthTotal(cluster_id, hours, _whole(expected), _whole(ready), pending, waited, *counts)
        for cluster_id, hours, expected, ready, pending, waited, *counts in rows
    )


def _whole(total: object) -> int | None:
    return None if total is None else int(str(total))

"""Windows: how far each cluster's metering has come, for people and for summaries."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import Avg, Count, Max, Min, Q, Sum

from metering.domain.window_state import WindowState
from metering.models import MeteringWindow


@dataclass(frozen=True)
class ClusterProgress:
    """How far one cluster's metering has come within a range of hours.

    Attributes:
        waiting: Windows that wait for a person: gaps and quarantined ones.
        first_unsealed_at: Oldest hour that is not sealed; None when all are.
        mean_coverage: Mean share of scrapes seen over the collected windows; None without any.
    """

    cluster_id: UUID
    windows: int
    sealed: int
    waiting: int
    records: int
    first_unsealed_at: datetime | None
    last_start_at: datetime
    mean_coverage: Decimal | None


def cluster_progress(*, begin_at: datetime, end_at: datetime) -> tuple[ClusterProgress, ...]:
    """Return the progress of every cluster with windows in [begin_at, end_at), by its id."""
    is_sealed = Q(state=WindowState.SEALED.value)
    waits = Q(state__in=[WindowState.GAP.value, WindowState.QUARANTINED.value])
    rows = (
        MeteringWindow.objects.filter(start_at__gte=begin_at, start_at__lt=end_at)
        .order_by("cluster_id")
        .values("cluster_id")
        .annotate(
            windows=Count("id"),
            sealed=Count("id", filter=is_sealed),
            waiting=Count("id", filter=waits),
            first_unsealed_at=Min("start_at", filter=~is_sealed),
            last_start_at=Max("start_at"),
            usage_records=Sum("record_count"),
            mean_coverage=Avg("coverage"),
        )
    )
    return tuple(
        ClusterProgress(
            cluster_id=row["cluster_id"],
            windows=row["windows"],
            sealed=row["sealed"],
            waiting=row["waiting"],
            records=row["usage_records"],
            first_unsealed_at=row["first_unsealed_at"],
            last_start_at=row["last_start_at"],
            mean_coverage=row["mean_coverage"],
        )
        for row in rows
    )

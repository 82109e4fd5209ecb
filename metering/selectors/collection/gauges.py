"""Gauges of metering, for operators' metrics: a fixed number of statements, whatever the load."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min

from metering.models import ExceptionState, MeteringException, MeteringWindow, WindowState


@dataclass(frozen=True)
class WindowGauge:
    """How many windows of a cluster are in one state."""

    cluster: str
    state: str
    windows: int


def windows_by_state() -> tuple[WindowGauge, ...]:
    """Return how many windows there are, by cluster and state."""
    rows = (
        MeteringWindow.objects.order_by("cluster__slug", "state")
        .values_list("cluster__slug", "state")
        .annotate(windows=Count("pk"))
    )
    return tuple(WindowGauge(*row) for row in rows)


def oldest_due_window(*, at: datetime) -> dict[str, int]:
    """Return how long ago each cluster's oldest unsealed window fell due, in whole seconds.

    Clusters with nothing due are left out. What waits for a person counts as due.
    """
    rows = (
        MeteringWindow.objects.exclude(state=WindowState.SEALED)
        .filter(not_before__lte=at)
        .order_by("cluster__slug")
        .values_list("cluster__slug")
        .annotate(oldest=Min("not_before"))
    )
    return {slug: int((at - oldest).total_seconds()) for slug, oldest in rows}


def open_exceptions_by_kind() -> dict[str, int]:
    """Return how many exceptions wait for a person, by kind."""
    rows = (
        MeteringException.objects.filter(state=ExceptionState.OPEN)
        .order_by("kind")
        .values_list("kind")
        .annotate(exceptions=Count("pk"))
    )
    return dict(rows)

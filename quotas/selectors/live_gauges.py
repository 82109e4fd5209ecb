"""Gauges of admission: what `/metrics` tells of reservations, counters and refusals."""

from django.db.models import Count, Sum

from quotas.models import (
    AdmissionRefusal,
    QuotaCounter,
    Reservation,
    ReservationOrigin,
    ReservationState,
)
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode
from tenants.models.organization import LifecycleState


def reservations_by_state() -> dict[tuple[str, str], int]:
    """Return how many reservations count now, by cluster slug and state; two statements.

    An active cluster stands with zero for both states.
    """
    clusters = Cluster.objects.filter(state=LifecycleState.ACTIVE).order_by("slug")
    found = dict.fromkeys(
        (
            (slug, state.value)
            for slug in clusters.values_list("slug", flat=True)
            for state in (ReservationState.RESERVED, ReservationState.HELD)
        ),
        0,
    )
    rows = (
        Reservation.objects.exclude(state=ReservationState.RELEASED)
        .order_by()
        .values_list("cluster__slug", "state")
        .annotate(count=Count("pk"))
    )
    return found | {(slug, state): count for slug, state, count in rows}


def live_bypasses() -> dict[str, int]:
    """Return how many pods hold units that nobody let in, by slug of a cluster that admits."""
    admitting = Cluster.objects.exclude(admission_mode=AdmissionMode.OFF)
    found = dict.fromkeys(admitting.order_by("slug").values_list("slug", flat=True), 0)
    rows = (
        Reservation.objects.exclude(state=ReservationState.RELEASED)
        .exclude(cluster__admission_mode=AdmissionMode.OFF)
        .filter(origin=ReservationOrigin.FOUND)
        .order_by()
        .values_list("cluster__slug")
        .annotate(count=Count("pk"))
    )
    return found | dict(rows)


def counter_drift() -> int:
    """Return by how many units counters were off when they were last compared; 0 is right."""
    return QuotaCounter.objects.aggregate(units=Sum("drift_units"))["units"] or 0


def refusals_by_code() -> dict[str, int]:
    """Return how many pods were ever refused, by code; only what happened stands here."""
    rows = (
        AdmissionRefusal.objects.order_by("code").values_list("code").annotate(total=Sum("count"))
    )
    return dict(rows)

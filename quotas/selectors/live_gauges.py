"""Gauges of admission: what `/metrics` tells of reservations, counters and refusals."""

from collections import Counter

from django.db.models import Count, Exists, OuterRef, Sum

from metering.selectors.live_use import open_unsized
from quotas.models import (
    AdmissionRefusal,
    QuotaCounter,
    ReleaseReason,
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
    """Return how many pods hold units that nobody let in, by slug of a cluster that admits.

    Those nobody knows the size of are among them, though they count against no limit.
    """
    admitting = Cluster.objects.exclude(admission_mode=AdmissionMode.OFF).order_by("slug")
    found = Counter(dict.fromkeys(admitting.values_list("slug", flat=True), 0))
    of_nobody = (
        Reservation.objects.filter(origin=ReservationOrigin.FOUND)
        .exclude(cluster__admission_mode=AdmissionMode.OFF)
        .order_by()
    )
    sized = of_nobody.exclude(state=ReservationState.RELEASED)
    for slug, count in sized.values_list("cluster__slug").annotate(count=Count("pk")):
        found[slug] += count
    still = open_unsized().filter(
        cluster_id=OuterRef("cluster_id"),
        pod_uid=OuterRef("pod_uid"),
        resource=OuterRef("resource"),
    )
    unsized = of_nobody.filter(Exists(still), release_reason=ReleaseReason.UNSIZED)
    for slug, count in unsized.values_list("cluster__slug").annotate(count=Count("pk")):
        found[slug] += count
    return dict(found)


def counter_drift() -> int:
    """Return by how many units counters were off when they were last compared; 0 is right."""
    return QuotaCounter.objects.aggregate(units=Sum("drift_units"))["units"] or 0


def refusals_by_code() -> dict[str, int]:
    """Return how many pods were ever refused, by code; only what happened stands here."""
    rows = (
        AdmissionRefusal.objects.order_by("code").values_list("code").annotate(total=Sum("count"))
    )
    return dict(rows)

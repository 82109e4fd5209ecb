"""Gauges of quotas and admission for `/metrics`."""

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, Q, Sum

from metering.selectors.allocations.held import open_unsized
from quotas.models import (
    AdmissionRefusal,
    EnforcementTarget,
    QuotaCounter,
    ReleaseReason,
    Reservation,
    ReservationOrigin,
    ReservationState,
)
from quotas.selectors.enforcement.targets import UNSETTLED
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode
from tenants.models.organization import LifecycleState


def unapplied_targets() -> dict[str, int]:
    """Return how many namespaces' quotas are not yet true, by cluster slug; two statements.

    An active cluster without any is included with zero.
    """
    clusters = Cluster.objects.filter(state=LifecycleState.ACTIVE).order_by("slug")
    unsettled = EnforcementTarget.objects.filter(
        UNSETTLED, cluster__state=LifecycleState.ACTIVE
    ).values_list("cluster__slug")
    counts = dict(unsettled.order_by("cluster__slug").annotate(targets=Count("pk")))
    return {slug: counts.get(slug, 0) for slug in clusters.values_list("slug", flat=True)}


@dataclass(frozen=True)
class TargetInterference:
    """What others did to the quotas of a cluster's namespaces.

    Attributes:
        drifts_repaired: How often a quota that was changed or deleted there was repaired.
        foreign_namespaces: In how many namespaces another keeps a GPU quota too.
    """

    drifts_repaired: int
    foreign_namespaces: int


def interference() -> dict[str, TargetInterference]:
    """Return what others did to quotas, by cluster slug; one statement."""
    rows = (
        EnforcementTarget.objects.order_by("cluster__slug")
        .values_list("cluster__slug")
        .annotate(
            repaired=Sum("drifts_repaired"),
            foreign=Count("pk", filter=~Q(foreign_quotas={})),
        )
    )
    return {slug: TargetInterference(repaired, foreign) for slug, repaired, foreign in rows}


def reservations_by_state() -> dict[tuple[str, str], int]:
    """Return how many reservations count now, by cluster slug and state; two statements.

    An active cluster is included with zero for both states.
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
    """Return how many pods hold units without admission, by slug of a cluster that admits.

    Pods of unknown size are included, though they count against no limit.
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

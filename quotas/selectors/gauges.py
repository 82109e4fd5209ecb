"""Gauges: what `/metrics` tells of quotas."""

from dataclasses import dataclass

from django.db.models import Count, Q, Sum

from quotas.models import EnforcementTarget
from quotas.selectors.enforcement import UNSETTLED
from tenants.models import Cluster
from tenants.models.organization import LifecycleState


def unapplied_targets() -> dict[str, int]:
    """Return how many namespaces' quotas are not yet true, by cluster slug; two statements.

    An active cluster where all of them are stands with zero.
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

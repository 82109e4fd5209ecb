"""Gauges: what `/metrics` tells of quotas."""

from django.db.models import Count, Sum

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


def drifts_repaired() -> dict[str, int]:
    """Return how often a quota that somebody had changed was repaired, by cluster slug."""
    rows = EnforcementTarget.objects.values_list("cluster__slug").order_by("cluster__slug")
    summed = rows.annotate(repaired=Sum("drifts_repaired"))
    return {slug: repaired for slug, repaired in summed}  # noqa: C416 - As below.


def foreign_quotas() -> dict[str, int]:
    """Return in how many namespaces somebody else keeps a GPU quota too, by cluster slug."""
    rows = EnforcementTarget.objects.exclude(foreign_quotas={}).values_list("cluster__slug")
    counted = rows.annotate(namespaces=Count("pk")).order_by("cluster__slug")
    return {slug: namespaces for slug, namespaces in counted}  # noqa: C416 - mypy knows tuples.

"""Gauges: what `/metrics` tells of quotas."""

from collections import Counter

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
    ).values_list("cluster__slug", flat=True)
    counts = Counter(unsettled)
    return {slug: counts[slug] for slug in clusters.values_list("slug", flat=True)}

"""Gauges of quotas, for operators' metrics."""

from django.db.models import Count, F, Q

from quotas.models import EnforcementState, EnforcementTarget


def unapplied_targets() -> dict[str, int]:
    """Return how many namespaces' quotas are not yet true in their cluster, by cluster slug."""
    rows = (
        EnforcementTarget.objects.filter(
            Q(applied_generation__lt=F("desired_generation")) | ~Q(state=EnforcementState.APPLIED)
        )
        .order_by("cluster__slug")
        .values_list("cluster__slug")
        .annotate(targets=Count("pk"))
    )
    return dict(rows)

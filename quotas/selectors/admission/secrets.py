"""Secrets in force, as the admission server checks them."""

from collections import defaultdict
from collections.abc import Mapping

from quotas.models import WebhookSecret
from tenants.models import Cluster
from tenants.models.organization import LifecycleState


def cluster_named(slug: str) -> Cluster | None:
    """Return a cluster, active or not; None when there is none."""
    return Cluster.objects.filter(slug=slug).first()


def webhook_digests() -> Mapping[str, tuple[str, ...]]:
    """Return the hashes of all secrets in force by the slug of an active cluster."""
    rows = WebhookSecret.objects.filter(
        ended_at__isnull=True, cluster__state=LifecycleState.ACTIVE
    ).values_list("cluster__slug", "digest")
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for slug, digest in rows:
        found[slug] += (digest,)
    return dict(found)

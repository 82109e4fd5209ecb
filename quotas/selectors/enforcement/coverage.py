"""Coverage: the clusters in which admission counts every pod exactly, by what was read there."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import F

from metering.selectors.allocations.watch import class_names
from quotas.domain.enforcement.coverage import WebhookCoverage
from quotas.models import AdmissionCoverage, EnforcementTarget
from quotas.selectors.enforcement.targets import UNSETTLED
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode, FailurePolicy, QuotaTarget

SETTLED_AFTER: Final = timedelta(minutes=2)
"""How long webhooks must be there before limits are not divided any more: until then an API server
may not use them yet, and pods from before may not be counted."""
OBSERVED_AFTER: Final = timedelta(minutes=1)
"""How long after the webhooks came the watch must have been healthy, to know those pods."""
KEPT_FOR: Final = timedelta(minutes=5)
"""How long a reading counts while the cluster cannot be read; nothing can be written then."""
NOT_SET: Final = "The cluster is not set to enforce and to deny on failure."
NOT_READ: Final = "The webhooks of the cluster were not read yet."
NOT_ASKED: Final = "The webhooks do not ask about this namespace."


def must_count(cluster: Cluster) -> bool:
    """Whether a cluster is set to create no pod that admission has not counted.

    Kueue admits workloads by its own queues, so their quotas stay divided.
    """
    return (
        cluster.is_watched
        and cluster.admission_mode == AdmissionMode.ENFORCE
        and cluster.admission_on_failure == FailurePolicy.DENY
        and cluster.quota_target == QuotaTarget.RESOURCE_QUOTA
    )


def names_asked(cluster: Cluster) -> frozenset[str]:
    """Return every resource name by which pods of a cluster can request GPUs; one statement."""
    return frozenset((*cluster.offered_resources, *class_names(cluster.pk).values()))


def counted_by_cluster(
    clusters: Mapping[UUID, Cluster], *, at: datetime
) -> dict[UUID, WebhookCoverage]:
    """Return which namespaces are counted exactly, by cluster id; one statement.

    Args:
        clusters: Which clusters, by id.
        at: When, UTC.
    """
    rows = AdmissionCoverage.objects.filter(
        cluster__in=[pk for pk, cluster in clusters.items() if must_count(cluster)],
        covered_at__lte=at - SETTLED_AFTER,
        checked_at__gte=at - KEPT_FOR,
        cluster__watch__healthy_at__gte=F("covered_at") + OBSERVED_AFTER,
    )
    return {row.cluster_id: _settled(row, at=at) for row in rows.select_related("cluster__watch")}


def _settled(row: AdmissionCoverage, *, at: datetime) -> WebhookCoverage:
    """Return what is covered without the namespaces that were named only lately."""
    found, since = coverage_of(row), named_since(row)
    if found.included is None:
        return found
    healthy_at = row.cluster.watch.healthy_at
    assert healthy_at is not None  # noqa: S101 - By the filter above; narrows the type.
    known_until = min(at - SETTLED_AFTER, healthy_at - OBSERVED_AFTER)
    return replace(
        found, included=frozenset(name for name in found.included if since[name] <= known_until)
    )


def named_since(row: AdmissionCoverage) -> Mapping[str, datetime]:
    """Return since when each named namespace is covered; empty where all are, or none."""
    if row.covered_at is None or row.included is None:
        return {}
    # Those of a row from before they were dated are covered as long as all.
    dated = row.included if isinstance(row.included, dict) else dict.fromkeys(row.included)
    return {
        name: row.covered_at if text is None else datetime.fromisoformat(text)
        for name, text in dated.items()
    }


def uncounted_reason(target: EnforcementTarget) -> str:
    """Return why limits of a namespace are divided; "" where admission counts every pod there."""
    if not must_count(target.cluster):
        return NOT_SET
    row = getattr(target.cluster, "admission_coverage", None)
    if row is None or row.checked_at is None:
        return NOT_READ
    coverage = coverage_of(row)
    return coverage.problem or ("" if coverage.covers(target.namespace) else NOT_ASKED)


def may_be_whole(cluster_id: UUID) -> bool:
    """Whether a namespace of a cluster may still have a limit that should be divided by now."""
    row = AdmissionCoverage.objects.filter(cluster=cluster_id).first()
    if row is None or row.covered_at is not None:
        return row is not None
    return EnforcementTarget.objects.filter(UNSETTLED, cluster=cluster_id).exists()


def coverage_of(row: AdmissionCoverage) -> WebhookCoverage:
    """Return what was last read of a cluster."""
    return WebhookCoverage(
        excluded=frozenset(row.excluded),
        included=None if row.included is None else frozenset(row.included),
        problem=row.problem if row.covered_at is None else "",
    )

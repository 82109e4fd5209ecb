"""Coverage: read in each cluster whether its API server asks about every pod with GPUs.

A setting alone proves nothing: the configuration may not be applied yet, or be removed by hand.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import structlog
from django.db import transaction

from quotas.domain.enforcement.coverage import WebhookCoverage, find_coverage
from quotas.models import AdmissionCoverage
from quotas.protocols import QuotaEnforcer
from quotas.selectors.enforcement.coverage import (
    NOT_SET,
    coverage_of,
    must_count,
    named_since,
    names_asked,
)
from quotas.selectors.enforcement.targets import clusters_enforced
from quotas.services.enforcement.asking import ClusterAnswer, ask_all, endpoint_of_cluster
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tenants.selectors.locks import lock_rows
from tenants.services.audit import record
from tenants.services.turns import report_crash

Webhooks = tuple[Mapping[str, Any], ...]
log = structlog.get_logger(__name__)


def refresh_coverage(*, enforcer: QuotaEnforcer, actor: Actor, at: datetime) -> int:
    """Read the webhooks of every cluster that is set to count; return how many changed.

    Args:
        enforcer: Client of the clusters.
        actor: The account that reads; usually the service itself.
        at: When, UTC; an answer is not written over a later one.
    """
    clusters = [cluster for cluster in clusters_enforced().values() if must_count(cluster)]
    changed = 0
    for answer in ask_all(
        clusters,
        lambda one: enforcer.read_webhooks(endpoint_of_cluster(one)),
        slug_of=lambda one: one.slug,
        actor=actor,
        at=at,
    ):
        changed += _note(answer, actor=actor, at=at)
    known = {cluster.pk for cluster in clusters}
    ended = AdmissionCoverage.objects.exclude(cluster__in=known).exclude(covered_at=None)
    for row in ended.select_related("cluster"):
        changed += _write(row.cluster, WebhookCoverage(problem=NOT_SET), actor=actor, at=at)
    return changed


def _note(answer: ClusterAnswer[Cluster, Webhooks], *, actor: Actor, at: datetime) -> bool:
    """Write what was read; an old reading stays for a while where nothing could be read."""
    cluster, error = answer.asked, answer.error
    if answer.live is not None:
        found = find_coverage(answer.live, cluster=cluster.slug, offered=names_asked(cluster))
        return _write(cluster, found, actor=actor, at=at)
    if not isinstance(error, SourceUnavailableError):
        assert error is not None  # noqa: S101 - Without an answer there is an error.
        report_crash(error, event="quotas.coverage.crashed", key=cluster.pk, at=at)
        return False
    log.warning("quotas.coverage.unread", cluster=cluster.slug, reason=error.reason)
    return False


@transaction.atomic
def _write(cluster: Cluster, found: WebhookCoverage, *, actor: Actor, at: datetime) -> bool:
    """Write a reading; return whether it changes what is covered.

    What is covered anew begins anew, so that every pod from before is counted first: a namespace
    alone where all that are covered are named, else all of them.
    """
    AdmissionCoverage.objects.get_or_create(cluster=cluster)
    (row,) = lock_rows(AdmissionCoverage.objects.filter(cluster=cluster))
    if row.checked_at is not None and row.checked_at > at:
        return False
    before, began_at, since = coverage_of(row), row.covered_at, named_since(row)
    if found.problem:
        row.covered_at = None
    elif began_at is None or not found.is_within(before.with_named(found)):
        row.covered_at, since = at, {}
    elif before.included is None:
        since = dict.fromkeys(found.included or (), began_at)
    row.excluded = sorted(found.excluded)
    names = sorted(found.included or ())
    row.included = {name: since.get(name, at).isoformat() for name in names}
    if found.included is None:
        row.included = None
    row.problem = found.problem
    row.checked_at = at
    row.save(update_fields=["covered_at", "excluded", "included", "problem", "checked_at"])
    if row.covered_at == began_at:
        return False
    record(
        actor=actor,
        at=at,
        action="quotas:coverage:change",
        object_kind="admission_coverage",
        object_id=cluster.pk,
        facts={
            "cluster": cluster.slug,
            "is_covered": row.covered_at is not None,
            "excluded": row.excluded,
            "included": None if found.included is None else names,
            "problem": row.problem,
        },
    )
    log.info("quotas.coverage.changed", cluster=cluster.slug, is_covered=row.covered_at is not None)
    return True

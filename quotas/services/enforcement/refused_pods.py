"""Refused pods: read in each cluster which workloads lack pods because of our quotas."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction

from quotas.domain.enforcement.refused_pods import RefusedWorkload
from quotas.models import EnforcementTarget
from quotas.protocols import QuotaEnforcer
from quotas.selectors.enforcement.targets import clusters_enforced
from quotas.services.enforcement.asking import ClusterAnswer, ask_all, endpoint_of_cluster
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tenants.selectors.locks import lock_rows
from tenants.services.turns import report_crash

READ_EVERY: Final = timedelta(seconds=14)
"""How long a reading counts as new: one for each plan by the clock, none for one after a change."""
ASKED_FOR: Final = timedelta(minutes=20)
"""How old the last refusal may be: a ReplicaSet tries again after at most 1,000 s."""
log = structlog.get_logger(__name__)


def refresh_refused_pods(*, enforcer: QuotaEnforcer, actor: Actor, at: datetime) -> int:
    """Read every cluster that was not read lately; return how many workloads lack pods.

    Args:
        enforcer: Client of the clusters.
        actor: The account that reads; usually the service itself.
        at: When, UTC.
    """
    read = EnforcementTarget.objects.filter(refused_read_at__gt=at - READ_EVERY)
    recent = set(read.values_list("cluster_id", flat=True))
    planned = set(EnforcementTarget.objects.values_list("cluster_id", flat=True).distinct())
    found = 0
    for answer in ask_all(
        [one for pk, one in clusters_enforced().items() if pk in planned - recent],
        lambda one: enforcer.read_refused(endpoint_of_cluster(one), since=at - ASKED_FOR),
        slug_of=lambda one: one.slug,
        actor=actor,
        at=at,
    ):
        found += _note(answer, at=at)
    return found


def _note(answer: ClusterAnswer[Cluster, tuple[RefusedWorkload, ...]], *, at: datetime) -> int:
    """Write what was read; an old reading stays for a while where nothing could be read."""
    error = answer.error
    if answer.live is not None:
        _write(answer.asked, answer.live, at=at)
        return len(answer.live)
    if not isinstance(error, SourceUnavailableError):
        assert error is not None  # noqa: S101 - Without an answer there is an error.
        report_crash(error, event="quotas.refused_pods.crashed", key=answer.asked.pk, at=at)
        return 0
    log.warning("quotas.refused_pods.unread", cluster=answer.asked.slug, reason=error.reason)
    return 0


@transaction.atomic
def _write(cluster: Cluster, workloads: Iterable[RefusedWorkload], *, at: datetime) -> None:
    by_namespace: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in workloads:
        by_namespace[one.namespace].append(
            {
                "workload": one.workload,
                "requested": dict(one.requested),
                "pods": one.pods,
                "asked_at": one.asked_at.isoformat(),
                "is_burst": one.is_burst,
            }
        )
    targets = lock_rows(EnforcementTarget.objects.filter(cluster=cluster))
    for target in targets:
        target.refused_pods = by_namespace.get(target.namespace, [])
        target.refused_read_at = at
    EnforcementTarget.objects.bulk_update(targets, ["refused_pods", "refused_read_at"], 1_000)

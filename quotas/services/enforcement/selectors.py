"""Selectors: webhooks that ask about bound namespaces alone name those that are bound now.

Where a cluster does not allow it, its configuration stays as it was applied, and is reported.
"""

from datetime import datetime

import structlog
from django.db import transaction

from quotas.protocols import QuotaEnforcer, SelectorChange
from quotas.selectors.admission.facts import bound_by_cluster
from quotas.selectors.enforcement.targets import clusters_enforced
from quotas.services.enforcement.asking import ClusterAnswer, ask_all, endpoint_of_cluster
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tenants.models.cluster import AdmissionMode
from tenants.services.audit import record
from tenants.services.turns import report_crash

log = structlog.get_logger(__name__)


def follow_bindings(*, enforcer: QuotaEnforcer, actor: Actor, at: datetime) -> int:
    """Bring selectors that name namespaces up to the bindings; return in how many clusters.

    Bindings that begin later are named before they begin.

    Args:
        enforcer: Client of the clusters.
        actor: The account that writes; usually the service itself.
        at: When, UTC.
    """
    clusters = [
        cluster
        for cluster in clusters_enforced().values()
        if cluster.admission_mode != AdmissionMode.OFF
    ]
    bound = bound_by_cluster([cluster.pk for cluster in clusters], at=at)
    answers = ask_all(
        clusters,
        lambda one: enforcer.follow_bound(endpoint_of_cluster(one), bound[one.pk]),
        slug_of=lambda one: one.slug,
        actor=actor,
        at=at,
    )
    return sum(_note(answer, actor=actor, at=at) for answer in answers)


@transaction.atomic
def _note(answer: ClusterAnswer[Cluster, SelectorChange], *, actor: Actor, at: datetime) -> bool:
    """Audit a change of a cluster's selectors; return whether there was one."""
    cluster, change, error = answer.asked, answer.live, answer.error
    if isinstance(error, SourceUnavailableError):
        log.warning("quotas.selectors.not_followed", cluster=cluster.slug, reason=error.reason)
    elif change is None:
        assert error is not None  # noqa: S101 - Without an answer there is an error.
        report_crash(error, event="quotas.selectors.crashed", key=cluster.pk, at=at)
    if change is None or not change.is_changed:
        return False
    record(
        actor=actor,
        at=at,
        action="quotas:selectors:follow",
        object_kind="cluster",
        object_id=cluster.pk,
        facts={
            "cluster": cluster.slug,
            "added": sorted(change.added),
            "removed": sorted(change.removed),
        },
    )
    return True

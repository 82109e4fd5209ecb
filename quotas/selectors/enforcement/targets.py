"""Facts of enforcement: which namespaces there are, what binds them, and what is due.

Every function is a fixed number of statements, however many namespaces, limits and pods there are.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q

from quotas.domain.enforcement.planning import GrantedLimit
from quotas.domain.limits.selectors import LimitSelector
from quotas.models import (
    EnforcementState,
    EnforcementTarget,
    LimitScope,
)
from quotas.selectors.limits.in_force import limits_in_force
from tenants.models import Cluster, NamespaceBinding
from tenants.models.cluster import QuotaTarget
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows

DRIFT_CHECK_EVERY: Final = timedelta(minutes=10)
"""How long a namespace's quota is believed without being read again."""
Key = tuple[UUID, str]
"""Cluster id and namespace."""


@dataclass(frozen=True)
class Bound:
    """Tenant of a namespace now."""

    project_id: UUID
    organization_id: UUID


def clusters_enforced() -> dict[UUID, Cluster]:
    """Return the active clusters whose Kubernetes API is known, by id."""
    rows = Cluster.objects.filter(state=LifecycleState.ACTIVE).exclude(
        kubernetes_url="", credential_reference=""
    )
    return {cluster.pk: cluster for cluster in rows}


def clusters_with_resource_quotas(slugs: Collection[str] = ()) -> tuple[Cluster, ...]:
    """Return the enforced clusters with ResourceQuotas, by slug; all of them, or those named."""
    found = clusters_enforced().values()
    return tuple(
        sorted(
            (
                cluster
                for cluster in found
                if cluster.quota_target == QuotaTarget.RESOURCE_QUOTA
                and (not slugs or cluster.slug in slugs)
            ),
            key=lambda cluster: cluster.slug,
        )
    )


def bindings_in_force(*, at: datetime, organization_id: UUID | None = None) -> dict[Key, Bound]:
    """Return the tenant of each namespace at a time, by cluster id and namespace.

    A namespace of a closed project or organization has no tenant.

    Args:
        at: When, UTC.
        organization_id: Only its namespaces, and those planned for it before, whatever their tenant
            is now; None for all.
    """
    rows = NamespaceBinding.objects.filter(
        valid__contains=at,
        project__state=LifecycleState.ACTIVE,
        project__organization__state=LifecycleState.ACTIVE,
    )
    if organization_id is not None:
        planned = EnforcementTarget.objects.filter(
            cluster=OuterRef("cluster"),
            namespace=OuterRef("namespace"),
            project__organization_id=organization_id,
        )
        rows = rows.filter(Q(project__organization_id=organization_id) | Exists(planned))
    columns = rows.values_list("cluster_id", "namespace", "project_id", "project__organization_id")
    return {
        (cluster_id, namespace): Bound(project_id, owner_id)
        for cluster_id, namespace, project_id, owner_id in columns
    }


def granted_limits(
    *, at: datetime, clusters: Mapping[UUID, Cluster], organization_id: UUID | None = None
) -> tuple[GrantedLimit, ...]:
    """Return the limits that apply to namespaces at a time; users' limits do not.

    Suspensions are in `Ground`, since they apply to tenants without a limit too.
    """
    wanted = None if organization_id is None else [organization_id]
    return tuple(
        GrantedLimit(
            organization_id=limit.organization_id,
            project_id=limit.project_id,
            selector=LimitSelector(
                limit.size,
                limit.model_group,
                "" if limit.cluster_id is None else clusters[limit.cluster_id].slug,
            ),
            nominal_units=None if limit.nominal_units is None else max(0, limit.nominal_units),
            burst_units=limit.burst_units,
            overcommit_percent=limit.overcommit_percent,
        )
        for limit in limits_in_force(at=at, organization_ids=wanted)
        if limit.scope != LimitScope.USER
        and (limit.cluster_id is None or limit.cluster_id in clusters)
    )


def lock_targets(
    *, at: datetime, organization_id: UUID | None = None
) -> dict[Key, EnforcementTarget]:
    """Lock targets until the transaction ends, by cluster id and namespace.

    Args:
        at: When, UTC.
        organization_id: Only those planned for it, or in a namespace that is bound to it now; None
            for all.
    """
    rows = EnforcementTarget.objects.all()
    if organization_id is not None:
        bound = NamespaceBinding.objects.filter(
            cluster=OuterRef("cluster"),
            namespace=OuterRef("namespace"),
            project__organization_id=organization_id,
            valid__contains=at,
        )
        rows = rows.filter(Q(project__organization_id=organization_id) | Exists(bound))
    return {(target.cluster_id, target.namespace): target for target in lock_rows(rows)}


def due_target_ids(*, at: datetime, limit: int) -> list[int]:
    """Return targets that still have to be applied, longest due first.

    Args:
        at: When, UTC.
        limit: How many at most.
    """
    rows = EnforcementTarget.objects.filter(
        UNSETTLED, not_before__lte=at, cluster__state=LifecycleState.ACTIVE
    )
    return list(rows.order_by("not_before", "pk").values_list("pk", flat=True)[:limit])


UNSETTLED: Final = ~Q(state=EnforcementState.APPLIED) | Q(
    applied_generation__lt=F("desired_generation")
)
"""Targets whose desired quota has not been read back from the cluster."""


def settled_targets(cluster_id: UUID) -> tuple[EnforcementTarget, ...]:
    """Return the targets of a cluster whose desired quota was read back, with their tenants."""
    rows = EnforcementTarget.objects.filter(~UNSETTLED, cluster_id=cluster_id)
    return tuple(rows.select_related("cluster", "project", "project__organization"))


def unread_target_ids(*, at: datetime, limit: int) -> list[int]:
    """Return applied targets that have not been read for a while, longest unread first.

    After a failed read a target waits for the same interval, so that it does not delay others.
    """
    rows = EnforcementTarget.objects.filter(
        ~UNSETTLED,
        checked_at__lte=at - DRIFT_CHECK_EVERY,
        not_before__lte=at,
        cluster__state=LifecycleState.ACTIVE,
    )
    return list(rows.order_by("checked_at", "pk").values_list("pk", flat=True)[:limit])

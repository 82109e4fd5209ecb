"""Facts of enforcement: which namespaces there are, what binds them, and what is due.

Every function is a fixed number of statements, however many namespaces, limits and pods there are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import F, Q, QuerySet

from metering.domain.catalogue_rules import DEFAULT_RULES
from metering.domain.gpu_sizes import GPUSize
from metering.selectors.catalogue import catalogue_in_force
from metering.selectors.device_sizes import sizes_seen
from quotas.domain.division import Place
from quotas.domain.planning import GrantedLimit, PlaceFacts
from quotas.domain.resource_sizes import size_by_name
from quotas.models import EnforcementState, EnforcementTarget, LimitScope, QuotaLimit
from quotas.selectors.use import units_by_namespace
from tenants.models import Cluster, NamespaceBinding
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows

DRIFT_CHECK_EVERY: Final = timedelta(minutes=10)
"""How long a namespace's quota is believed without being read again."""


@dataclass(frozen=True)
class Bound:
    """Whose a namespace is now."""

    project_id: UUID
    organization_id: UUID


def clusters_enforced() -> dict[UUID, Cluster]:
    """Return the active clusters whose Kubernetes API is known, by id."""
    rows = Cluster.objects.filter(state=LifecycleState.ACTIVE).exclude(
        kubernetes_url="", credential_reference=""
    )
    return {cluster.pk: cluster for cluster in rows}


def bindings_in_force(*, at: datetime) -> dict[tuple[UUID, str], Bound]:
    """Return whose each namespace is at a time, by cluster id and namespace.

    A namespace of a closed project or organization is nobody's.
    """
    rows = NamespaceBinding.objects.filter(
        valid__contains=at,
        project__state=LifecycleState.ACTIVE,
        project__organization__state=LifecycleState.ACTIVE,
    ).values_list("cluster_id", "namespace", "project_id", "project__organization_id")
    return {
        (cluster_id, namespace): Bound(project_id, organization_id)
        for cluster_id, namespace, project_id, organization_id in rows
    }


def granted_limits() -> tuple[GrantedLimit, ...]:
    """Return the limits a native quota can hold: of organizations and projects, not of users."""
    rows = QuotaLimit.objects.exclude(scope=LimitScope.USER).values_list(
        "organization_id", "project_id", "size", "limit_units"
    )
    return tuple(
        GrantedLimit(organization_id, project_id, GPUSize(size), units)
        for organization_id, project_id, size, units in rows.order_by("pk")
    )


def lock_targets() -> dict[tuple[UUID, str], EnforcementTarget]:
    """Lock every target until the transaction ends, by cluster id and namespace."""
    return {
        (target.cluster_id, target.namespace): target
        for target in lock_rows(EnforcementTarget.objects.all())
    }


def place_facts(
    *,
    clusters: Mapping[UUID, Cluster],
    bindings: Mapping[tuple[UUID, str], Bound],
    targets: Mapping[tuple[UUID, str], EnforcementTarget],
    at: datetime,
) -> dict[tuple[UUID, str], PlaceFacts]:
    """Return what planning needs of every namespace that is bound or was planned before."""
    sizes = _sizes_of(clusters.values(), at=at)
    used = units_by_namespace()
    return {
        key: _facts_of(
            clusters[key[0]],
            key[1],
            bound=bindings.get(key),
            target=targets.get(key),
            sizes=sizes[key[0]],
            used=used.get(key, {}),
        )
        for key in sorted({*bindings, *targets}, key=str)
        if key[0] in clusters
    }


def _facts_of(
    cluster: Cluster,
    namespace: str,
    *,
    bound: Bound | None,
    target: EnforcementTarget | None,
    sizes: Mapping[str, GPUSize | None],
    used: Mapping[GPUSize, int],
) -> PlaceFacts:
    return PlaceFacts(
        place=Place(cluster.slug, namespace),
        project_id=None if bound is None else bound.project_id,
        organization_id=None if bound is None else bound.organization_id,
        offered=tuple(cluster.offered_resources),
        sizes=sizes,
        used=used,
        desired=None if target is None else target.desired_hard,
        ceiling={} if target is None else target.ceiling_hard,
    )


def _sizes_of(
    clusters: Iterable[Cluster], *, at: datetime
) -> dict[UUID, dict[str, GPUSize | None]]:
    catalogue = catalogue_in_force()
    rules = DEFAULT_RULES if catalogue is None else catalogue.rules
    seen = sizes_seen(at=at)
    return {
        cluster.pk: {
            name: size_by_name(name, rules=rules, seen=seen.get((cluster.pk, name), ()))
            for name in cluster.offered_resources
        }
        for cluster in clusters
    }


def due_target_ids(*, at: datetime, limit: int) -> list[int]:
    """Return targets that still have to be applied, longest due first."""
    return list(_due(at).values_list("pk", flat=True)[:limit])


def _due(at: datetime) -> QuerySet[EnforcementTarget]:
    return (
        EnforcementTarget.objects.filter(UNSETTLED, not_before__lte=at)
        .filter(cluster__state=LifecycleState.ACTIVE)
        .order_by("not_before", "pk")
    )


UNSETTLED: Final = ~Q(state=EnforcementState.APPLIED) | Q(
    applied_generation__lt=F("desired_generation")
)
"""Targets whose desired quota has not been read back from the cluster."""


def unread_target_ids(*, at: datetime, limit: int) -> list[int]:
    """Return applied targets that have not been read for a while, longest unread first."""
    rows = EnforcementTarget.objects.filter(
        ~UNSETTLED,
        checked_at__lte=at - DRIFT_CHECK_EVERY,
        cluster__state=LifecycleState.ACTIVE,
    )
    return list(rows.order_by("checked_at", "pk").values_list("pk", flat=True)[:limit])

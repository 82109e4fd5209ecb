"""Facts of enforcement: which namespaces there are, what binds them, and what is due.

Every function is a fixed number of statements, however many namespaces, limits and pods there are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from metering.domain.catalogue_rules import DEFAULT_RULES
from metering.domain.gpu_sizes import GPUSize
from metering.selectors.catalogue import catalogue_in_force
from metering.selectors.device_sizes import sizes_seen
from metering.selectors.held_by_place import held_by_place, only_models
from quotas.domain.division import Place
from quotas.domain.planning import GrantedLimit, PlaceFacts, Selector, WallFacts
from quotas.domain.resource_sizes import size_by_name
from quotas.models import (
    EnforcementState,
    EnforcementTarget,
    LimitScope,
    QuotaSuspension,
)
from quotas.selectors.in_force import limits_in_force
from tenants.models import Cluster, NamespaceBinding
from tenants.models.organization import LifecycleState
from tenants.selectors.locks import lock_rows

DRIFT_CHECK_EVERY: Final = timedelta(minutes=10)
"""How long a namespace's quota is believed without being read again."""
Key = tuple[UUID, str]
"""Cluster id and namespace."""
Used = Mapping[Key, Mapping[tuple[GPUSize, str], int]]


@dataclass(frozen=True)
class Bound:
    """Whose a namespace is now."""

    project_id: UUID
    organization_id: UUID


@dataclass(frozen=True)
class Ground:
    """What planning reads beside the limits, all of it as of one time.

    Attributes:
        sizes: Cluster id to the size each offered resource name counts to.
        models: Cluster id to the one GPU model of the names that have only one.
        nominal: Units that ordinary pods hold, by namespace.
        burst: Units that preemptible pods hold, by namespace.
        suspended: Ids of suspended organizations and projects.
    """

    sizes: Mapping[UUID, Mapping[str, GPUSize | None]]
    models: Mapping[UUID, Mapping[str, str]]
    nominal: Used
    burst: Used
    suspended: frozenset[UUID]


def clusters_enforced() -> dict[UUID, Cluster]:
    """Return the active clusters whose Kubernetes API is known, by id."""
    rows = Cluster.objects.filter(state=LifecycleState.ACTIVE).exclude(
        kubernetes_url="", credential_reference=""
    )
    return {cluster.pk: cluster for cluster in rows}


def bindings_in_force(*, at: datetime, organization_id: UUID | None = None) -> dict[Key, Bound]:
    """Return whose each namespace is at a time, by cluster id and namespace.

    A namespace of a closed project or organization is nobody's.

    Args:
        at: When, UTC.
        organization_id: Only its namespaces, and those that were planned for it before, whosever
            they are now; None for all.
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
    """Return the limits that namespaces can be held to at a time; users have none there.

    Suspensions are told by `Ground`, since they hold for tenants without a limit too.
    """
    wanted = None if organization_id is None else [organization_id]
    return tuple(
        GrantedLimit(
            organization_id=limit.organization_id,
            project_id=limit.project_id,
            selector=Selector(
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


def ground_of(clusters: Iterable[Cluster], *, at: datetime, burst_classes: Iterable[str]) -> Ground:
    """Return what planning reads beside limits and bindings."""
    nominal, burst = _used(burst_classes)
    known = list(clusters)
    models: dict[UUID, dict[str, str]] = {}
    for (cluster_id, name), group in only_models(at=at).items():
        models.setdefault(cluster_id, {})[name] = group
    return Ground(
        sizes=_sizes_of(known, at=at),
        models=models,
        nominal=nominal,
        burst=burst,
        suspended=_suspended(at),
    )


def place_facts(
    *,
    clusters: Mapping[UUID, Cluster],
    bindings: Mapping[Key, Bound],
    targets: Mapping[Key, EnforcementTarget],
    ground: Ground,
) -> dict[Key, PlaceFacts]:
    """Return what planning needs of every namespace that is bound or was planned before."""
    return {
        key: _facts_of(
            key,
            clusters[key[0]],
            bound=bindings.get(key),
            target=targets.get(key),
            ground=ground,
        )
        for key in sorted({*bindings, *targets}, key=str)
        if key[0] in clusters
    }


def _facts_of(
    key: Key,
    cluster: Cluster,
    *,
    bound: Bound | None,
    target: EnforcementTarget | None,
    ground: Ground,
) -> PlaceFacts:
    return PlaceFacts(
        place=Place(cluster.slug, key[1]),
        project_id=None if bound is None else bound.project_id,
        organization_id=None if bound is None else bound.organization_id,
        offered=tuple(cluster.offered_resources),
        sizes=ground.sizes[cluster.pk],
        models=ground.models.get(cluster.pk, {}),
        nominal=WallFacts(
            used=ground.nominal.get(key, {}),
            desired=None if target is None else target.desired_hard,
            ceiling={} if target is None else target.ceiling_hard,
        ),
        burst=WallFacts(
            used=ground.burst.get(key, {}),
            desired=None if target is None else target.desired_burst,
            ceiling={} if target is None else target.ceiling_burst,
        ),
        is_suspended=bound is not None
        and not ground.suspended.isdisjoint({bound.project_id, bound.organization_id}),
    )


def _used(burst_classes: Iterable[str]) -> tuple[Used, Used]:
    walls: tuple[dict[Key, dict[tuple[GPUSize, str], int]], ...] = ({}, {})
    for held in held_by_place(burst_classes=burst_classes):
        by_cell = walls[held.is_burst].setdefault((held.cluster_id, held.namespace), {})
        cell = (held.size, held.model_group)
        by_cell[cell] = by_cell.get(cell, 0) + held.units
    return walls[0], walls[1]


def _suspended(at: datetime) -> frozenset[UUID]:
    """Return whoever may start nothing: the project, or the whole organization."""
    rows = QuotaSuspension.objects.filter(begin_at__lte=at, end_at=None).values_list(
        "organization_id", "project_id"
    )
    return frozenset(project_id or organization_id for organization_id, project_id in rows)


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


def due_target_ids(*, at: datetime, limit: int, organization_id: UUID | None = None) -> list[int]:
    """Return targets that still have to be applied, longest due first.

    Args:
        at: When, UTC.
        limit: How many at most.
        organization_id: Only those planned for it; None for all.
    """
    rows = _due(at)
    if organization_id is not None:
        rows = rows.filter(project__organization_id=organization_id)
    return list(rows.values_list("pk", flat=True)[:limit])


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

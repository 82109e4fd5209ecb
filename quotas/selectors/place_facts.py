"""Facts of places: what planning reads of every namespace beside limits and bindings.

A fixed number of statements, however many namespaces and pods there are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from metering.domain.catalogue_rules import DEFAULT_RULES
from metering.domain.gpu_sizes import GPUSize
from metering.selectors.catalogue import catalogue_in_force
from metering.selectors.device_sizes import sizes_seen
from metering.selectors.held_by_place import held_by_place, only_models
from quotas.domain.division import Place
from quotas.domain.planning import PlaceFacts, WallFacts
from quotas.domain.resource_quota import CLAIM_PREFIX
from quotas.domain.resource_sizes import size_by_name
from quotas.models import EnforcementTarget, QuotaSuspension
from quotas.selectors.enforcement import Bound, Key
from tenants.models import Cluster
from tenants.models.cluster import QuotaTarget

Used = Mapping[Key, Mapping[tuple[GPUSize, str], int]]


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
        offered=_counted(cluster),
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


def _counted(cluster: Cluster) -> tuple[str, ...]:
    """Return the offered resources that the cluster's quotas can count.

    Kueue counts claims under names of its own configuration.
    """
    is_kueue = cluster.quota_target == QuotaTarget.KUEUE
    return tuple(
        name
        for name in cluster.offered_resources
        if not (is_kueue and name.startswith(CLAIM_PREFIX))
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
    rows = QuotaSuspension.objects.filter(begin_at__lte=at, end_at=None)
    whole = rows.filter(project=None).values_list("organization_id", flat=True)
    parts = rows.values_list("project_id", flat=True)
    return frozenset((*whole, *filter(None, parts)))


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

"""Planning: from limits and live use to what every namespace's ResourceQuota should say.

A project's limit is divided over its namespaces. What an organization's limit leaves beside the
limits of its projects is one more pool, divided over the namespaces of the projects that have
none. A size that is granted nowhere above a namespace is zero there. Namespaces of which neither
project nor organization has any limit are left alone: nobody has decided anything about them yet.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.division import Part, Place, divide_limit
from quotas.domain.resource_quota import KEY_PREFIX, hard_of, sizes_offered


@dataclass(frozen=True)
class PlaceFacts:
    """What is known of one place before planning.

    Attributes:
        project_id: None when no binding is in force: then nothing may be held there.
        offered: GPU resource names of the cluster.
        sizes: Resource name to the size it counts to there; None when no rule knows it.
        used: Units held now, by size.
        desired: ResourceQuota keys as last planned; None when the place was never planned.
        ceiling: The most each key may be saying in the cluster.
    """

    place: Place
    project_id: UUID | None
    organization_id: UUID | None
    offered: tuple[str, ...]
    sizes: Mapping[str, GPUSize | None]
    used: Mapping[GPUSize, int] = field(default_factory=dict)
    desired: Mapping[str, int] | None = None
    ceiling: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class GrantedLimit:
    """One limit in force; `project_id` is None for the organization's own."""

    organization_id: UUID
    project_id: UUID | None
    size: GPUSize
    limit_units: int


def plan_quotas(
    facts: Iterable[PlaceFacts], limits: Iterable[GrantedLimit]
) -> dict[Place, dict[str, int]]:
    """Return the ResourceQuota keys of every place that is governed, by place."""
    known = sorted(facts, key=lambda fact: fact.place)
    granted = tuple(limits)
    units: dict[Place, dict[GPUSize, int]] = {fact.place: {} for fact in known}
    for size in GPUSize:
        pools = _pool_units(limit for limit in granted if limit.size is size)
        for pool_id, members in _members_of(pools, known, size).items():
            parts = {fact.place: _part_of(fact, size) for fact in members}
            for place, part_units in divide_limit(pools[pool_id], parts).items():
                units[place][size] = part_units
    governed = {limit.project_id or limit.organization_id for limit in granted}
    return {
        fact.place: hard_of(fact.offered, fact.sizes, units[fact.place])
        for fact in known
        if fact.desired is not None or {fact.project_id, fact.organization_id} & governed
    }


def _pool_units(limits: Iterable[GrantedLimit]) -> dict[UUID, int]:
    """Return the units to divide, by project, and what is left by organization."""
    ordered = sorted(limits, key=lambda limit: limit.project_id is not None)
    pools: dict[UUID, int] = {}
    for limit in ordered:
        pools[limit.project_id or limit.organization_id] = limit.limit_units
        if limit.project_id is not None and limit.organization_id in pools:
            left_units = pools[limit.organization_id] - limit.limit_units
            pools[limit.organization_id] = max(0, left_units)
    return pools


def _members_of(
    pools: Mapping[UUID, int], facts: Iterable[PlaceFacts], size: GPUSize
) -> dict[UUID, list[PlaceFacts]]:
    """Return the places that share each pool: those whose cluster can serve the size."""
    members: dict[UUID, list[PlaceFacts]] = {}
    for fact in facts:
        holders = (fact.project_id, fact.organization_id) if fact.project_id else ()
        pool_id = next((holder for holder in holders if holder in pools), None)
        if pool_id is not None and size in sizes_offered(fact.offered, fact.sizes):
            members.setdefault(pool_id, []).append(fact)
    return members


def _part_of(fact: PlaceFacts, size: GPUSize) -> Part:
    keys = [KEY_PREFIX + name for name in fact.offered if fact.sizes.get(name) is size]
    desired = fact.desired or {}
    return Part(
        used_units=fact.used.get(size, 0),
        wanted_units=max((desired.get(key, 0) for key in keys), default=0),
        ceiling_units=max((fact.ceiling.get(key, 0) for key in keys), default=0),
    )


def ceiling_of(*quotas: Mapping[str, int]) -> dict[str, int]:
    """Return the largest units of each key among several quotas, by key."""
    keys = sorted({key for quota in quotas for key in quota})
    return {key: max(quota.get(key, 0) for quota in quotas) for key in keys}

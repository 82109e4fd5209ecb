"""Planning: compute every namespace's ResourceQuota from limits and live use.

A project's limit is divided over its namespaces, unless admission counts all their pods: then each
gets the whole limit. What an organization's limit leaves beside the limits of its projects is one
more pool, divided over the namespaces of the projects that have none.
Limits of one cluster or one GPU model are divided before the wider ones and cap them. A size that
is granted nowhere above a namespace is zero there; where no limit applies, the quota is a number
too large to reach. Namespaces whose project and organization have no limit are not managed.

Nominal units and burst units are two caps, planned separately and in the same way.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from metering.domain.catalogue.units import GPUSize
from quotas.domain.enforcement.division import AskedUnits, ClusterNamespace
from quotas.domain.enforcement.pools import (
    GrantedLimit,
    NamespaceCells,
    NamespaceUnits,
    units_by_cell,
)
from quotas.domain.enforcement.resource_quota import OPEN_UNITS, hard_of, is_counted_by_pod, keys_of


@dataclass(frozen=True)
class CapFacts:
    """State of one cap of one namespace.

    Attributes:
        used: Units in use now, by size and GPU model group.
        desired: ResourceQuota keys as last planned; None when the namespace was never planned.
        ceiling: The largest value each key may have in the cluster.
        asked: Pods that the quota refuses, by key.
    """

    used: Mapping[tuple[GPUSize, str], int] = field(default_factory=dict)
    desired: Mapping[str, int] | None = None
    ceiling: Mapping[str, int] = field(default_factory=dict)
    asked: Mapping[str, tuple[AskedUnits, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class PlaceFacts:
    """State of one namespace before planning.

    Attributes:
        project_id: None when no binding is in force: then its quota is zero.
        offered: GPU resource names of the cluster.
        sizes: Resource name to the size it counts to there; None when no rule matches.
        models: Resource name to the one GPU model group it can be there; left out when ambiguous.
        is_suspended: Whether its project or organization may start nothing new.
        is_counted: Whether admission counts every pod there exactly.
    """

    place: ClusterNamespace
    project_id: UUID | None
    organization_id: UUID | None
    offered: tuple[str, ...]
    sizes: Mapping[str, GPUSize | None]
    models: Mapping[str, str] = field(default_factory=dict)
    nominal: CapFacts = field(default_factory=CapFacts)
    burst: CapFacts = field(default_factory=CapFacts)
    is_suspended: bool = False
    is_counted: bool = False


@dataclass(frozen=True)
class PlannedQuota:
    """Desired quota of one namespace.

    Attributes:
        hard: ResourceQuota key to nominal units.
        burst: ResourceQuota key to units for preemptible pods beyond; empty where none was ever
            granted, and zeros where it was once.
    """

    hard: dict[str, int]
    burst: dict[str, int] = field(default_factory=dict)


def plan_quotas(
    facts: Iterable[PlaceFacts], limits: Iterable[GrantedLimit]
) -> dict[ClusterNamespace, PlannedQuota]:
    """Return the desired quota of every managed namespace."""
    known = sorted(facts, key=lambda fact: fact.place)
    granted = tuple(limits)
    nominal = _units(known, granted, lambda fact: fact.nominal, lambda one: one.nominal_units)
    burst = _units(known, granted, lambda fact: fact.burst, lambda one: one.burst_units)
    governed = {limit.project_id or limit.organization_id for limit in granted}
    bursting = {one.project_id or one.organization_id for one in granted if one.burst_units}
    return {
        fact.place: PlannedQuota(
            hard=hard_of(_by_resource(fact, nominal, is_governed=_is_governed(fact, governed))),
            burst=_burst_of(fact, burst, is_granted=_is_governed(fact, bursting)),
        )
        for fact in known
        if _is_planned(fact, governed)
    }


def _is_planned(fact: PlaceFacts, governed: set[UUID]) -> bool:
    return fact.nominal.desired is not None or fact.is_suspended or _is_governed(fact, governed)


def _is_governed(fact: PlaceFacts, governed: set[UUID]) -> bool:
    return bool({fact.project_id, fact.organization_id} & governed)


def _units(
    facts: Sequence[PlaceFacts],
    limits: Sequence[GrantedLimit],
    cap_of: Callable[[PlaceFacts], CapFacts],
    units_of: Callable[[GrantedLimit], int | None],
) -> dict[NamespaceUnits, int | None]:
    """Return what one cap leaves to each cell; None for unbounded, no entry for nothing granted."""
    quota_caps = [
        _cap(fact, cap_of(fact)) for fact in facts if fact.project_id and fact.organization_id
    ]
    selected = {
        (limit.organization_id, limit.project_id, limit.selector): (
            units_of(limit),
            limit.overcommit_percent,
        )
        for limit in limits
    }
    return units_by_cell(quota_caps, selected)


def _cap(fact: PlaceFacts, quota_cap: CapFacts) -> NamespaceCells:
    assert fact.project_id is not None  # noqa: S101 - The caller has checked.
    assert fact.organization_id is not None  # noqa: S101 - As above.
    cells: dict[NamespaceUnits, list[str]] = {}
    for name in fact.offered:
        size = fact.sizes.get(name)
        if size is not None:
            cell = NamespaceUnits(fact.place, size, fact.models.get(name, ""))
            cells.setdefault(cell, []).extend(keys_of(name))
    desired = quota_cap.desired or {}
    return NamespaceCells(
        place=fact.place,
        project_id=fact.project_id,
        organization_id=fact.organization_id,
        used=quota_cap.used,
        wanted={cell: _most(desired, keys) for cell, keys in cells.items()},
        ceilings={cell: _most(quota_cap.ceiling, keys) for cell, keys in cells.items()},
        is_suspended=fact.is_suspended,
        is_counted=fact.is_counted,
        asked={
            cell: tuple(one for key in keys for one in quota_cap.asked.get(key, ()))
            for cell, keys in cells.items()
        },
    )


def _most(units: Mapping[str, int], keys: Iterable[str]) -> int:
    return max((units.get(key, 0) for key in keys), default=0)


def _by_resource(
    fact: PlaceFacts, units: Mapping[NamespaceUnits, int | None], *, is_governed: bool
) -> dict[str, int]:
    """Return a namespace's quota for every offered resource, by name."""
    is_free = fact.project_id is not None and not is_governed and not fact.is_suspended
    return {
        name: OPEN_UNITS if is_free else _cap_units(fact, name, units) for name in set(fact.offered)
    }


def _cap_units(fact: PlaceFacts, name: str, units: Mapping[NamespaceUnits, int | None]) -> int:
    size = fact.sizes.get(name)
    if size is None:
        return 0
    cap_units = units.get(NamespaceUnits(fact.place, size, fact.models.get(name, "")), 0)
    return OPEN_UNITS if cap_units is None else cap_units


def _burst_of(
    fact: PlaceFacts, units: Mapping[NamespaceUnits, int | None], *, is_granted: bool
) -> dict[str, int]:
    """Return burst units by key; zeros too, so that preemptible pods never eat nominal units."""
    hard = hard_of({name: _cap_units(fact, name, units) for name in set(fact.offered)})
    found = {key: amount for key, amount in hard.items() if is_counted_by_pod(key)}
    return found if is_granted or fact.burst.desired else {}


def ceiling_of(*quotas: Mapping[str, int]) -> dict[str, int]:
    """Return the largest units of each key among several quotas, by key."""
    keys = sorted({key for quota in quotas for key in quota})
    return {key: max(quota.get(key, 0) for quota in quotas) for key in keys}


__all__ = [
    "CapFacts",
    "GrantedLimit",
    "PlaceFacts",
    "PlannedQuota",
    "ceiling_of",
    "plan_quotas",
]

"""Pools: which limits bind which part of a namespace, and what all of them leave to it.

A cell is one namespace's share of one size, and of one GPU model where its cluster distinguishes
models. Each limit with a number is a pool that is divided over the cells it binds. A cell may be
bound by several pools; it gets the least of what they leave to it.

A pool is not divided where admission counts every pod against the same number: its units are a
limit, and all its namespaces are counted. What an organization's limit leaves beside the limits of
its projects is no such number, so it is divided.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from metering.domain.catalogue.units import GPUSize
from quotas.domain.enforcement.division import (
    AskedUnits,
    ClusterNamespace,
    NamespaceShare,
    raise_after_lowering,
    settle_shares,
    whole_shares,
)
from quotas.domain.limits.selectors import LimitSelector

ONCE_PERCENT: Final = 100
"""An overcommit of 100 promises a limit once."""


@dataclass(frozen=True)
class GrantedLimit:
    """One limit in force; `project_id` is None for the organization's own.

    Attributes:
        nominal_units: None is unlimited.
        overcommit_percent: How much of it may be promised to the projects, together.
    """

    organization_id: UUID
    project_id: UUID | None
    selector: LimitSelector
    nominal_units: int | None
    burst_units: int = 0
    overcommit_percent: int = ONCE_PERCENT


@dataclass(frozen=True, order=True)
class NamespaceUnits:
    """One size in one namespace, of one model; "" while the model is ambiguous."""

    place: ClusterNamespace
    size: GPUSize
    model_group: str


@dataclass(frozen=True)
class NamespaceCells:
    """One namespace's cells, with their used, wanted and ceiling units.

    Attributes:
        is_counted: Whether admission counts every pod there exactly, so that none is created
            without it.
        asked: Pods that its quota refuses.
    """

    place: ClusterNamespace
    project_id: UUID
    organization_id: UUID
    used: Mapping[tuple[GPUSize, str], int]
    wanted: Mapping[NamespaceUnits, int]
    ceilings: Mapping[NamespaceUnits, int]
    is_suspended: bool = False
    is_counted: bool = False
    asked: Mapping[NamespaceUnits, tuple[AskedUnits, ...]] = field(default_factory=dict)

    def part(
        self,
        selector: LimitSelector,
        cells: Iterable[NamespaceUnits],
        caps: Mapping[NamespaceUnits, int],
    ) -> NamespaceShare:
        """Return this namespace's part of a pool."""
        mine = list(cells)
        return NamespaceShare(
            used_units=sum(
                units
                for (size, model_group), units in self.used.items()
                if size is selector.size and selector.model_group in {"", model_group}
            ),
            wanted_units=max(self.wanted[cell] for cell in mine),
            ceiling_units=max(self.ceilings[cell] for cell in mine),
            cap_units=self._cap(mine, caps),
            asked=tuple(one for cell in mine for one in self.asked.get(cell, ())),
        )

    def _cap(
        self, cells: Iterable[NamespaceUnits], caps: Mapping[NamespaceUnits, int]
    ) -> int | None:
        """Return what narrower limits leave to all the cells; none in a suspended namespace."""
        if self.is_suspended:
            return 0
        found = [caps.get(cell) for cell in cells]
        known = [units for units in found if units is not None]
        return sum(known) if len(known) == len(found) else None


LimitKey = tuple[UUID, UUID | None, LimitSelector]
"""Organization, project or None, and what the limit is about."""
Limits = Mapping[LimitKey, tuple[int | None, int]]
"""Units, None for unlimited, and the overcommit in percent, by limit."""
Selectors = Mapping[UUID, Sequence[LimitSelector]]
"""What limits are about, by organization, in one order."""


@dataclass
class Pool:
    """One limit's units, and the cells it binds by namespace.

    Attributes:
        is_whole: Whether each namespace gets all units, since admission counts them together.
    """

    selector: LimitSelector
    organization_id: UUID
    units: int
    is_whole: bool = False
    cells: dict[ClusterNamespace, list[NamespaceUnits]] = field(default_factory=dict)


def units_by_cell(
    quota_caps: Iterable[NamespaceCells], limits: Limits
) -> dict[NamespaceUnits, int | None]:
    """Return each cell's next units; None for unbounded, no entry for nothing granted.

    A cell is raised only after the cells lowered for it were read back, in all pools that bind it
    and in its whole organization.
    """
    by_place = {quota_cap.place: quota_cap for quota_cap in quota_caps}
    selectors = _selectors_of(limits)
    pools, opened = _pools_of(by_place.values(), limits, selectors)
    caps: dict[NamespaceUnits, int] = {}
    for pool in sorted(pools.values(), key=lambda one: (one.selector.breadth, one.selector)):
        parts = _parts(pool, by_place, caps)
        share = whole_shares if pool.is_whole else settle_shares
        for place, units in share(pool.units, parts).items():
            for cell in pool.cells[place]:
                caps[cell] = min(caps.get(cell, units), units)
    planned = dict(caps)
    divided = [pool for pool in pools.values() if not pool.is_whole]
    for pool in (*divided, *_guards(divided)):
        _hold_back(pool, by_place, wanted=caps, planned=planned)
    known = {*planned, *opened}
    uncertain = _uncertain(by_place.values(), limits, selectors, known=known)
    unbound = {**dict.fromkeys(opened), **uncertain}
    shut = {cell for cell in unbound if by_place[cell.place].is_suspended}
    return {**unbound, **dict.fromkeys(shut, 0), **planned}


def _selectors_of(limits: Limits) -> Selectors:
    found: dict[UUID, set[LimitSelector]] = {}
    for organization_id, _, selector in limits:
        found.setdefault(organization_id, set()).add(selector)
    return {organization_id: sorted(selectors) for organization_id, selectors in found.items()}


def _pools_of(
    quota_caps: Iterable[NamespaceCells], limits: Limits, selectors: Selectors
) -> tuple[dict[LimitKey, Pool], list[NamespaceUnits]]:
    """Return the pools with their members, and the cells set to unlimited."""
    rests = _rests(limits)
    pools: dict[LimitKey, Pool] = {}
    opened: list[NamespaceUnits] = []
    uncounted: set[LimitKey] = set()
    for quota_cap, cell, key in _bound(quota_caps, limits, selectors):
        units = rests[key] if key[1] is None else limits[key][0]
        if units is None:
            opened.append(cell)
            continue
        pool = pools.setdefault(key, Pool(key[2], key[0], units))
        pool.cells.setdefault(quota_cap.place, []).append(cell)
        if not quota_cap.is_counted or units != limits[key][0]:
            uncounted.add(key)
    for key, pool in pools.items():
        pool.is_whole = key not in uncounted
    return pools, opened


def _bound(
    quota_caps: Iterable[NamespaceCells], limits: Limits, selectors: Selectors
) -> Iterator[tuple[NamespaceCells, NamespaceUnits, LimitKey]]:
    """Yield every cell with each limit that binds it."""
    for quota_cap in quota_caps:
        for cell in quota_cap.wanted:
            for selector in _binding(cell, selectors.get(quota_cap.organization_id, ())):
                key = _decider(quota_cap, selector, limits)
                if key is not None:
                    yield quota_cap, cell, key


def _binding(cell: NamespaceUnits, selectors: Iterable[LimitSelector]) -> list[LimitSelector]:
    """Return the limits that bind a cell. No limit of a model binds an ambiguous model."""
    own = LimitSelector(cell.size, cell.model_group, cell.place.cluster)
    return [selector for selector in selectors if selector.covers(own)]


def _decider(quota_cap: NamespaceCells, selector: LimitSelector, limits: Limits) -> LimitKey | None:
    """Return the holder whose limit applies: the project unless unset or unlimited; None for none.

    A project's unlimited limit leaves the decision to the organization's.
    """
    own: LimitKey = (quota_cap.organization_id, quota_cap.project_id, selector)
    above: LimitKey = (quota_cap.organization_id, None, selector)
    is_own = own in limits and (limits[own][0] is not None or above not in limits)
    if is_own:
        return own
    return above if above in limits else None


def _uncertain(
    quota_caps: Iterable[NamespaceCells],
    limits: Limits,
    selectors: Selectors,
    *,
    known: set[NamespaceUnits],
) -> dict[NamespaceUnits, int | None]:
    """Return what cells of an ambiguous model get where only limits of models are set.

    It may be any of them, so they get the sum: admission checks which model a pod uses. The sum is
    not divided over namespaces.
    """
    found: dict[NamespaceUnits, int | None] = {}
    for quota_cap in quota_caps:
        for cell in quota_cap.wanted:
            if cell.model_group or cell in known:
                continue
            units = [
                limits[key][0]
                for selector in selectors.get(quota_cap.organization_id, ())
                if selector.size is cell.size and selector.cluster in {"", cell.place.cluster}
                if (key := _decider(quota_cap, selector, limits)) is not None
            ]
            numbers = [one for one in units if one is not None]
            if units:
                found[cell] = sum(numbers) if len(numbers) == len(units) else None
    return found


def _rests(limits: Limits) -> dict[LimitKey, int | None]:
    """Return what each organization's limit leaves beside the limits of its projects."""
    promised: dict[tuple[UUID, LimitSelector], int] = {}
    for (organization_id, project_id, selector), (units, _) in limits.items():
        if project_id is not None:
            key = (organization_id, selector)
            promised[key] = promised.get(key, 0) + (units or 0)
    rests: dict[LimitKey, int | None] = {}
    for (organization_id, project_id, selector), (units, percent) in limits.items():
        if project_id is None:
            taken = promised.get((organization_id, selector), 0)
            rests[organization_id, None, selector] = _rest(units, percent, taken)
    return rests


def _rest(units: int | None, percent: int, taken_units: int) -> int | None:
    if units is None:
        return None
    return max(0, min(units, units * percent // ONCE_PERCENT - taken_units))


def _parts(
    pool: Pool,
    quota_caps: Mapping[ClusterNamespace, NamespaceCells],
    caps: Mapping[NamespaceUnits, int],
) -> dict[ClusterNamespace, NamespaceShare]:
    return {
        place: quota_caps[place].part(pool.selector, cells, caps)
        for place, cells in pool.cells.items()
    }


def _guards(pools: Iterable[Pool]) -> list[Pool]:
    """Return each organization's divided pools of one selector as one.

    So a project is raised only after the lowered rest of its organization was seen to arrive.
    A pool that is not divided is lowered at once, by admission, whatever its quotas say.
    """
    guards: dict[tuple[UUID, LimitSelector], Pool] = {}
    for pool in pools:
        key = (pool.organization_id, pool.selector)
        guard = guards.setdefault(key, Pool(pool.selector, pool.organization_id, 0))
        guard.units += pool.units
        guard.cells.update(pool.cells)
    return list(guards.values())


def _hold_back(
    pool: Pool,
    quota_caps: Mapping[ClusterNamespace, NamespaceCells],
    *,
    wanted: Mapping[NamespaceUnits, int],
    planned: dict[NamespaceUnits, int],
) -> None:
    """Lower the cells' units to what a pool allows now."""
    parts = _parts(pool, quota_caps, {})
    most = {place: max(wanted[cell] for cell in cells) for place, cells in pool.cells.items()}
    for place, units in raise_after_lowering(pool.units, parts, most).items():
        for cell in pool.cells[place]:
            planned[cell] = min(planned[cell], units)

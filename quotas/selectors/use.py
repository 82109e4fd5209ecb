"""Use against limit: what is held now, by whom, against what may be held.

Whose a namespace is, is decided by the binding in force now; units in a namespace that nobody is
bound to are left out here, because no limit binds them: metering shows them as exceptions.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from metering.domain.gpu_sizes import GPUSize
from metering.selectors.live_use import held_units
from quotas.domain.headroom import Headroom
from quotas.models import QuotaLimit
from tenants.models import NamespaceBinding


@dataclass(frozen=True)
class UseKey:
    """Whom a number is about; a project and an owner of None are wider scopes."""

    organization_id: UUID
    project_id: UUID | None
    username: str | None
    size: GPUSize


@dataclass(frozen=True)
class UseRow:
    """One line of used against limit.

    Attributes:
        limit_id: None when no limit is set for it.
    """

    key: UseKey
    limit_id: UUID | None
    headroom: Headroom


def units_by_namespace() -> dict[tuple[UUID, str], dict[GPUSize, int]]:
    """Return units held now, by cluster id and namespace, then size; one statement."""
    units: dict[tuple[UUID, str], dict[GPUSize, int]] = {}
    for held in held_units():
        by_size = units.setdefault((held.cluster_id, held.namespace), {})
        by_size[held.size] = by_size.get(held.size, 0) + held.units
    return units


def used_units(*, at: datetime) -> Counter[UseKey]:
    """Return units held now at every scope: organization, project and owner; two statements.

    What no label claims is held by the default owner of the binding in force.
    """
    bindings = {
        (cluster_id, namespace): (organization_id, project_id, default_owner or "")
        for cluster_id, namespace, project_id, organization_id, default_owner in (
            NamespaceBinding.objects.filter(valid__contains=at).values_list(
                "cluster_id",
                "namespace",
                "project_id",
                "project__organization_id",
                "default_owner__username",
            )
        )
    }
    used: Counter[UseKey] = Counter()
    for held in held_units():
        bound = bindings.get((held.cluster_id, held.namespace))
        if bound is None:
            continue
        organization_id, project_id, default_owner = bound
        used[UseKey(organization_id, None, None, held.size)] += held.units
        used[UseKey(organization_id, project_id, None, held.size)] += held.units
        owner = held.owner or default_owner
        if owner:
            used[UseKey(organization_id, project_id, owner, held.size)] += held.units
    return used


def use_against_limits(
    *, at: datetime, organization_ids: Iterable[UUID] | None = None
) -> tuple[UseRow, ...]:
    """Return used against limit, one per scope and size with a limit or with use; three statements.

    The organization comes first, then its projects by id, then their users by name; sizes from
    small to large.

    Args:
        at: When, UTC: decides whose a namespace is.
        organization_ids: Only these organizations; None for all.
    """
    wanted = None if organization_ids is None else set(organization_ids)
    limits = _limits(wanted)
    used = used_units(at=at)
    keys = {key for key in (*limits, *used) if wanted is None or key.organization_id in wanted}
    return tuple(_row_of(key, limits, used) for key in sorted(keys, key=_order))


def _limits(organization_ids: set[UUID] | None) -> dict[UseKey, tuple[UUID, int]]:
    rows = QuotaLimit.objects.all()
    if organization_ids is not None:
        rows = rows.filter(organization_id__in=organization_ids)
    columns = rows.values_list(
        "organization_id", "project_id", "user__username", "size", "pk", "limit_units"
    )
    return {
        UseKey(organization_id, project_id, username, GPUSize(size)): (limit_id, units)
        for organization_id, project_id, username, size, limit_id, units in columns
    }


def _row_of(
    key: UseKey, limits: Mapping[UseKey, tuple[UUID, int]], used: Counter[UseKey]
) -> UseRow:
    limit_id, limit_units = limits.get(key, (None, None))
    return UseRow(
        key=key, limit_id=limit_id, headroom=Headroom(limit_units=limit_units, used_units=used[key])
    )


def _order(key: UseKey) -> tuple[str, str, str, int]:
    return (
        str(key.organization_id),
        "" if key.project_id is None else str(key.project_id),
        key.username or "",
        list(GPUSize).index(key.size),
    )

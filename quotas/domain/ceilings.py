"""Ceilings: the most of a size that one pod could ever be given under the limits in force."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from metering.domain.gpu_sizes import GPUSize
from quotas.domain.admission import Demand


@dataclass(frozen=True)
class CeilingLimit:
    """What of a limit in force a ceiling depends on.

    Attributes:
        project_id: None for the whole organization.
        username: None for every user.
        model_group: "" for every model.
        cluster_id: None for every cluster.
        nominal_units: None for unlimited.
        burst_units: What preemptible pods may hold.
    """

    project_id: UUID | None
    username: str | None
    size: GPUSize
    model_group: str
    cluster_id: UUID | None
    nominal_units: int | None
    burst_units: int


@dataclass(frozen=True)
class Asker:
    """Who a pod would be of, and where."""

    project_id: UUID
    cluster_id: UUID
    owner: str
    is_burst: bool


def ceiling_of(limits: Iterable[CeilingLimit], *, demand: Demand, asker: Asker) -> int | None:
    """Return the least limit that binds a demand, as if nothing were used; None without one."""
    bounds = (
        limit.burst_units if asker.is_burst else limit.nominal_units
        for limit in limits
        if _binds(limit, demand, asker)
    )
    return min((bound for bound in bounds if bound is not None), default=None)


def _binds(limit: CeilingLimit, demand: Demand, asker: Asker) -> bool:
    return (
        limit.size is demand.size
        and limit.project_id in {None, asker.project_id}
        and limit.username in {None, asker.owner}
        and limit.cluster_id in {None, asker.cluster_id}
        and (not limit.model_group or not demand.model_groups or _names(limit, demand))
    )


def _names(limit: CeilingLimit, demand: Demand) -> bool:
    return limit.model_group in demand.model_groups

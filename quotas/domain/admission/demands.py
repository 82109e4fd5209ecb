"""Demands: which sizes a pod's requests count to, and the largest device one pod could get.

Of the sizes a resource has on the nodes the pod may land on, the largest counts, and of their
models all. Where no such node is known, as before the first one is scaled up, the name alone
decides, to the largest it can be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from metering.domain.catalogue.names import is_named, possible_sizes
from metering.domain.catalogue.sizing import Rule
from metering.domain.catalogue.units import GPUSize
from quotas.domain.admission.node_fit import NodeOffer, Placement
from quotas.domain.admission.pods import CLAIM_PREFIX
from quotas.domain.admission.values import Demand

FROM_SMALLEST: Final = (GPUSize.SMALL, GPUSize.MEDIUM, GPUSize.LARGE)


def size_by_name(
    resource: str, *, rules: Iterable[Rule], seen: Iterable[GPUSize]
) -> GPUSize | None:
    """Return the size a resource name counts to, the largest of `likely_sizes`; None without any.

    Args:
        resource: As Kubernetes spells it, or "claim/<device class>".
        rules: The catalogue in force, first match first.
        seen: Sizes metering has seen under this name on the cluster.
    """
    likely = likely_sizes(resource, rules=rules, seen=seen)
    return max(likely, key=FROM_SMALLEST.index) if likely else None


def likely_sizes(
    resource: str, *, rules: Iterable[Rule], seen: Iterable[GPUSize]
) -> frozenset[GPUSize]:
    """Return every size a name may count to; more than one means the size is ambiguous.

    A device class that no rule names is what it was seen to be. One that was never seen is of the
    largest size if its name is a GPU's.

    Args:
        resource: As Kubernetes spells it, or "claim/<device class>".
        rules: The catalogue in force, first match first.
        seen: Sizes metering has seen under this name on the cluster.
    """
    known = frozenset(seen)
    listed = tuple(rules)
    possible = possible_sizes(resource, rules=listed)
    is_class = resource.startswith(CLAIM_PREFIX)
    if possible or not is_class or is_named(resource, rules=listed):
        return possible & known or possible
    return known or (frozenset({GPUSize.LARGE}) if _is_gpu_class(resource) else frozenset())


NETWORK_WORDS: Final = ("rdma", "nic", "net", "dranet", "sriov", "infiniband", "roce")
"""A device class with one of these in its name is not a GPU."""
GPU_WORDS: Final = frozenset({"gpu", "gpus", "mig", "nvidia"})
"""A device class with one of these in its name is a GPU, of whatever size."""


class UnknownDeviceError(Exception):
    """Raised for a resource that no rule gives a size.

    Attributes:
        resource: Its name.
    """

    def __init__(self, resource: str) -> None:
        """Keep the name."""
        super().__init__(resource)
        self.resource = resource


def demands_of(
    requests: Mapping[str, int],
    placement: Placement,
    *,
    offers: Iterable[NodeOffer],
    rules: Iterable[Rule],
    seen: Mapping[str, frozenset[GPUSize]],
) -> tuple[Demand, ...]:
    """Return what requests count to, by resource.

    Args:
        requests: Resource, or "claim/<device class>", to effective units.
        placement: Where the pod lets itself be put.
        offers: What the cluster's nodes offer.
        rules: The catalogue in force, first match first.
        seen: Sizes that metering has lately seen under each name on the cluster.

    Raises:
        UnknownDeviceError: No rule gives a size to one of them.
    """
    within = [one for one in offers if placement.may_land_on_any(one.nodes, one.labels)]
    listed = tuple(rules)
    return tuple(
        _demand(resource, units, within=within, rules=listed, seen=seen.get(resource, frozenset()))
        for resource, units in sorted(requests.items())
        if not _is_network(resource)
    )


def _demand(
    resource: str,
    units: int,
    *,
    within: Iterable[NodeOffer],
    rules: tuple[Rule, ...],
    seen: frozenset[GPUSize],
) -> Demand:
    found = [one.sized[resource] for one in within if resource in one.sized]
    if found:
        return Demand(
            resource=resource,
            size=max((one.size for one in found), key=FROM_SMALLEST.index),
            units=units,
            model_groups=tuple(sorted({model_group(one.price_group) for one in found})),
            sharing_modes=tuple(sorted({one.sharing_mode.value for one in found})),
        )
    size = size_by_name(resource, rules=rules, seen=seen)
    if size is None:
        raise UnknownDeviceError(resource)
    return Demand(resource=resource, size=size, units=units)


def _is_gpu_class(resource: str) -> bool:
    return not GPU_WORDS.isdisjoint(_text(resource))


def _is_network(resource: str) -> bool:
    return resource.startswith(CLAIM_PREFIX) and bool(_text(resource) & set(NETWORK_WORDS))


def _text(resource: str) -> set[str]:
    name = resource.removeprefix(CLAIM_PREFIX)
    return set(name.replace(".", "-").split("-"))


def model_group(price_group: str) -> str:
    """Return the model of a price group: "H100" of "H100/1g.10gb"."""
    return price_group.partition("/")[0]


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
    """Owner and namespace of a pod."""

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

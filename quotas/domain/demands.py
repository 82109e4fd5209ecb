"""Demands: what a pod's requests count to before anybody knows on which node it will run.

Of the sizes a resource has on the nodes the pod may land on, the largest counts, and of their
models all. Where no such node is known, as before the first one is scaled up, the name alone
decides, to the largest it can be.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from metering.domain.catalogue_rules import Rule
from metering.domain.gpu_sizes import GPUSize
from quotas.domain.admission import Demand
from quotas.domain.node_fit import NodeOffer, Placement
from quotas.domain.pod_review import CLAIM_PREFIX
from quotas.domain.resource_sizes import FROM_SMALLEST, size_by_name

NETWORK_WORDS: Final = ("rdma", "nic", "net", "dranet", "sriov", "infiniband", "roce")
"""Device classes with one of these as a word of their name are no GPUs."""
MIG_WORD: Final = "mig"


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
    size = _size_by_name(resource, rules=rules, seen=seen)
    if size is None:
        raise UnknownDeviceError(resource)
    return Demand(resource=resource, size=size, units=units)


def _size_by_name(
    resource: str, *, rules: tuple[Rule, ...], seen: frozenset[GPUSize]
) -> GPUSize | None:
    """Return the largest a name can be; a device class can be anything that it was seen to be.

    A class of GPUs nobody has seen a device of counts as the largest there is.
    """
    if not resource.startswith(CLAIM_PREFIX):
        return size_by_name(resource, rules=rules, seen=seen)
    if seen:
        return max(seen, key=FROM_SMALLEST.index)
    words = _words(resource)
    return GPUSize.LARGE if {"gpu", "gpus", MIG_WORD, "nvidia"} & words else None


def _is_network(resource: str) -> bool:
    return resource.startswith(CLAIM_PREFIX) and bool(_words(resource) & set(NETWORK_WORDS))


def _words(resource: str) -> set[str]:
    name = resource.removeprefix(CLAIM_PREFIX)
    return set(name.replace(".", "-").split("-"))


def model_group(price_group: str) -> str:
    """Return the model of a price group: "H100" of "H100/1g.10gb"."""
    return price_group.partition("/")[0]

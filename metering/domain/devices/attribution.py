"""Attribution of devices: which pod the figures of a device are about, and for how long.

The exporter names a pod; the ledger has what that pod held. Figures of a device are attributed to a
pod only where both agree that it held the device alone. Figures of a shared device belong to all
pods that share it. A device without a pod is idle only when every pod of its node and kind is
accounted for: a label that is missing is not an idle GPU.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from metering.domain.catalogue.units import SharingMode
from metering.domain.devices.figures import (
    Attribution,
    PodDeviceUse,
    matching_holdings,
    overlap_seconds,
)

NAMING_SECONDS_MAX: Final = 300
"""How long an exporter may take to name a pod, or to forget it, without anything being amiss."""
SHARED_MODES: Final = frozenset({SharingMode.TIME_SLICING, SharingMode.MPS})


class DeviceRun(Protocol):
    """One device over a stretch in which it served one workload; see protocols."""

    @property
    def node(self) -> str:
        """Return its node."""
        ...

    @property
    def instance_id(self) -> str:
        """Return the MIG instance, "" for a whole GPU."""
        ...

    @property
    def instance_profile(self) -> str:
        """Return the MIG profile as DCGM spells it, "" for a whole GPU."""
        ...

    @property
    def namespace(self) -> str:
        """Return the named pod's namespace, "" without a pod."""
        ...

    @property
    def pod(self) -> str:
        """Return the named pod."""
        ...

    @property
    def begin_at(self) -> datetime:
        """Return from when."""
        ...

    @property
    def end_at(self) -> datetime:
        """Return until when."""
        ...

    @property
    def is_shared(self) -> bool:
        """Return whether several pods were named at once."""
        ...


@dataclass(frozen=True)
class Kind:
    """The resource name a node offers a device as: one unit of it."""

    resource: str
    size: str
    price_group: str
    sharing_mode: SharingMode


Place = tuple[str, str]
"""Node and MIG profile as resources spell it; "" for a whole GPU."""


@dataclass(frozen=True)
class Attributed:
    """The attribution of a device: `holding` is the index of the one it served alone."""

    attribution: Attribution
    holding: int | None = None
    kind: Kind | None = None


def place_of(device: DeviceRun) -> Place:
    """Return where a device is looked up; profiles with a plus are resources with a point."""
    return device.node, device.instance_profile.replace("+", ".")


def profile_in(price_group: str) -> str:
    """Return the MIG profile a price group names, "" for none. Source: ADR 0005."""
    shape = price_group.partition("/")[2].partition("/")[0]
    return "" if shape == "whole" or shape.startswith("1of") else shape


def attribute_devices(
    devices: Sequence[DeviceRun],
    *,
    holdings: Sequence[PodDeviceUse],
    kinds: Mapping[Place, Kind],
    held_nodes: Collection[str] = (),
) -> tuple[Attributed, ...]:
    """Return the attribution of each device, in the order of the devices.

    Args:
        devices: What was observed.
        holdings: What is billed.
        kinds: The resource names under which nodes offer devices.
        held_nodes: Nodes of pods that are not billed yet; no device there is known to be idle.
    """
    matched = matching_holdings(holdings, devices=devices)
    unnamed = _unnamed(devices, holdings=holdings, matched=matched)
    sharers = {(one.namespace, one.pod_name) for one in holdings if one.split_among > 1}
    return tuple(
        _attribute(
            device,
            found=index,
            kind=kinds.get(place_of(device)),
            is_shared=device.is_shared or (device.namespace, device.pod) in sharers,
            may_be_held=device.node in held_nodes
            or any(_may_hold(one, device=device) for one in unnamed.get(device.node, ())),
        )
        for device, index in zip(devices, matched, strict=True)
    )


def _attribute(
    device: DeviceRun,
    *,
    found: int | None,
    kind: Kind | None,
    is_shared: bool,
    may_be_held: bool,
) -> Attributed:
    if found is not None:
        return Attributed(Attribution.EXCLUSIVE, found, kind)
    if is_shared or (kind is not None and kind.sharing_mode in SHARED_MODES):
        return Attributed(Attribution.SHARED, kind=kind)
    if device.pod or may_be_held:
        return Attributed(Attribution.UNATTRIBUTED, kind=kind)
    return Attributed(Attribution.IDLE, kind=kind)


def _unnamed(
    devices: Sequence[DeviceRun], *, holdings: Sequence[PodDeviceUse], matched: Sequence[int | None]
) -> Mapping[str, Sequence[PodDeviceUse]]:
    """Return by node the holdings for a good part of which no device named their pod.

    Of pods that share a device or a claim the exporter names one, so others are not missing.
    """
    named = [0] * len(holdings)
    for device, index in zip(devices, matched, strict=True):
        if index is not None:
            named[index] += overlap_seconds(device, holding=holdings[index])
    found: dict[str, list[PodDeviceUse]] = defaultdict(list)
    for holding, seconds in zip(holdings, named, strict=True):
        allowed = min(NAMING_SECONDS_MAX, holding.unit_seconds // 2)
        is_alone = holding.split_among == 1 and holding.sharing_mode not in SHARED_MODES
        if is_alone and holding.unit_seconds - seconds > allowed:
            found[holding.node].append(holding)
    return found


def _may_hold(holding: PodDeviceUse, *, device: DeviceRun) -> bool:
    """Whether a device of the pod's node without a named pod may have been the pod's."""
    is_alike = (holding.sharing_mode is SharingMode.MIG) == bool(device.instance_id)
    return is_alike and overlap_seconds(device, holding=holding) > 0


class CoTenancyEvidence(StrEnum):
    """How two projects were close to each other.

    Attributes:
        SAME_DEVICE: Their pods were on one device at once: their node has only that one.
        SAME_NODE: They were on shared devices of one node at once; which ones is unknown.
        SAME_GPU_INSTANCES: They had MIG instances of one GPU: hardware apart.
    """

    SAME_DEVICE = "same_device"
    SAME_NODE = "same_node"
    SAME_GPU_INSTANCES = "same_gpu_instances"


EVIDENCE_WORDS: Final[Mapping[CoTenancyEvidence, str]] = {
    CoTenancyEvidence.SAME_DEVICE: "On the same device at once: the node has only one of its kind.",
    CoTenancyEvidence.SAME_NODE: (
        "On shared devices of the same node at once. Which of them each pod used is not recorded, "
        "so they may or may not have shared one."
    ),
    CoTenancyEvidence.SAME_GPU_INSTANCES: (
        "On MIG instances of the same GPU at once: each has memory and compute of its own, so the "
        "device was divided, not shared."
    ),
}
NOTES: Final = (
    "Every interval is listed once for each of the two projects.",
    "A project is that of the namespace at the bind.",
    "Pods of namespaces that belonged to no project are left out.",
    "MIG instances are known only where DCGM named their pods; a GPU nobody measured is not here.",
)


class Peer(StrEnum):
    """The kind of peer, for a reader without permission to see its name."""

    OTHER_PROJECT = "another project of the organization"
    OTHER_TENANT = "another tenant"

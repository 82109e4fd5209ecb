"""The demo's machines: H100 nodes whole and in MIG mixed mode, A100 nodes time-sliced and in MPS.

Labels follow GPU Feature Discovery. Source: NVIDIA/k8s-device-plugin, internal/lm/resource.go.
"""

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simulator.cluster.scenario import GPU, DeviceSlot, MIGInstance, Node

H100: Final = "NVIDIA H100 80GB HBM3"
A100: Final = "NVIDIA A100-SXM4-80GB"
GPU_RESOURCE: Final = "nvidia.com/gpu"
SHARED_RESOURCE: Final = "nvidia.com/gpu.shared"
UNMAPPED_RESOURCE: Final = "nvidia.com/gpumem-percentage"
"""A percentage of a GPU's memory, as HAMi offers it: no size exists for it."""
_BUSES: Final = ("18", "2A", "3A", "5D", "9A", "AB", "BA", "DB")
_NAMES: Final = uuid.UUID("5f8b7a52-3c0e-4d67-9c1f-6a7d1f0c9e21")
_MEMORY_MIB: Final = {"1g.10gb": "9984", "2g.20gb": "20096", "3g.40gb": "40448"}
COMPUTE_SLICES: Final = {"1g.10gb": 1, "2g.20gb": 2, "3g.40gb": 3}
"""Of the seven an H100 has."""
SEVEN_SMALL: Final = ("1g.10gb",) * 7
ONE_OF_EACH: Final = ("3g.40gb", "2g.20gb", "1g.10gb")
TWO_MEDIUM: Final = ("3g.40gb", "3g.40gb")


@dataclass(frozen=True)
class TrueShare:
    """The true size and price group of one unit of a resource on a kind of node, set by hand."""

    resource: str
    size: str
    price_group: str
    sharing_mode: str


WHOLE_H100: Final = TrueShare(GPU_RESOURCE, "large", "H100/whole", "whole")
SMALL_H100: Final = TrueShare("nvidia.com/mig-1g.10gb", "small", "H100/1g.10gb", "mig")
TWO_H100: Final = TrueShare("nvidia.com/mig-2g.20gb", "medium", "H100/2g.20gb", "mig")
THREE_H100: Final = TrueShare("nvidia.com/mig-3g.40gb", "medium", "H100/3g.40gb", "mig")
SLICED_A100: Final = TrueShare(GPU_RESOURCE, "small", "A100/1of4", "time-slicing")
SHARED_A100: Final = TrueShare(SHARED_RESOURCE, "small", "A100/1of4", "time-slicing")
MPS_A100: Final = TrueShare(GPU_RESOURCE, "small", "A100/1of4", "mps")
MPS_SHARED_A100: Final = TrueShare(SHARED_RESOURCE, "small", "A100/1of4", "mps")
UNMAPPED: Final = TrueShare(UNMAPPED_RESOURCE, "", "", "")


def whole_node(name: str, *, address: str, gpus: int = 8) -> Node:
    """Return a node that allocates whole H100s."""
    return mig_node(name, address=address, geometry=((),) * gpus)


def mig_node(name: str, *, address: str, geometry: tuple[tuple[str, ...], ...]) -> Node:
    """Return an H100 node in MIG mixed mode: one tuple of profiles per GPU, empty for a whole one.

    `gpu.count` counts the partitioned GPUs too, as the real label does.
    """
    profiles = Counter(profile for partition in geometry for profile in partition)
    labels = _h100_labels(len(geometry)) | {
        key: value for profile, count in profiles.items() for key, value in _mig(profile, count)
    }
    offered = {f"nvidia.com/mig-{profile}": count for profile, count in profiles.items()}
    return Node(
        name=name,
        address=address,
        labels=_machine_labels(name, labels),
        allocatable={
            "cpu": 128,
            GPU_RESOURCE: sum(1 for partition in geometry if not partition),
            **dict(sorted(offered.items())),
        },
        gpus=tuple(_gpu(name, index, H100, partition) for index, partition in enumerate(geometry)),
    )


def shared_node(name: str, *, address: str, strategy: str, is_renamed: bool, gpus: int = 2) -> Node:
    """Return an A100 node that shares each GPU between four pods.

    Args:
        name: Of the node.
        address: Its IP address.
        strategy: "time-slicing" or "mps".
        is_renamed: Whether the resource is nvidia.com/gpu.shared instead of nvidia.com/gpu.
        gpus: How many GPUs it has.
    """
    replicas = 4
    suffix = "" if is_renamed else "-SHARED"
    labels = _a100_labels(gpus) | {
        "nvidia.com/gpu.product": f"NVIDIA-A100-SXM4-80GB{suffix}",
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.sharing-strategy": strategy,
    }
    resource = SHARED_RESOURCE if is_renamed else GPU_RESOURCE
    return Node(
        name=name,
        address=address,
        labels=_machine_labels(name, labels),
        allocatable={"cpu": 96, resource: gpus * replicas},
        gpus=tuple(_gpu(name, index, A100) for index in range(gpus)),
        replicas=replicas,
    )


def virtual_node(name: str, *, address: str) -> Node:
    """Return an A100 node that hands out memory of a virtual GPU, which no size exists for."""
    return Node(
        name=name,
        address=address,
        labels=_machine_labels(name, _a100_labels(1)),
        allocatable={"cpu": 96, UNMAPPED_RESOURCE: 200},
        gpus=(_gpu(name, 0, A100),),
        replicas=2,
    )


def slots_of(node: Node, profile: str = "") -> tuple[DeviceSlot, ...]:
    """Return everything of one kind that a node hands out, GPU by GPU.

    Args:
        node: The node.
        profile: A MIG profile, or "" for GPUs that are not partitioned and shares of them.
    """
    if profile:
        return tuple(
            DeviceSlot(gpu.uuid, instance.instance_id)
            for gpu in node.gpus
            for instance in gpu.instances
            if instance.profile == profile
        )
    return tuple(
        DeviceSlot(gpu.uuid, replica=replica)
        for gpu in node.gpus
        if not gpu.instances
        for replica in range(node.replicas)
    )


def _gpu(node: str, index: int, model: str, partition: tuple[str, ...] = ()) -> GPU:
    return GPU(
        index=index,
        uuid=f"GPU-{uuid.uuid5(_NAMES, f'{node}/{index}')}",
        model=model,
        pci_bus_id=f"00000000:{_BUSES[index]}:00.0",
        instances=tuple(
            MIGInstance(instance_id=str(number + 1), profile=profile)
            for number, profile in enumerate(partition)
        ),
    )


def _machine_labels(name: str, labels: Mapping[str, str]) -> Mapping[str, str]:
    return {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true", **labels}


def _h100_labels(gpus: int) -> dict[str, str]:
    return {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/gpu.memory": "81559",
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "mixed",
    }


def _a100_labels(gpus: int) -> dict[str, str]:
    return {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.family": "ampere",
        "nvidia.com/mig.capable": "true",
    }


def _mig(profile: str, count: int) -> tuple[tuple[str, str], ...]:
    prefix = f"nvidia.com/mig-{profile}"
    return (
        (f"{prefix}.product", f"NVIDIA-H100-80GB-HBM3-MIG-{profile}"),
        (f"{prefix}.count", str(count)),
        (f"{prefix}.replicas", "1"),
        (f"{prefix}.memory", _MEMORY_MIB[profile]),
        (f"{prefix}.slices.gi", str(COMPUTE_SLICES[profile])),
    )

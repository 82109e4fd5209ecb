"""Sharing of devices: the evidence that two projects were on one device, as text.

Of pods under time-slicing and MPS the exporter names one, or none: which device of its node such a
pod used stands nowhere. It is certain only where the node has one device of that kind. MIG
instances are told by their GPU; they are hardware of their own.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Evidence(StrEnum):
    """How two projects were close to each other.

    Attributes:
        SAME_DEVICE: Their pods were on one device at once: their node has only that one.
        SAME_NODE: They were on shared devices of one node at once; which ones stands nowhere.
        SAME_GPU_INSTANCES: They had MIG instances of one GPU: hardware apart.
    """

    SAME_DEVICE = "same_device"
    SAME_NODE = "same_node"
    SAME_GPU_INSTANCES = "same_gpu_instances"


EVIDENCE_WORDS: Final[Mapping[Evidence, str]] = {
    Evidence.SAME_DEVICE: "On the same device at once: the node has only one of its kind.",
    Evidence.SAME_NODE: (
        "On shared devices of the same node at once. Which of them each pod used is not recorded, "
        "so they may or may not have shared one."
    ),
    Evidence.SAME_GPU_INSTANCES: (
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
    """What the peer is, for a reader who may not know its name."""

    OTHER_PROJECT = "another project of the organization"
    OTHER_TENANT = "another tenant"

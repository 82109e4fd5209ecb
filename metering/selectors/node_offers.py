"""Node offers: what every node of a cluster offers now, as the watch of its API last told."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from metering.models import NodeRecord


@dataclass(frozen=True)
class OfferingNode:
    """One node as it is now.

    Attributes:
        labels: The raw labels that are kept of it: those of its GPUs.
        units: Raw GPU resource names to allocatable units.
    """

    node: str
    labels: Mapping[str, str]
    units: Mapping[str, int]


def nodes_offering(cluster_id: UUID) -> tuple[OfferingNode, ...]:
    """Return the nodes of a cluster that offer any GPU, by name, in one statement.

    A node that is not ready or takes no pods now is among them: it may again in a minute.
    """
    rows = NodeRecord.objects.filter(cluster_id=cluster_id, end_at=None).order_by("node")
    return tuple(
        OfferingNode(node=node, labels=labels, units=units)
        for node, labels, units in rows.values_list("node", "labels", "allocatable")
        if units
    )

"""Nodes: what each offers, and whether it can give it."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from metering.adapters.kubernetes.fields import ObjectReader, mapping, objects, required, shown
from metering.protocols.watch import NodeState


def node_state(
    obj: dict[str, Any], *, seen_at: datetime, is_gpu: Callable[[str], bool]
) -> NodeState:
    """Return a node's state: every label, and of what is allocatable the GPUs.

    Raises:
        SourceUnavailableError: This is no node of an API server.
    """
    reader = ObjectReader(seen_at)
    metadata = mapping(obj.get("metadata"), "metadata")
    status = mapping(obj.get("status"), "status")
    offered = {
        resource: reader.units(quantity, f"Its offer of {resource}")
        for resource, quantity in mapping(status.get("allocatable"), "allocatable").items()
        if is_gpu(resource)
    }
    return NodeState(
        uid=required(metadata.get("uid"), "metadata.uid", characters_max=64),
        name=required(metadata.get("name"), "metadata.name"),
        resource_version=required(
            metadata.get("resourceVersion"), "metadata.resourceVersion", characters_max=64
        ),
        labels={
            shown(key, characters_max=317): shown(value, characters_max=63)
            for key, value in mapping(metadata.get("labels"), "metadata.labels").items()
        },
        allocatable={name: units for name, units in offered.items() if units is not None},
        is_ready=any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in objects(status.get("conditions"), "status.conditions")
        ),
        is_schedulable=not mapping(obj.get("spec"), "spec").get("unschedulable", False),
        defects=reader.defects,
    )

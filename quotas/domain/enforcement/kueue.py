"""A namespace's quota in Kueue: its own ClusterQueue in its tenant's cohort.

Nominal units are the queue's nominal quota, burst units what it may borrow from the cohort, and a
suspended tenant's queue is held. What is not covered by a queue is not admitted by Kueue, so every
offered resource is named. Kueue admits workloads and not pods: a pod that no workload stands for is
not held by it.

Source: kueue.x-k8s.io/v1beta2, ClusterQueueSpec.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from quotas.domain.enforcement.resource_quota import KEY_PREFIX

FLAVOR: Final = "default-flavor"
"""The ResourceFlavor of Kueue's own examples; it names no node label, so it fits every node."""
HOLD: Final = "Hold"
OPEN: Final = "None"
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
QUEUE_NAME: Final = "gpu-ledger"
"""Of the LocalQueue in every namespace."""


@dataclass(frozen=True)
class QueueQuota:
    """Values of one ClusterQueue, by ResourceQuota key."""

    hard: Mapping[str, int]
    burst: Mapping[str, int]
    is_held: bool


def cluster_queue_name(namespace: str) -> str:
    """Return the name of a namespace's ClusterQueue."""
    return f"gpu-ledger.{namespace}"


def cluster_queue_spec(
    *,
    namespace: str,
    hard: Mapping[str, int],
    burst: Mapping[str, int],
    cohort: str,
    is_held: bool,
) -> dict[str, Any]:
    """Return the spec of a namespace's ClusterQueue.

    Devices that claims ask for are left out: Kueue counts them under names of its own
    configuration (`deviceClassMappings`), and what is not covered is not admitted. A cluster that
    offers nothing else has queues that cover nothing; a group without resources is refused.
    """
    resources = [
        {
            "name": key.removeprefix(KEY_PREFIX),
            "nominalQuota": str(units),
            "borrowingLimit": str(burst.get(key, 0)),
        }
        for key, units in sorted(queued(hard).items())
    ]
    group = {
        "coveredResources": [one["name"] for one in resources],
        "flavors": [{"name": FLAVOR, "resources": resources}],
    }
    return {
        "cohortName": cohort,
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: namespace}},
        "stopPolicy": HOLD if is_held else OPEN,
        "resourceGroups": [group] if resources else [],
    }


def local_queue_spec(namespace: str) -> dict[str, Any]:
    """Return the spec of a namespace's LocalQueue."""
    return {"clusterQueue": cluster_queue_name(namespace)}


def queued(hard: Mapping[str, int]) -> dict[str, int]:
    """Return the keys Kueue can count, by name."""
    return {key: units for key, units in sorted(hard.items()) if key.startswith(KEY_PREFIX)}


def queue_quota(spec: Mapping[str, Any]) -> QueueQuota:
    """Return the values of a ClusterQueue's spec; quantities are whole numbers.

    Raises:
        ValueError: A quantity is none.
    """
    hard: dict[str, int] = {}
    burst: dict[str, int] = {}
    for group in spec.get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            for one in flavor.get("resources") or []:
                key = KEY_PREFIX + one["name"]
                hard[key] = hard.get(key, 0) + int(one["nominalQuota"])
                burst[key] = burst.get(key, 0) + int(one.get("borrowingLimit") or 0)
    return QueueQuota(
        hard=dict(sorted(hard.items())),
        burst=dict(sorted(burst.items())),
        is_held=spec.get("stopPolicy", OPEN) != OPEN,
    )


def queue_used(status: Mapping[str, Any]) -> dict[str, int]:
    """Return what workloads with reserved quota hold, by ResourceQuota key."""
    used: dict[str, int] = {}
    for flavor in status.get("flavorsReservation") or []:
        for one in flavor.get("resources") or []:
            key = KEY_PREFIX + one["name"]
            used[key] = used.get(key, 0) + int(one["total"])
    return dict(sorted(used.items()))


def has_settled(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether Kueue's controller has observed the current spec."""
    conditions = status.get("conditions") or []
    seen = [
        int(one.get("observedGeneration") or 0) for one in conditions if one["type"] == "Active"
    ]
    return bool(seen) and max(seen) >= int(metadata.get("generation") or 0)

"""A namespace's quota in Kueue: its own ClusterQueue in its tenant's cohort.

Nominal units are the queue's nominal quota, burst units what it may borrow from the cohort, and a
suspended tenant's queue is held. What is not covered by a queue is not admitted by Kueue unless its
own configuration says otherwise, so every offered resource is named, and cpu, memory and ephemeral
storage with more than any cluster has. Kueue admits workloads and not pods: a pod that no workload
stands for is not held by it.

Source: kueue.x-k8s.io/v1beta2, ClusterQueueSpec; config.kueue.x-k8s.io/v1beta2, Resources.
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
UNLIMITED: Final = {"cpu": "1000000", "ephemeral-storage": "4Pi", "memory": "4Pi"}
"""Nominal quota of what every pod asks for and we do not limit: more than a namespace can use,
and little enough that two thousand queues of one cohort add up within 64 bits."""
BLOCK_UNDECLARED: Final = "BlockUndeclared"
"""Kueue's default: a workload that asks for a resource which its queue does not cover waits."""
IGNORE_UNDECLARED: Final = "IgnoreUndeclared"
UNREADABLE: Final = (
    "Kueue's configuration, the ConfigMap kueue-manager-config in kueue-system, could not be read: "
    "allow GPU Ledger to get it. Unknown: quotaCheckStrategy and excludeResourcePrefixes."
)


@dataclass(frozen=True)
class QueueQuota:
    """Values of one ClusterQueue, by ResourceQuota key."""

    hard: Mapping[str, int]
    burst: Mapping[str, int]
    is_held: bool


@dataclass(frozen=True)
class KueueChecks:
    """Which resources of a workload Kueue compares with quotas: its own configuration.

    Attributes:
        strategy: `quotaCheckStrategy`.
        excluded: `excludeResourcePrefixes`: resources that begin so are never compared.
    """

    strategy: str = BLOCK_UNDECLARED
    excluded: tuple[str, ...] = ()


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
    configuration (`deviceClassMappings`). All resources stand in one group, since a flavor belongs
    to one group only.
    """
    unlimited = [{"name": name, "nominalQuota": quota} for name, quota in UNLIMITED.items()]
    resources = unlimited + [
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
        "resourceGroups": [group],
    }


def local_queue_spec(namespace: str) -> dict[str, Any]:
    """Return the spec of a namespace's LocalQueue."""
    return {"clusterQueue": cluster_queue_name(namespace)}


def queued(hard: Mapping[str, int]) -> dict[str, int]:
    """Return the keys Kueue can count, by name."""
    return {key: units for key, units in sorted(hard.items()) if key.startswith(KEY_PREFIX)}


def queue_quota(spec: Mapping[str, Any]) -> QueueQuota:
    """Return the values of a ClusterQueue's spec for GPUs; quantities are whole numbers.

    Raises:
        ValueError: A quantity is none.
    """
    hard: dict[str, int] = {}
    burst: dict[str, int] = {}
    for group in spec.get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            for one in _devices(flavor):
                key = KEY_PREFIX + one["name"]
                hard[key] = hard.get(key, 0) + int(one["nominalQuota"])
                burst[key] = burst.get(key, 0) + int(one.get("borrowingLimit") or 0)
    return QueueQuota(
        hard=dict(sorted(hard.items())),
        burst=dict(sorted(burst.items())),
        is_held=spec.get("stopPolicy", OPEN) != OPEN,
    )


def queue_used(status: Mapping[str, Any]) -> dict[str, int]:
    """Return what GPUs workloads with reserved quota hold, by ResourceQuota key."""
    used: dict[str, int] = {}
    for flavor in status.get("flavorsReservation") or []:
        for one in _devices(flavor):
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


def kueue_checks(configuration: Mapping[str, Any]) -> KueueChecks:
    """Return what Kueue's configuration says about resources; absent fields have its defaults.

    Raises:
        TypeError: A field has another shape; its name.
    """
    resources = configuration.get("resources") or {}
    if not isinstance(resources, Mapping):
        raise TypeError("resources")
    strategy = resources.get("quotaCheckStrategy") or BLOCK_UNDECLARED
    excluded = resources.get("excludeResourcePrefixes") or []
    if not isinstance(strategy, str):
        raise TypeError("quotaCheckStrategy")
    if not (isinstance(excluded, list) and all(isinstance(one, str) for one in excluded)):
        raise TypeError("excludeResourcePrefixes")
    return KueueChecks(strategy, tuple(excluded))


def uncounted(checks: KueueChecks, hard: Mapping[str, int]) -> dict[str, str]:
    """Return the prefix that excludes a limited resource from quotas, by the resource's name."""
    names = (key.removeprefix(KEY_PREFIX) for key in queued(hard))
    return {name: prefix for name in names for prefix in checks.excluded if name.startswith(prefix)}


def checks_notice(checks: KueueChecks, hard: Mapping[str, int]) -> str:
    """Return what a reader of a queue's limits has to know about Kueue's configuration."""
    missed = uncounted(checks, hard)
    if missed:
        return f"Kueue's excludeResourcePrefixes exclude {', '.join(missed)}: it is not limited."
    if checks.strategy == IGNORE_UNDECLARED:
        return (
            f"Kueue's quotaCheckStrategy is {checks.strategy}: it does not limit GPUs that are not "
            "offered in this cluster."
        )
    excluded = ", ".join(checks.excluded) or "none"
    return (
        f"Kueue's quotaCheckStrategy is {checks.strategy}: a workload that asks for more than "
        f"{', '.join(UNLIMITED)} and the GPUs offered here waits, unless the resource begins with "
        f"one of its excludeResourcePrefixes ({excluded})."
    )


def _devices(flavor: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the extended resources of a flavor: their names have a domain, cpu and memory none."""
    return [one for one in flavor.get("resources") or [] if "/" in one["name"]]

"""The priority of a pod, from the class it names, or from the class that is everybody's.

Source: kubernetes/plugin/pkg/admission/priority/admission.go.
"""

from typing import Final

from simulator.kubernetes_api.errors import JSON, forbidden
from simulator.kubernetes_api.resources import PODS, PRIORITY_CLASSES
from simulator.kubernetes_api.store import ObjectStore

_BUILT_IN: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
_PREEMPTION: Final = "PreemptLowerPriority"


def resolve_priority(store: ObjectStore, pod: JSON) -> None:
    """Write a new pod's priority and preemption policy into it.

    Raises:
        StatusError: 403 for a class that is not there, or a number that is not the class's.
    """
    spec = pod["spec"]
    name = spec.get("priorityClassName") or _everybodys(store)
    value, policy = _class(store, pod, name) if name else (0, _PREEMPTION)
    if spec.get("priority", value) != value:
        why = "the integer value of priority must not be provided in pod spec; priority admission"
        told = f"{why} controller computed {value} from the given PriorityClass name"
        raise forbidden(PODS.plural, _name(pod), told)
    spec["priority"] = value
    spec["preemptionPolicy"] = policy
    if name:
        spec["priorityClassName"] = name


def _everybodys(store: ObjectStore) -> str:
    """Return the lowest of the classes that are marked as everybody's; "" without any."""
    marked = [one for _, one in store.items(PRIORITY_CLASSES) if one.get("globalDefault")]
    lowest = min(marked, key=lambda one: int(one["value"]), default=None)
    return str(lowest["metadata"]["name"]) if lowest is not None else ""


def _class(store: ObjectStore, pod: JSON, name: str) -> tuple[int, str]:
    if name in _BUILT_IN:
        return _BUILT_IN[name], _PREEMPTION
    found = store.get(PRIORITY_CLASSES, ("", name))
    if found is None:
        why = f"no PriorityClass with name {name} was found"
        raise forbidden(PODS.plural, _name(pod), why)
    return int(found["value"]), str(found.get("preemptionPolicy", _PREEMPTION))


def _name(pod: JSON) -> str:
    """Return a pod's name, or the begin of one that is to be generated."""
    metadata = pod["metadata"]
    return str(metadata.get("name") or metadata.get("generateName", ""))

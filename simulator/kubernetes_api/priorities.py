"""The priority of a pod, from the class it names.

Source: kubernetes/plugin/pkg/admission/priority/admission.go.
"""

from typing import Final

from simulator.kubernetes_api.errors import JSON, forbidden
from simulator.kubernetes_api.resources import PODS, PRIORITY_CLASSES
from simulator.kubernetes_api.store import ObjectStore

_PREEMPTION: Final = "PreemptLowerPriority"


def resolve_priority(store: ObjectStore, pod: JSON) -> None:
    """Write a new pod's priority and preemption policy into it.

    Raises:
        StatusError: 403 for a class that is not there.
    """
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    value, policy = _class(store, pod, name) if name else (0, _PREEMPTION)
    spec["priority"] = value
    spec["preemptionPolicy"] = policy


def _class(store: ObjectStore, pod: JSON, name: str) -> tuple[int, str]:
    found = store.get(PRIORITY_CLASSES, ("", name))
    if found is None:
        why = f"no PriorityClass with name {name} was found"
        raise forbidden(PODS.plural, _name(pod), why)
    return int(found["value"]), str(found.get("preemptionPolicy", _PREEMPTION))


def _name(pod: JSON) -> str:
    """Return a pod's name, or the begin of one that is to be generated."""
    metadata = pod["metadata"]
    return str(metadata.get("name") or metadata.get("generateName", ""))

"""Kueue's queues: a controller that says of every queue that it has looked at it.

No workload is admitted or held here; only what an enforcer reads back is played.
Source: kubernetes-sigs/kueue, pkg/controller/core/clusterqueue_controller.go.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.incoming import printed_time
from simulator.kubernetes_api.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
)
from simulator.kubernetes_api.store import ObjectStore

_OPEN: Final = "None"


class QueueController:
    """Keeps the condition `Active` of every queue.

    Args:
        store: Where the objects are.
        clock: Returns the present moment, aware UTC.
    """

    def __init__(self, store: ObjectStore, *, clock: Callable[[], datetime]) -> None:
        """Keep what does the work."""
        self._store = store
        self._clock = clock

    def reconcile(self) -> None:
        """Look at every queue that has changed."""
        with self._store.lock:
            for resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
                for key, queue in self._store.items(resource):
                    if _observed(queue) != queue["metadata"].get("generation"):
                        status = {**queue.get("status", {}), "conditions": [self._active(queue)]}
                        self._store.put(resource, key, {**queue, "status": status})

    def _active(self, queue: JSON) -> JSON:
        is_held = queue["spec"].get("stopPolicy", _OPEN) != _OPEN
        return {
            "type": "Active",
            "status": str(not is_held),
            "reason": "Stopped" if is_held else "Ready",
            "message": "The queue is stopped" if is_held else "Can admit new workloads",
            "observedGeneration": queue["metadata"].get("generation"),
            "lastTransitionTime": printed_time(self._clock()),
        }


def _observed(queue: JSON) -> int | None:
    conditions = queue.get("status", {}).get("conditions", [])
    found: int | None = conditions[0]["observedGeneration"] if conditions else None
    return found

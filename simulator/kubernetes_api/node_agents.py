"""A scheduler and the kubelets, as much as a trial needs: pods are bound, run, and end.

Only extended resources are looked at, node selectors and the taints of nobody. A pod runs until
somebody deletes it, unless it says by an annotation how long its work takes. Tests that look at
single steps of a pod's life leave this out and take those steps themselves.
"""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.incoming import printed_time
from simulator.kubernetes_api.pod_usage import (
    TERMINAL,
    effective,
    is_extended,
)
from simulator.kubernetes_api.quantities import parse_quantity
from simulator.kubernetes_api.resources import NODES, PODS
from simulator.kubernetes_api.store import Key, ObjectStore

RUNS_FOR: Final = "simulated.gpu-ledger.io/runs-for-seconds"
"""Annotation: after so many whole seconds the pod has succeeded."""
STOPS_WITHIN: Final = timedelta(seconds=1)
"""How long a container takes to end once it is asked to; its grace may be longer."""

Amounts = Mapping[str, Fraction]


class NodeAgents:
    """Brings every pod one step on: to a node, to work, to its end, out of the way.

    Args:
        store: Where the objects are.
        clock: Returns the present moment, aware UTC.
    """

    def __init__(self, store: ObjectStore, *, clock: Callable[[], datetime]) -> None:
        """Keep what does the work."""
        self._store = store
        self._clock = clock

    def reconcile(self) -> None:
        """Do the next step for every pod, oldest first where they compete for a node."""
        with self._store.lock:
            pods = self._store.items(PODS)
            held = _held(pod for _, pod in pods)
            for key, pod in sorted(pods, key=_age):
                self._step(key, pod, held)

    def _step(self, key: Key, pod: JSON, held: dict[str, Counter[str]]) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self._end(key, pod)
        elif _is_over(pod):
            return
        elif not pod["spec"].get("nodeName"):
            self._bind(key, pod, held)
        elif pod["status"].get("phase") == "Pending":
            self._store.put(PODS, key, _running(pod, self._now()))
        elif self._has_worked(pod):
            self._store.put(PODS, key, _terminated(pod, "Succeeded", self._now()))

    def _bind(self, key: Key, pod: JSON, held: dict[str, Counter[str]]) -> None:
        """Bind a pod to the first node with room; it stays pending while there is none."""
        asked = _asked(pod)
        for (_, name), node in self._store.items(NODES):
            if _fits(asked, node, held.setdefault(name, Counter()), pod):
                held[name].update({resource: int(units) for resource, units in asked.items()})
                self._store.put(PODS, key, _bound(pod, name, self._now()))
                return

    def _end(self, key: Key, pod: JSON) -> None:
        """Terminate what runs, and remove the pod once its containers have ended."""
        if pod["status"].get("phase") == "Running":
            asked_at = datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]) - timedelta(
                seconds=pod["metadata"].get("deletionGracePeriodSeconds", 0)
            )
            if self._clock() >= asked_at + STOPS_WITHIN:
                self._store.put(PODS, key, _terminated(pod, "Failed", self._now()))
            return
        if not pod["metadata"].get("finalizers"):
            self._store.remove(PODS, key)

    def _has_worked(self, pod: JSON) -> bool:
        seconds = (pod["metadata"].get("annotations") or {}).get(RUNS_FOR, "")
        begun = pod["status"].get("startTime")
        if not seconds.isdecimal() or begun is None:
            return False
        return self._clock() >= datetime.fromisoformat(begun) + timedelta(seconds=int(seconds))

    def _now(self) -> str:
        return printed_time(self._clock())


def _age(item: tuple[Key, JSON]) -> tuple[str, Key]:
    return item[1]["metadata"]["creationTimestamp"], item[0]


def _is_over(pod: JSON) -> bool:
    return pod["status"].get("phase") in TERMINAL


def _asked(pod: JSON) -> Amounts:
    found = effective(pod, "requests") | effective(pod, "limits")
    return {resource: units for resource, units in found.items() if is_extended(resource)}


def _held(pods: Iterable[JSON]) -> dict[str, Counter[str]]:
    """Return extended resources in use by node: of every pod there that is not over."""
    held: dict[str, Counter[str]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node and not _is_over(pod):
            amounts = {resource: int(units) for resource, units in _asked(pod).items()}
            held.setdefault(node, Counter()).update(amounts)
    return held


def _fits(asked: Amounts, node: JSON, held: Counter[str], pod: JSON) -> bool:
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    offered = node["status"].get("allocatable") or {}
    return all(
        held[resource] + units <= parse_quantity(offered.get(resource, "0"))
        for resource, units in asked.items()
    )


def _bound(pod: JSON, node: str, now: str) -> JSON:
    bound = copy.deepcopy(pod)
    bound["spec"]["nodeName"] = node
    bound["status"] = {**bound["status"], "phase": "Pending"}
    bound["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    ]
    return bound


def _running(pod: JSON, now: str) -> JSON:
    running = copy.deepcopy(pod)
    status = running["status"]
    status.update({"phase": "Running", "startTime": now})
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    status["conditions"] = [*status.get("conditions", []), ready]
    status["containerStatuses"] = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in running["spec"]["containers"]
    ]
    return running


def _terminated(pod: JSON, phase: str, now: str) -> JSON:
    ended = copy.deepcopy(pod)
    status = ended["status"]
    status["phase"] = phase
    status["conditions"] = [one for one in status.get("conditions", []) if one["type"] != "Ready"]
    for container in status.get("containerStatuses", []):
        begun = container["state"].get("running", {}).get("startedAt", now)
        container["ready"] = False
        container["state"] = {
            "terminated": {
                "exitCode": 0 if phase == "Succeeded" else 143,
                "reason": "Completed" if phase == "Succeeded" else "Error",
                "startedAt": begun,
                "finishedAt": now,
            }
        }
    return ended

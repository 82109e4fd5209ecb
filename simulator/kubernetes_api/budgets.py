"""PodDisruptionBudgets: what they allow, and what an eviction takes from them.

Source: kubernetes/pkg/controller/disruption/disruption.go and
pkg/registry/core/pod/storage/eviction.go.
"""

from typing import Final

from simulator.kubernetes_api.errors import (
    JSON,
    StatusError,
    internal_error,
)
from simulator.kubernetes_api.resources import BUDGETS, PODS
from simulator.kubernetes_api.selectors import matches_labels
from simulator.kubernetes_api.store import Key, ObjectStore

_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."


class BudgetController:
    """Keeps the status of every budget true.

    A budget in whole pods is exact. One in percent, or of what may be unavailable, asks for the
    scale of a controller, which nothing here has: it allows nothing, as for bare pods on a server.

    Args:
        store: Where the objects are.
    """

    def __init__(self, store: ObjectStore) -> None:
        """Keep the store."""
        self._store = store

    def reconcile(self) -> None:
        """Make every status true now."""
        with self._store.lock:
            for key, budget in self._store.items(BUDGETS):
                status = self._status(key[0], budget)
                if status != budget.get("status"):
                    self._store.put(BUDGETS, key, {**budget, "status": status})

    def _status(self, namespace: str, budget: JSON) -> JSON:
        before = budget.get("status") or {}
        least = budget["spec"].get("minAvailable")
        if not isinstance(least, int):
            return {**before, "disruptionsAllowed": 0}
        pods = budgeted_pods(self._store, namespace, budget)
        healthy = sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods)
        return {
            "expectedPods": len(pods),
            "currentHealthy": healthy,
            "desiredHealthy": least,
            "disruptionsAllowed": max(0, healthy - least) if pods else 0,
            "observedGeneration": budget["metadata"].get("generation", 1),
        }


def is_ready(pod: JSON) -> bool:
    """Whether a pod's condition Ready is true."""
    conditions = pod["status"].get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def budgeted_pods(store: ObjectStore, namespace: str, budget: JSON) -> list[JSON]:
    """Return the pods that a budget is about, by name; one without a selector is about none."""
    selector = budget["spec"].get("selector")
    if selector is None:
        return []
    return [
        pod
        for _, pod in store.items(PODS, namespace)
        if matches_labels(selector, pod["metadata"].get("labels") or {})
    ]


def budgets_of(store: ObjectStore, pod: JSON) -> list[tuple[Key, JSON]]:
    """Return the budgets that are about a pod, by name."""
    namespace = pod["metadata"]["namespace"]
    labels = pod["metadata"].get("labels") or {}
    return [
        (key, one)
        for key, one in store.items(BUDGETS, namespace)
        if one["spec"].get("selector") is not None
        and matches_labels(one["spec"]["selector"], labels)
    ]


def charged_budget(budget: JSON) -> JSON:
    """Return a budget after one more eviction.

    Raises:
        StatusError: 429 when it would be violated.
    """
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status["disruptionsAllowed"] <= 0:
        # The real server tells no time to wait here: nobody knows it.
        told = (
            f"The disruption budget {name} needs {status['desiredHealthy']} healthy pods and has"
            f" {status['currentHealthy']} currently"
        )
        causes = [{"reason": "DisruptionBudget", "message": told}]
        raise StatusError(429, "TooManyRequests", _VIOLATED, details={"causes": causes})
    left = status["disruptionsAllowed"] - 1
    return {**budget, "status": {**status, "disruptionsAllowed": left}}


def several_budgets() -> StatusError:
    """Return the refusal of an eviction that more than one budget is about."""
    error = internal_error("")
    error.body["message"] = (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not"
        " support."
    )
    for name in ("reason", "details"):
        del error.body[name]
    return error

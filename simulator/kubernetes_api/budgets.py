"""PodDisruptionBudgets: what they allow, and what an eviction takes from them.

Source: kubernetes/pkg/controller/disruption/disruption.go and
pkg/registry/core/pod/storage/eviction.go.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from simulator.kubernetes_api.errors import (
    JSON,
    StatusError,
    internal_error,
    too_many_requests,
)
from simulator.kubernetes_api.incoming import printed_time
from simulator.kubernetes_api.resources import BUDGETS, PODS
from simulator.kubernetes_api.selectors import matches_labels
from simulator.kubernetes_api.store import Key, ObjectStore

PROCESSING_SECONDS: Final = 10
"""How long a client is told to wait for a budget that the controller has not seen yet."""
_VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_DISRUPTED_FOR: Final = timedelta(minutes=2)


class BudgetController:
    """Keeps the status of every budget true.

    A budget in whole pods is exact. One in percent, or of what may be unavailable, asks for the
    scale of a controller, which nothing here has: it allows nothing, as for bare pods on a server.

    Args:
        store: Where the objects are.
        clock: Returns the present moment, aware UTC.
    """

    def __init__(self, store: ObjectStore, *, clock: Callable[[], datetime]) -> None:
        """Keep the store."""
        self._store = store
        self._clock = clock

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
        disrupted = self._still_disrupted(before.get("disruptedPods") or {}, pods)
        healthy = sum(
            is_ready(pod)
            and "deletionTimestamp" not in pod["metadata"]
            and pod["metadata"]["name"] not in disrupted
            for pod in pods
        )
        status = {
            "expectedPods": len(pods),
            "currentHealthy": healthy,
            "desiredHealthy": least,
            "disruptionsAllowed": max(0, healthy - least) if pods else 0,
            "observedGeneration": budget["metadata"].get("generation", 1),
        }
        return {**status, "disruptedPods": disrupted} if disrupted else status

    def _still_disrupted(self, disrupted: dict[str, str], pods: list[JSON]) -> dict[str, str]:
        """Return the pods that were evicted a moment ago and are still on their way."""
        waiting = {
            pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
        }
        oldest = self._clock() - _DISRUPTED_FOR
        return {
            name: at
            for name, at in disrupted.items()
            if name in waiting and datetime.fromisoformat(at) > oldest
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


def charged_budget(budget: JSON, pod: str, now: datetime) -> JSON:
    """Return a budget after one more eviction.

    Raises:
        StatusError: 429 when it would be violated, or is not known yet.
    """
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 1):
        error = too_many_requests(_VIOLATED, PROCESSING_SECONDS)
        told = f"The disruption budget {name} is still being processed by the server."
        raise _with_cause(error, told)
    if status["disruptionsAllowed"] <= 0:
        # The real server tells no time to wait here: nobody knows it.
        error = StatusError(429, "TooManyRequests", _VIOLATED, details={})
        told = (
            f"The disruption budget {name} needs {status['desiredHealthy']} healthy pods and has"
            f" {status['currentHealthy']} currently"
        )
        raise _with_cause(error, told)
    disrupted = {**(status.get("disruptedPods") or {}), pod: printed_time(now)}
    left = status["disruptionsAllowed"] - 1
    charged = {**status, "disruptionsAllowed": left, "disruptedPods": disrupted}
    return {**budget, "status": charged}


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


def _with_cause(error: StatusError, told: str) -> StatusError:
    details = error.body.setdefault("details", {})
    details["causes"] = [{"reason": "DisruptionBudget", "message": told}]
    return error

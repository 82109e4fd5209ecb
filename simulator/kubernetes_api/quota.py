"""ResourceQuota's accounting: pods are refused at the door, the status follows a little later.

A pod is compared with `status.hard`, which a controller copies from `spec.hard` some milliseconds
after a write. Until then a new key limits nothing, as on a real server. Lowering evicts nobody.
Source: kubernetes/apiserver, pkg/admission/plugin/resourcequota/controller.go and
pkg/quota/v1/generic/evaluator.go (`Matches` looks at `Status.Hard`).
"""

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Final

from simulator.kubernetes_api.errors import JSON, forbidden
from simulator.kubernetes_api.pod_usage import (
    counted_names,
    matches_scopes,
    usage_of,
)
from simulator.kubernetes_api.quantities import (
    format_quantity,
    parse_quantity,
)
from simulator.kubernetes_api.resources import PODS, QUOTAS
from simulator.kubernetes_api.store import ObjectStore

DELAY_SECONDS: Final = (0.005, 0.05)
"""Between a write and the status that follows; a real server took 5 ms to 1.3 s."""
_WAKE_SECONDS: Final = 0.2


def admit(store: ObjectStore, pod: JSON, *, at: datetime, is_dry_run: bool) -> None:
    """Charge a new pod to every quota of its namespace, or refuse it; hold the store's lock.

    Raises:
        StatusError: 403 that names the first quota it does not fit into.
    """
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    usage = usage_of(pod, at)
    charged: list[tuple[str, JSON]] = []
    for (_, quota_name), quota in store.items(QUOTAS, namespace):
        status = quota.get("status", {})
        keys = counted_names(status.get("hard", {}))
        if not keys or not matches_scopes(quota, pod):
            continue
        _refuse_exceeded(name, quota, usage)
        charged.append((quota_name, _charged(quota, usage)))
    for quota_name, quota in charged if not is_dry_run else ():
        store.put(QUOTAS, (namespace, quota_name), quota)


def _refuse_exceeded(pod: str, quota: JSON, usage: dict[str, Fraction]) -> None:
    """Refuse when one of the keys the pod asks for does not fit; other keys are not looked at."""
    hard, used = quota["status"]["hard"], quota["status"]["used"]
    exceeded = [
        key
        for key in sorted(usage)
        if key in hard
        and usage[key] > 0
        and parse_quantity(used[key]) + usage[key] > parse_quantity(hard[key])
    ]
    if not exceeded:
        return
    asked = ",".join(f"{key}={format_quantity(usage[key])}" for key in exceeded)
    so_far = ",".join(f"{key}={used[key]}" for key in exceeded)
    limit = ",".join(f"{key}={hard[key]}" for key in exceeded)
    why = f"requested: {asked}, used: {so_far}, limited: {limit}"
    raise forbidden(PODS.plural, pod, f"exceeded quota: {quota['metadata']['name']}, {why}")


def _charged(quota: JSON, usage: dict[str, Fraction]) -> JSON:
    used = {
        key: format_quantity(parse_quantity(value) + usage.get(key, Fraction(0)))
        for key, value in quota["status"]["used"].items()
    }
    return {**quota, "status": {**quota["status"], "used": used}}


class QuotaController:
    """Keeps every quota's status true, a little late; runs in a thread of its own.

    Args:
        store: Where the objects are.
        clock: Returns the present moment, aware UTC.
        delay_seconds: Least and most between a write and the status that follows.
        seed: Of the delays.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        clock: Callable[[], datetime],
        delay_seconds: tuple[float, float] = DELAY_SECONDS,
        seed: int = 1,
    ) -> None:
        """Nothing runs yet."""
        self._store = store
        self._clock = clock
        self._delay_seconds = delay_seconds
        self._random = random.Random(seed)  # noqa: S311 - Delays of a simulation.
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to follow."""
        self._thread = threading.Thread(target=self._run, name="quota-controller", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()

    def reconcile(self) -> None:
        """Make every status true now."""
        with self._store.lock:
            if not self._store.items(QUOTAS):
                return
            pods: defaultdict[str, list[JSON]] = defaultdict(list)
            for (namespace, _), pod in self._store.items(PODS):
                pods[namespace].append(pod)
            quotas = self._store.items(QUOTAS)
            counts = Counter(namespace for (namespace, _), _ in quotas)
            for key, quota in quotas:
                status = self._status(quota, pods[key[0]], quotas=counts[key[0]])
                if quota.get("status") != status:
                    self._store.put(QUOTAS, key, {**quota, "status": status})

    def _run(self) -> None:
        seen = 0
        while not self._is_stopping.is_set():
            version = self._store.version
            if version != seen:
                time.sleep(self._random.uniform(*self._delay_seconds))
                seen = self._store.version
                self.reconcile()
            self._store.wait(seen, timeout_seconds=_WAKE_SECONDS)

    def _status(self, quota: JSON, pods: list[JSON], *, quotas: int) -> JSON:
        hard = quota["spec"].get("hard", {})
        at = self._clock()
        totals: defaultdict[str, Fraction] = defaultdict(Fraction)
        for pod in pods:
            if matches_scopes(quota, pod):
                for key, value in usage_of(pod, at).items():
                    totals[key] += value
        totals["count/resourcequotas"] = totals["resourcequotas"] = Fraction(quotas)
        # A key nothing counts for stays at zero: it is accepted and never fills.
        return {"hard": dict(hard), "used": {key: format_quantity(totals[key]) for key in hard}}

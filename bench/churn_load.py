"""The load of `bench.churn`: pods, Jobs and Deployments on a real cluster, and its missing parts.

A kubelet that only writes statuses, a second webhook and a ResourceQuota that refuse at random, and
someone who asks for a pod that always fits.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import urllib3

from tests.support.kubernetes.wire import Reply, Wire

JSON = dict[str, Any]
GPU: Final = "nvidia.com/gpu"
LABEL: Final = "gpu-ledger.io/churn"
PROBE: Final = "churn-probe"
LIMITS: Final = {"churn-a": 96, "churn-c": 48, PROBE: 1}
"""Units of each project, by its namespace; one has a second namespace."""
NAMESPACES: Final = {"churn-a": "churn-a", "churn-b": "churn-a", "churn-c": "churn-c", PROBE: PROBE}
NODES, GPUS_A_NODE = 20, 8
RUN_SECONDS: Final = (15, 100)
"""A watch doubts a list in which most of what ran a moment ago is missing."""
FAIL_CHANCE: Final = 0.2
REFUSE_CHANCE: Final = 0.08
PATIENCE_SECONDS: Final = 5
"""How long after all is well a pod that fits may still be refused."""


def ask(call: Callable[[], Reply]) -> Reply:
    """Return a reply; one with code 0 where the API server is away."""
    try:
        return call()
    except (urllib3.exceptions.HTTPError, OSError):
        return Reply(0, {})


def pod_spec(gpus: int, **more: object) -> JSON:
    """Return the spec of a pod that asks for GPUs and nothing else."""
    resources = {"limits": {GPU: str(gpus)}}
    container = {"name": "main", "image": "example.com/none:1", "resources": resources}
    return {
        "containers": [container],
        "automountServiceAccountToken": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        **more,
    }


def gpus_of(pod: JSON) -> int:
    """Return the GPUs of a pod."""
    containers = pod["spec"]["containers"]
    return sum(int(one["resources"].get("limits", {}).get(GPU, 0)) for one in containers)


def is_live(pod: JSON) -> bool:
    """Whether a pod counts: one that has ended does not."""
    return pod["status"].get("phase") not in {"Succeeded", "Failed"}


@dataclass
class Cluster:
    """A real cluster without kubelets.

    Attributes:
        over_units: The most units any project was over its limit, by lists of the cluster.
        is_frozen: Whether pods stay as they are.
    """

    wire: Wire
    chance: random.Random
    over_units: int = 0
    is_frozen: bool = False
    _ends: dict[str, float] = field(default_factory=dict)

    def furnish(self) -> None:
        """Create namespaces and nodes."""
        for name in NAMESPACES:
            labels = {LABEL: "true", "gpu-ledger.io/disturbed": str(name != PROBE).lower()}
            self.wire.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(GPUS_A_NODE)}
        labels = {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.replicas": "1",
        }
        for number in range(NODES):
            name = f"churn-{number}"
            status = {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            body = {"metadata": {"name": name, "labels": labels}, "status": status}
            self.wire.post("/api/v1/nodes", body)
            # A node begins with the taint not-ready, which the node controller takes away.
            self.wire.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    def clear(self) -> None:
        """Remove what an earlier run left."""
        while True:
            for namespace in NAMESPACES:
                for group, plural in (("apps", "deployments"), ("batch", "jobs")):
                    path = f"/apis/{group}/v1/namespaces/{namespace}/{plural}"
                    self.wire.delete(path, {"propagationPolicy": "Background"})
                pods = f"/api/v1/namespaces/{namespace}/pods"
                self.wire.delete(pods, {"gracePeriodSeconds": 0})
            if not self.pods():
                return
            time.sleep(1)

    def pods(self) -> list[JSON] | None:
        """Return the pods of all namespaces of the load; None while the API server is away."""
        reply = ask(lambda: self.wire.get("/api/v1/pods", limit=5_000))
        if reply.code != 200:
            return None
        return [one for one in reply.body["items"] if one["metadata"]["namespace"] in NAMESPACES]

    def live_units(self, pods: list[JSON]) -> Counter[str]:
        """Return units of live pods by project."""
        units: Counter[str] = Counter()
        for pod in filter(is_live, pods):
            units[NAMESPACES[pod["metadata"]["namespace"]]] += gpus_of(pod)
        return units

    def keep(self) -> None:
        """Do once what kubelets do, and look whether a project is over its limit."""
        pods = self.pods()
        if pods is None:
            return
        for project, units in self.live_units(pods).items():
            self.over_units = max(self.over_units, units - LIMITS[project])
        if not self.is_frozen:
            for pod in pods:
                self._run(pod)

    def _run(self, pod: JSON) -> None:
        metadata, status = pod["metadata"], pod["status"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            ask(lambda: self.wire.delete(path, {"gracePeriodSeconds": 0}))
        elif status.get("phase") == "Pending" and pod["spec"].get("nodeName"):
            self._ends[metadata["uid"]] = time.monotonic() + self.chance.uniform(*RUN_SECONDS)
            state = {"running": {"startedAt": _now()}}
            self._write(path, "Running", state, startTime=_now())
        elif status.get("phase") == "Running" and metadata["namespace"] != PROBE:
            if time.monotonic() < self._ends.get(metadata["uid"], 0):
                return
            has_failed = self.chance.random() < FAIL_CHANCE
            began = status["containerStatuses"][0]["state"].get("running", {}).get("startedAt")
            ended = {"exitCode": int(has_failed), "startedAt": began, "finishedAt": _now()}
            self._write(path, "Failed" if has_failed else "Succeeded", {"terminated": ended})

    def _write(self, path: str, phase: str, state: JSON, **more: object) -> None:
        container = {
            "name": "main",
            "image": "example.com/none:1",
            "imageID": "none",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "containerStatuses": [container], **more}
        ask(lambda: self.wire.patch(f"{path}/status", {"status": status}))


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Load:
    """Creates and deletes what tenants do, with a drawn pause between."""

    cluster: Cluster
    chance: random.Random
    codes: Counter[int] = field(default_factory=Counter)
    pods_asked: int = 0
    _number: int = 0
    _objects: list[tuple[float, str]] = field(default_factory=list)

    def step(self) -> None:
        """Do one thing."""
        self._number += 1
        now = time.monotonic()
        namespace = self.chance.choice(["churn-a", "churn-b", "churn-c"])
        draw = self.chance.random()
        if draw < 0.5:
            self._create(namespace, "pods", {"spec": pod_spec(self.chance.randint(1, 2))})
        elif draw < 0.85:
            self._create(namespace, "jobs", {"spec": self._job()})
        else:
            self._create(namespace, "deployments", {"spec": self._deployment()})
        due = [path for end, path in self._objects if end <= now]
        self._objects = [(end, path) for end, path in self._objects if end > now]
        for path in due:
            ask(partial(self.cluster.wire.delete, path, {"propagationPolicy": "Background"}))

    def _create(self, namespace: str, plural: str, body: JSON) -> None:
        group = {"pods": "api/v1", "jobs": "apis/batch/v1", "deployments": "apis/apps/v1"}[plural]
        path = f"/{group}/namespaces/{namespace}/{plural}"
        name = f"{plural[0]}{self._number}"
        reply = ask(lambda: self.cluster.wire.post(path, {"metadata": {"name": name}, **body}))
        self.codes[reply.code] += 1
        if reply.code == 201:
            self._objects.append(
                (time.monotonic() + self.chance.uniform(40, 120), f"{path}/{name}")
            )

    def _job(self) -> JSON:
        return {
            "parallelism": self.chance.randint(1, 3),
            "completions": self.chance.randint(1, 4),
            "backoffLimit": 3,
            "template": {"spec": pod_spec(1)},
        }

    def _deployment(self) -> JSON:
        labels = {"app": f"d{self._number}"}
        return {
            "replicas": self.chance.randint(1, 4),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": pod_spec(1, restartPolicy="Always"),
            },
        }


@dataclass
class Prober:
    """Asks for one pod that always fits, deletes it, and asks again.

    Attributes:
        wells: By part (webhook, API, ledger's counter), since when it is well; None while not.
        late: Refusals although all parts had been well for longer than the patience.
        back_seconds: From a pod's deletion to the next that was admitted, while all was well.
    """

    cluster: Cluster
    wells: dict[str, float | None] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    back_seconds: list[float] = field(default_factory=list)
    admitted: int = 0
    refused: int = 0
    _number: int = 0
    _deleted_at: float | None = None

    def step(self) -> None:
        """Ask once; where the pod is admitted, let it run and delete it."""
        self._number += 1
        path = f"/api/v1/namespaces/{PROBE}/pods"
        body = {"metadata": {"name": f"p{self._number}"}, "spec": pod_spec(1)}
        since = list(self.wells.values())
        begin = time.monotonic()
        reply = ask(lambda: self.cluster.wire.post(path, body))
        if reply.code != 201:
            self.refused += 1
            if all(one is not None and begin - one > PATIENCE_SECONDS for one in since):
                self.late.append(f"{reply.code} {reply.message}")
            time.sleep(0.3)
            return
        self.admitted += 1
        if self._deleted_at is not None:
            self.back_seconds.append(time.monotonic() - self._deleted_at)
        deadline = time.monotonic() + 10
        name = f"{path}/p{self._number}"
        while time.monotonic() < deadline:
            found = ask(lambda: self.cluster.wire.get(name))
            if found.body.get("status", {}).get("phase") == "Running":
                break
            time.sleep(0.2)
        while ask(lambda: self.cluster.wire.delete(name, {"gracePeriodSeconds": 0})).code not in {
            200,
            404,
        }:
            time.sleep(0.3)
        self._deleted_at = time.monotonic()


@dataclass
class Disturber:
    """Refuses behind the ledger: a webhook at random, and now and then a ResourceQuota."""

    cluster: Cluster
    chance: random.Random
    asked: int = 0
    refused: int = 0

    def answer(self, request: JSON) -> JSON:
        """Answer as a validating webhook."""
        self.asked += 1
        time.sleep(self.chance.choice([0, 0, 0, 0.2, 1.0]))
        if self.chance.random() < REFUSE_CHANCE:
            self.refused += 1
            status = {"message": "refused at random", "code": 403}
            return {"uid": request["uid"], "allowed": False, "status": status}
        return {"uid": request["uid"], "allowed": True}

    def step(self) -> None:
        """Forbid every pod of a namespace for some seconds."""
        namespace = self.chance.choice(["churn-a", "churn-b", "churn-c"])
        path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        body = {"metadata": {"name": "others"}, "spec": {"hard": {"pods": "0"}}}
        ask(lambda: self.cluster.wire.post(path, body))
        time.sleep(self.chance.uniform(4, 9))
        while ask(lambda: self.cluster.wire.delete(f"{path}/others")).code not in {200, 404}:
            time.sleep(0.5)


def disturbing_webhook(*, url: str, authority: str) -> JSON:
    """Return the webhook that the disturber answers."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {
        "name": "disturber.churn.example.com",
        "clientConfig": {"url": url, "caBundle": authority},
        "rules": [{**rule, "operations": ["CREATE"]}],
        "namespaceSelector": {"matchLabels": {"gpu-ledger.io/disturbed": "true"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 3,
        "failurePolicy": "Ignore",
    }


def every(
    step: Callable[[], None], stop: threading.Event, pauses: Iterator[float]
) -> threading.Thread:
    """Return a started thread that steps until it is stopped, with a pause after each step."""

    def run() -> None:
        while not stop.is_set():
            step()
            stop.wait(next(pauses))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def drawn(chance: random.Random, least: float, most: float) -> Iterator[float]:
    """Yield drawn pauses."""
    while True:
        yield chance.uniform(least, most)

"""The controllers behind the API, run in one thread a little after each write.

Jobs as far as quotas and preemption meet them (no failure, no backoff, no indexes), ResourceClaims
made from templates, namespaces that are being deleted, quotas, disruption budgets, and the
condition of Kueue's queues.
Source: kubernetes/pkg/controller, job/job_controller.go and resourceclaim/controller.go;
kubernetes-sigs/kueue, pkg/controller/core/clusterqueue_controller.go.
"""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from simulator.kubernetes_api.access import Write, service_account
from simulator.kubernetes_api.errors import JSON, StatusError
from simulator.kubernetes_api.quota import TERMINAL, reconcile_quotas
from simulator.kubernetes_api.removal import delete_object, reconcile_budgets
from simulator.kubernetes_api.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    RESOURCES,
    Resource,
)
from simulator.kubernetes_api.store import ObjectStore
from simulator.kubernetes_api.writing import create_object

DELAY_SECONDS: Final = (0.005, 0.05)
"""Between a write and what follows from it; a real server took 5 ms to 1.3 s."""
_WAKE_SECONDS: Final = 0.2
_JOB_CONTROLLER: Final = service_account("kube-system", "job-controller", uid="job-controller")
_CLAIM_CONTROLLER: Final = service_account(
    "kube-system", "resource-claim-controller", uid="resource-claim-controller"
)
_MANAGER: Final = "kube-controller-manager"
_OPEN: Final = "None"
Reconcile = Callable[[ObjectStore], None]


class ControllerThread:
    """Runs controllers after every write, and now and then without one.

    Args:
        store: Where the objects are.
        delay_seconds: Least and most between a write and what follows from it.
        more: Controllers beside those of this module.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        delay_seconds: tuple[float, float] = DELAY_SECONDS,
        more: Sequence[Reconcile] = (),
    ) -> None:
        """Keep the controllers; none runs yet."""
        self._store = store
        self._controllers = (
            reconcile_jobs,
            reconcile_claims,
            *more,
            end_namespaces,
            reconcile_budgets,
            reconcile_queues,
            reconcile_quotas,
        )
        self._delay_seconds = delay_seconds
        self._random = random.Random(1)  # noqa: S311 - Delays of a simulation.
        self._is_stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="controllers", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following."""
        self._is_stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def settle(self) -> None:
        """Run every controller once now; one run at a time, so that no Job gets pods twice."""
        with self._lock:
            for reconcile in self._controllers:
                reconcile(self._store)

    def _run(self) -> None:
        while not self._is_stopping.wait(self._random.uniform(*self._delay_seconds)):
            seen = self._store.version
            self.settle()
            self._store.wait(seen, timeout_seconds=_WAKE_SECONDS)


def reconcile_jobs(store: ObjectStore) -> None:
    """Make, end and count the pods of every Job; they pass admission like those of a user."""
    for key, job in store.items(JOBS):
        if "deletionTimestamp" in job["metadata"]:
            continue
        spec, pods = job["spec"], _pods_of(store, job)
        is_complete = _is_complete(job, pods)
        active = [pod for pod in pods if _is_active(pod)]
        if is_complete or spec["suspend"]:
            for pod in active:
                name = pod["metadata"]["name"]
                # A refusal, such as a webhook's, is tried again.
                with suppress(StatusError):
                    delete_object(_job_write(store, key[0], name), {})
        else:
            missing = spec["parallelism"] - len(active)
            if spec.get("completions") is not None:
                left = spec["completions"] - _count(pods, "Succeeded") - len(active)
                missing = min(missing, left)
            try:
                for _ in range(missing):
                    create_object(_job_write(store, key[0]), pod_of(job))
            except StatusError as error:
                _record_refusal(store, job, error.body["message"])
        store.put_status(JOBS, key, _job_status(store, job, is_complete=is_complete))


def _record_refusal(store: ObjectStore, job: JSON, message: str) -> None:
    """Write the event of a pod that was not created; at most one write a second for each Job."""
    metadata, now = job["metadata"], store.now()
    key = (metadata["namespace"], f"{metadata['name']}.{metadata['uid']}")
    known = store.get(EVENTS, key)
    if known is not None and known["lastTimestamp"] == now:
        return
    about = {name: metadata[name] for name in ("name", "namespace", "uid")}
    event = {
        "metadata": {
            "name": key[1],
            "namespace": key[0],
            "uid": store.new_uid() if known is None else known["metadata"]["uid"],
            "creationTimestamp": now if known is None else known["firstTimestamp"],
        },
        "involvedObject": {"apiVersion": JOBS.api_version, "kind": JOBS.kind, **about},
        "reason": "FailedCreate",
        "type": "Warning",
        "message": f"Error creating: {message}",
        "firstTimestamp": now if known is None else known["firstTimestamp"],
        "lastTimestamp": now,
        "count": 1 if known is None else known["count"] + 1,
        "source": {"component": "job-controller"},
    }
    store.put(EVENTS, key, event)


def pod_of(job: JSON) -> JSON:
    """Return a new pod of a Job's template, owned by it."""
    metadata, template = job["metadata"], job["spec"]["template"]
    owners = [_controlled_by(JOBS, job)]
    own = {"generateName": f"{metadata['name']}-", "ownerReferences": owners}
    return {"metadata": {**(template.get("metadata") or {}), **own}, "spec": template["spec"]}


def reconcile_claims(store: ObjectStore) -> None:
    """Make the ResourceClaims of templates, and name them in the status of their pods."""
    for key, pod in store.items(PODS):
        made = {one["name"] for one in pod["status"].get("resourceClaimStatuses", [])}
        for wanted in pod["spec"].get("resourceClaims") or []:
            template = store.get(
                CLAIM_TEMPLATES, (key[0], wanted.get("resourceClaimTemplateName", ""))
            )
            if template is None or wanted["name"] in made or not _is_active(pod):
                continue
            # A refusal, such as a webhook's, is tried again.
            with suppress(StatusError):
                write = Write(store, CLAIMS, (key[0], ""), _MANAGER, user=_CLAIM_CONTROLLER)
                claim = create_object(write, _claim_of(pod, wanted["name"], template["spec"]))
                named = {
                    "name": wanted["name"],
                    "resourceClaimName": claim["metadata"]["name"],
                }
                status = store.read(PODS, key)["status"]
                known = status.get("resourceClaimStatuses", [])
                store.put_status(PODS, key, {**status, "resourceClaimStatuses": [*known, named]})


def _claim_of(pod: JSON, name: str, template: JSON) -> JSON:
    metadata = template.get("metadata") or {}
    annotations = {
        **(metadata.get("annotations") or {}),
        "resource.kubernetes.io/pod-claim-name": name,
    }
    own = {
        "generateName": f"{pod['metadata']['name']}-{name}-",
        "annotations": annotations,
        "ownerReferences": [_controlled_by(PODS, pod)],
    }
    return {"metadata": {**metadata, **own}, "spec": template["spec"]}


def _controlled_by(resource: Resource, obj: JSON) -> JSON:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def end_namespaces(store: ObjectStore) -> None:
    """Remove the namespaces that are being deleted, with everything in them.

    The pods in them are removed at once: there is no kubelet to wait for.
    """
    with store.lock:
        for _, namespace in store.items(NAMESPACES):
            if "deletionTimestamp" in namespace["metadata"]:
                name = namespace["metadata"]["name"]
                for resource in RESOURCES.values():
                    for key, _ in store.items(resource, name):
                        store.remove(resource, key)
                store.remove(NAMESPACES, ("", name))


def reconcile_queues(store: ObjectStore) -> None:
    """Set the condition `Active` of every queue of Kueue; no workload is queued here."""
    with store.lock:
        for resource in (CLUSTER_QUEUES, LOCAL_QUEUES):
            for key, queue in store.items(resource):
                conditions = queue.get("status", {}).get("conditions") or [{}]
                generation = queue["metadata"].get("generation")
                if conditions[0].get("observedGeneration") != generation:
                    is_stopped = queue["spec"].get("stopPolicy", _OPEN) != _OPEN
                    condition = {
                        **_condition("Active", store.now(), is_true=not is_stopped),
                        "reason": "Stopped" if is_stopped else "Ready",
                        "observedGeneration": generation,
                    }
                    store.put_status(resource, key, {"conditions": [condition]})


def _job_write(store: ObjectStore, namespace: str, name: str = "") -> Write:
    return Write(store, PODS, (namespace, name), _MANAGER, user=_JOB_CONTROLLER)


def _pods_of(store: ObjectStore, job: JSON) -> list[JSON]:
    uid = job["metadata"]["uid"]
    return [
        pod
        for _, pod in store.items(PODS, job["metadata"]["namespace"])
        if any(one["uid"] == uid for one in pod["metadata"].get("ownerReferences") or [])
    ]


def _is_complete(job: JSON, pods: list[JSON]) -> bool:
    known = {one["type"] for one in job["status"].get("conditions", [])}
    completions = job["spec"].get("completions")
    is_reached = completions is not None and _count(pods, "Succeeded") >= completions
    return is_reached or "Complete" in known


def _job_status(store: ObjectStore, job: JSON, *, is_complete: bool) -> JSON:
    pods, before, now = _pods_of(store, job), job["status"], store.now()
    counts = {
        "active": sum(map(_is_active, pods)),
        "succeeded": _count(pods, "Succeeded"),
        "failed": _count(pods, "Failed"),
    }
    status: JSON = {name: count for name, count in counts.items() if count}
    conditions = {one["type"]: one for one in before.get("conditions", [])}
    is_suspended = job["spec"]["suspend"] and not is_complete
    wanted = {"Complete": is_complete, "Suspended": is_suspended}
    for kind, is_true in wanted.items():
        known = conditions.get(kind, {"status": "False"})
        if known["status"] != str(is_true):
            conditions[kind] = _condition(kind, now, is_true=is_true)
    if conditions:
        status["conditions"] = list(conditions.values())
    if not is_suspended:
        status["startTime"] = before.get("startTime", now)
    return status


def _condition(kind: str, now: str, *, is_true: bool) -> JSON:
    return {"type": kind, "status": str(is_true), "lastTransitionTime": now}


def _is_active(pod: JSON) -> bool:
    is_over = pod["status"].get("phase") in TERMINAL
    return not is_over and "deletionTimestamp" not in pod["metadata"]


def _count(pods: list[JSON], phase: str) -> int:
    return sum(pod["status"].get("phase") == phase for pod in pods)

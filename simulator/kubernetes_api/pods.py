"""Pods as objects: loaded from a simulated cluster, or moved on by a scheduler and kubelets."""

import copy
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from typing import Final, TypeGuard

from simulator.cluster.exporters.object_series import QuotaStatus
from simulator.cluster.scenario import (
    Container,
    ContainerRole,
    Node,
    Pod,
    PodPhase,
    SimulatedCluster,
)
from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.quota import (
    TERMINAL,
    effective_requests,
    is_extended,
    parse_quantity,
)
from simulator.kubernetes_api.removal import bound_pod
from simulator.kubernetes_api.resources import NAMESPACES, NODES, PODS, QUOTAS
from simulator.kubernetes_api.store import Key, ObjectStore, format_time

RUNS_FOR: Final = "simulated.gpu-ledger.io/runs-for-seconds"
"""Annotation: after so many whole seconds the pod has succeeded."""
STOPS_WITHIN: Final = timedelta(seconds=1)
"""How long a container takes to end after a deletion; its grace may be longer."""
_GRACE_SECONDS: Final = 30
_IMAGE: Final = "registry.example.com/workload:1"


def load_cluster(store: ObjectStore, cluster: SimulatedCluster, at: datetime) -> None:
    """Make nodes, namespaces and pods equal to a cluster's at a moment.

    It may be called again for a later moment: what changed is written, what is gone is removed,
    each as one write. Objects that others put into the API stay.
    """
    started = format_time(min([at, *(pod.created_at for pod in cluster.pods[:1])]))
    with store.lock:
        for node in cluster.nodes:
            if store.get(NODES, ("", node.name)) is None:
                store.put(NODES, ("", node.name), _node(node, started))
        for namespace in cluster.namespaces:
            if store.get(NAMESPACES, ("", namespace.name)) is None:
                metadata = _metadata(namespace.name, f"namespace-{namespace.name}", started)
                metadata["labels"] = dict(namespace.labels)
                body = {"metadata": metadata, "status": {"phase": "Active"}}
                store.put(NAMESPACES, ("", namespace.name), body)
        _load_pods(store, cluster, at)


def quota_statuses(store: ObjectStore) -> tuple[QuotaStatus, ...]:
    """Return the quotas by namespace and name, whole units as kube-state-metrics shows them."""
    return tuple(
        QuotaStatus(
            namespace=namespace,
            name=name,
            hard=_whole(quota["status"].get("hard", {})),
            used=_whole(quota["status"].get("used", {})),
        )
        for (namespace, name), quota in store.items(QUOTAS)
    )


def pod_object(pod: Pod, cluster: SimulatedCluster, at: datetime) -> JSON:
    """Return a pod as the API has it at a moment at which it exists."""
    owner = {
        "apiVersion": "batch/v1" if pod.owner_kind == "Job" else "apps/v1",
        "kind": pod.owner_kind,
        "name": pod.owner_name,
        "uid": f"owner-{pod.owner_name}",
        "controller": True,
    }
    metadata = {
        **_metadata(pod.name, pod.uid, format_time(pod.created_at)),
        "namespace": pod.namespace,
        "labels": dict(pod.labels),
        "ownerReferences": [owner],
    }
    if _is_past(pod.deletion_requested_at, at):
        deadline = pod.deletion_requested_at + timedelta(seconds=_GRACE_SECONDS)
        metadata["deletionTimestamp"] = format_time(deadline)
        metadata["deletionGracePeriodSeconds"] = _GRACE_SECONDS
    spec: JSON = {
        "containers": [_container(one) for one in _of_kind(pod, ContainerRole.REGULAR)],
        "restartPolicy": "Never" if pod.owner_kind == "Job" else "Always",
        "priorityClassName": pod.priority_class,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "schedulerName": "default-scheduler",
    }
    before = _of_kind(pod, ContainerRole.SIDECAR, ContainerRole.INIT)
    if before:
        spec["initContainers"] = [_container(one) for one in before]
    if _is_past(pod.scheduled_at, at):
        spec["nodeName"] = pod.node
    return {"metadata": metadata, "spec": spec, "status": _status(pod, cluster, at)}


def run_pods(store: ObjectStore) -> None:
    """Do the next step for every pod, oldest first where they compete for a node.

    A scheduler and the kubelets, as much as a trial needs: pods are bound, run, and end. Only
    extended resources and node selectors are looked at, no taints. A pod runs until it is deleted,
    unless an annotation says how long its work takes.
    """
    with store.lock:
        pods = store.items(PODS)
        used: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for _, pod in pods:
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in TERMINAL:
                used[pod["spec"]["nodeName"]].update(_requested(pod))
        for key, pod in sorted(pods, key=lambda one: one[1]["metadata"]["creationTimestamp"]):
            _step(store, key, pod, used)


def _step(store: ObjectStore, key: Key, pod: JSON, used: dict[str, Counter[str]]) -> None:
    phase = pod["status"].get("phase")
    if "deletionTimestamp" in pod["metadata"]:
        _stop(store, key, pod)
    elif phase not in TERMINAL and not pod["spec"].get("nodeName"):
        _schedule(store, key, pod, used)
    elif phase == "Pending":
        store.put(PODS, key, _running(pod, store.now()))
    elif phase == "Running" and _is_done(pod, store.clock()):
        store.put(PODS, key, _terminated(pod, "Succeeded", store.now()))


def _schedule(store: ObjectStore, key: Key, pod: JSON, used: dict[str, Counter[str]]) -> None:
    """Bind a pod to the first node it fits on; it stays pending while there is none."""
    wanted = (pod["spec"].get("nodeSelector") or {}).items()
    requested = _requested(pod)
    for (_, name), node in store.items(NODES):
        offered = node["status"].get("allocatable") or {}
        is_free = all(
            used[name][resource] + units <= parse_quantity(offered.get(resource, "0"))
            for resource, units in requested.items()
        )
        if is_free and wanted <= (node["metadata"].get("labels") or {}).items():
            used[name].update(requested)
            store.put(PODS, key, bound_pod(pod, name, store.now()))
            return


def _stop(store: ObjectStore, key: Key, pod: JSON) -> None:
    """Terminate what runs, and remove the pod once its containers have ended."""
    metadata = pod["metadata"]
    if pod["status"].get("phase") == "Running":
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds", 0))
        asked_at = datetime.fromisoformat(metadata["deletionTimestamp"]) - grace
        if store.clock() >= asked_at + STOPS_WITHIN:
            store.put(PODS, key, _terminated(pod, "Failed", store.now()))
    elif not metadata.get("finalizers"):
        store.remove(PODS, key)


def _is_done(pod: JSON, at: datetime) -> bool:
    seconds = (pod["metadata"].get("annotations") or {}).get(RUNS_FOR, "")
    started = datetime.fromisoformat(pod["status"]["startTime"])
    return seconds.isdecimal() and at >= started + timedelta(seconds=int(seconds))


def _requested(pod: JSON) -> dict[str, int]:
    amounts = effective_requests(pod).items()
    return {resource: int(units) for resource, units in amounts if is_extended(resource)}


def _running(pod: JSON, now: str) -> JSON:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    state = {"running": {"startedAt": now}}
    status = {
        **pod["status"],
        "phase": "Running",
        "startTime": now,
        "conditions": [*pod["status"].get("conditions", []), ready],
        "containerStatuses": [
            _container_status(one["name"], one.get("image", ""), state, is_ready=True)
            for one in pod["spec"]["containers"]
        ],
    }
    return {**pod, "status": status}


def _terminated(pod: JSON, phase: str, now: str) -> JSON:
    ended = copy.deepcopy(pod)
    status, is_failed = ended["status"], phase == "Failed"
    status["phase"] = phase
    status["conditions"] = [one for one in status.get("conditions", []) if one["type"] != "Ready"]
    for container in status.get("containerStatuses", []):
        started = container["state"]["running"]["startedAt"]
        container["ready"] = False
        container["state"] = _ended(started, now, exit_code=143 if is_failed else 0)
    return ended


def _load_pods(store: ObjectStore, cluster: SimulatedCluster, at: datetime) -> None:
    wanted: dict[Key, JSON] = {
        (pod.namespace, pod.name): pod_object(pod, cluster, at) for pod in cluster.objects(at)
    }
    known = {pod.uid for pod in cluster.pods}
    for key, found in store.items(PODS):
        uid = found["metadata"]["uid"]
        if uid in known and wanted.get(key, {}).get("metadata", {}).get("uid") != uid:
            store.remove(PODS, key)
    for key, obj in wanted.items():
        current = store.get(PODS, key)
        version = (current or {}).get("metadata", {}).get("resourceVersion")
        if current != {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}:
            store.put(PODS, key, obj)


def _status(pod: Pod, cluster: SimulatedCluster, at: datetime) -> JSON:
    status: JSON = {"phase": str(pod.phase(at))}
    if pod.scheduled_at is None or pod.scheduled_at > at:
        return status
    bound = format_time(pod.scheduled_at)
    status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}]
    status["startTime"] = bound
    status["hostIP"] = cluster.node_by_name[pod.node].address
    if _is_past(pod.rejected_at, at):
        return {**status, "reason": "UnexpectedAdmissionError"}
    if _is_past(pod.started_at, at):
        status["containerStatuses"] = [
            _container_status(one.name, _IMAGE, _state(pod, index, at), is_ready=False)
            for index, one in enumerate(_of_kind(pod, ContainerRole.REGULAR))
        ]
    return status


def _state(pod: Pod, index: int, at: datetime) -> JSON:
    """Return a container's state; the first one is the work, those after it are helpers."""
    started = format_time(pod.started_at) if pod.started_at else ""
    ended = pod.helper_finished_at if index and pod.helper_finished_at else pod.finished_at
    if ended is None or ended > at:
        return {"running": {"startedAt": started}}
    is_failed = pod.end_phase is PodPhase.FAILED and not index
    return _ended(started, format_time(ended), exit_code=int(is_failed))


def _container_status(name: str, image: str, state: JSON, *, is_ready: bool) -> JSON:
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": is_ready,
        "restartCount": 0,
        "state": state,
    }


def _ended(started: str, finished: str, *, exit_code: int) -> JSON:
    terminated = {
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": started,
        "finishedAt": finished,
    }
    return {"terminated": terminated}


def _is_past(moment: datetime | None, at: datetime) -> TypeGuard[datetime]:
    return moment is not None and moment <= at


def _of_kind(pod: Pod, *kinds: ContainerRole) -> list[Container]:
    return [container for container in pod.containers if container.kind in kinds]


def _container(container: Container) -> JSON:
    amounts = {resource: str(units) for resource, units in container.requests.items()}
    resources = {"requests": amounts, "limits": dict(amounts)} if amounts else {}
    always = {"restartPolicy": "Always"} if container.kind is ContainerRole.SIDECAR else {}
    return {"name": container.name, "image": _IMAGE, "resources": resources, **always}


def _node(node: Node, started: str) -> JSON:
    amounts = {resource: str(units) for resource, units in node.allocatable.items()}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": started}
    status = {
        "allocatable": amounts,
        "capacity": dict(amounts),
        "addresses": [{"type": "InternalIP", "address": node.address}],
        "conditions": [ready],
    }
    metadata = {**_metadata(node.name, f"node-{node.name}", started), "labels": dict(node.labels)}
    return {"metadata": metadata, "spec": {}, "status": status}


def _metadata(name: str, uid: str, created: str) -> JSON:
    return {"name": name, "uid": uid, "creationTimestamp": created}


def _whole(amounts: JSON) -> dict[str, int]:
    return {key: int(parse_quantity(value)) for key, value in amounts.items()}

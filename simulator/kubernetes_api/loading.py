"""A simulated cluster's objects as the API has them, at a moment."""

from datetime import datetime, timedelta
from typing import Final

from simulator.cluster.exporters.object_series import QuotaSight
from simulator.cluster.scenario import (
    Container,
    ContainerRole,
    Node,
    Pod,
    PodPhase,
    SimulatedCluster,
)
from simulator.kubernetes_api.errors import JSON
from simulator.kubernetes_api.incoming import (
    printed_time,
    without_version,
)
from simulator.kubernetes_api.quantities import parse_quantity
from simulator.kubernetes_api.resources import (
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
)
from simulator.kubernetes_api.store import Key, ObjectStore

_GRACE_SECONDS: Final = 30
_IMAGE: Final = "registry.example.com/workload:1"


def load_cluster(store: ObjectStore, cluster: SimulatedCluster, at: datetime) -> None:
    """Make nodes, namespaces and pods equal to a cluster's at a moment.

    It may be called again for a later moment: what changed is written, what is gone is removed,
    each as one write. What somebody else put into the API stays.
    """
    begun = printed_time(_begin_of(cluster, at))
    with store.lock:
        for node in cluster.nodes:
            if store.get(NODES, ("", node.name)) is None:
                store.put(NODES, ("", node.name), _node(node, begun))
        for namespace in cluster.namespaces:
            if store.get(NAMESPACES, ("", namespace.name)) is None:
                metadata = _metadata(namespace.name, f"namespace-{namespace.name}", begun)
                metadata["labels"] = dict(namespace.labels)
                store.put(
                    NAMESPACES,
                    ("", namespace.name),
                    {"metadata": metadata, "status": {"phase": "Active"}},
                )
        _load_pods(store, cluster, at)


def quota_sights(store: ObjectStore) -> tuple[QuotaSight, ...]:
    """Return the quotas by namespace and name, whole units as kube-state-metrics shows them."""
    return tuple(
        QuotaSight(
            namespace=namespace,
            name=name,
            hard=_whole(quota.get("status", {}).get("hard", {})),
            used=_whole(quota.get("status", {}).get("used", {})),
        )
        for (namespace, name), quota in store.items(QUOTAS)
    )


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
        if current is None or without_version(current) != obj:
            store.put(PODS, key, obj)


def pod_object(pod: Pod, cluster: SimulatedCluster, at: datetime) -> JSON:
    """Return a pod as the API has it at a moment at which it exists."""
    metadata = {
        **_metadata(pod.name, pod.uid, printed_time(pod.created_at)),
        "namespace": pod.namespace,
        "labels": dict(pod.labels),
        "ownerReferences": [
            {
                "apiVersion": "batch/v1" if pod.owner_kind == "Job" else "apps/v1",
                "kind": pod.owner_kind,
                "name": pod.owner_name,
                "uid": f"owner-{pod.owner_name}",
                "controller": True,
            }
        ],
    }
    if pod.deletion_requested_at is not None and pod.deletion_requested_at <= at:
        asked = pod.deletion_requested_at + timedelta(seconds=_GRACE_SECONDS)
        metadata["deletionTimestamp"] = printed_time(asked)
        metadata["deletionGracePeriodSeconds"] = _GRACE_SECONDS
    is_bound = pod.scheduled_at is not None and pod.scheduled_at <= at
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
    if is_bound:
        spec["nodeName"] = pod.node
    return {"metadata": metadata, "spec": spec, "status": _status(pod, cluster, at)}


def _status(pod: Pod, cluster: SimulatedCluster, at: datetime) -> JSON:
    status: JSON = {"phase": str(pod.phase(at)), "qosClass": "Burstable"}
    if pod.scheduled_at is None or pod.scheduled_at > at:
        return status
    bound = printed_time(pod.scheduled_at)
    status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}]
    status["startTime"] = bound
    status["hostIP"] = cluster.node_by_name[pod.node].address
    if pod.rejected_at is not None and pod.rejected_at <= at:
        return {**status, "reason": "UnexpectedAdmissionError"}
    if pod.started_at is not None and pod.started_at <= at:
        status["containerStatuses"] = [
            {
                "name": container.name,
                "image": _IMAGE,
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": _state(pod, index, at),
            }
            for index, container in enumerate(_of_kind(pod, ContainerRole.REGULAR))
        ]
    return status


def _state(pod: Pod, index: int, at: datetime) -> JSON:
    """Return a container's state; the first one is the work, those after it are helpers."""
    started = printed_time(pod.started_at) if pod.started_at else ""
    ended = pod.helper_finished_at if index and pod.helper_finished_at else pod.finished_at
    if ended is None or ended > at:
        return {"running": {"startedAt": started}}
    is_failed = pod.end_phase is PodPhase.FAILED and not index
    return {
        "terminated": {
            "exitCode": 1 if is_failed else 0,
            "reason": "Error" if is_failed else "Completed",
            "startedAt": started,
            "finishedAt": printed_time(ended),
        }
    }


def _of_kind(pod: Pod, *kinds: ContainerRole) -> list[Container]:
    return [container for container in pod.containers if container.kind in kinds]


def _container(container: Container) -> JSON:
    amounts = {resource: str(units) for resource, units in container.requests.items()}
    resources = {"requests": amounts, "limits": dict(amounts)} if amounts else {}
    always = {"restartPolicy": "Always"} if container.kind is ContainerRole.SIDECAR else {}
    return {"name": container.name, "image": _IMAGE, "resources": resources, **always}


def _node(node: Node, begun: str) -> JSON:
    amounts = {resource: str(units) for resource, units in node.allocatable.items()}
    metadata = _metadata(node.name, f"node-{node.name}", begun)
    metadata["labels"] = dict(node.labels)
    return {
        "metadata": metadata,
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": dict(amounts),
            "addresses": [{"type": "InternalIP", "address": node.address}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": begun}],
        },
    }


def _metadata(name: str, uid: str, created: str) -> JSON:
    return {"name": name, "uid": uid, "creationTimestamp": created}


def _begin_of(cluster: SimulatedCluster, at: datetime) -> datetime:
    return min([at, *(pod.created_at for pod in cluster.pods[:1])])


def _whole(amounts: JSON) -> dict[str, int]:
    return {key: int(parse_quantity(value)) for key, value in amounts.items()}

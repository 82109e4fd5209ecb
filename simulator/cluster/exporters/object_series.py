"""The series of kube-state-metrics 2.20 for the cluster's objects, as spans of constant value.

A span is one series over [begin, end) in which neither labels nor value change; a live exposition
takes the spans of one moment, a history takes all of them.
Source: kubernetes/kube-state-metrics, internal/store/{pod,node,namespace,resourcequota}.go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zlib import crc32

from simulator.cluster.exporters.prometheus_text import (
    Family,
    Labels,
    go_number,
    sanitize_name,
)
from simulator.cluster.scenario import (
    Container,
    ContainerRole,
    Namespace,
    Node,
    Pod,
    PodPhase,
    SimulatedCluster,
)

FOREVER: Final = 1 << 40
"""A second that no history reaches: the end of a span that has none."""
FAMILIES: Final = {
    family.name: family
    for family in (
        Family("kube_pod_info", "[STABLE] Information about pod."),
        Family("kube_pod_owner", "[STABLE] Information about the Pod's owner."),
        Family(
            "kube_pod_container_resource_requests",
            "The number of requested request resource by a container.",
        ),
        Family(
            "kube_pod_container_resource_limits",
            "The number of requested limit resource by a container.",
        ),
        Family(
            "kube_pod_init_container_resource_requests",
            "The number of requested request resource by an init container.",
        ),
        Family(
            "kube_pod_init_container_info",
            "[STABLE] Information about an init container in a pod.",
        ),
        Family("kube_pod_status_phase", "[STABLE] The pods current phase."),
        Family("kube_pod_status_reason", "The pod status reasons."),
        Family("kube_pod_created", "[STABLE] Unix creation timestamp."),
        Family(
            "kube_pod_status_scheduled_time",
            "[STABLE] Unix timestamp when pod moved into scheduled status.",
        ),
        Family("kube_pod_start_time", "[STABLE] Start time in unix timestamp for a pod."),
        Family("kube_pod_completion_time", "[STABLE] Completion time in unix timestamp for a pod."),
        Family("kube_pod_deletion_timestamp", "Unix deletion timestamp."),
        Family(
            "kube_pod_labels",
            "[STABLE] Kubernetes labels converted to Prometheus labels.",
        ),
        Family("kube_node_labels", "[STABLE] Kubernetes labels converted to Prometheus labels."),
        Family(
            "kube_node_status_allocatable",
            "[STABLE] The allocatable for different resources of a node that are available for "
            "scheduling.",
        ),
        Family(
            "kube_node_status_capacity",
            "[STABLE] The capacity for different resources of a node.",
        ),
        Family(
            "kube_namespace_labels",
            "[STABLE] Kubernetes labels converted to Prometheus labels.",
        ),
        Family("kube_resourcequota", "[STABLE] Information about resource quota."),
    )
}
_PHASES: Final = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
_GRACE_SECONDS: Final = 30
_REFUSED: Final = "UnexpectedAdmissionError"


@dataclass(frozen=True)
class SeriesInterval:
    """One series over [begin, end), in seconds since the epoch, while it stays as it is."""

    family: str
    labels: Labels
    value: str
    begin: int
    end: int = FOREVER


@dataclass(frozen=True)
class QuotaStatus:
    """The status of a ResourceQuota; keys such as "requests.nvidia.com/gpu"."""

    namespace: str
    name: str
    hard: Mapping[str, int]
    used: Mapping[str, int]


def pod_spans(pod: Pod, address: str) -> Iterator[SeriesInterval]:
    """Yield everything about one pod; `address` is its node's, "" when it was never bound."""
    identity = (("namespace", pod.namespace), ("pod", pod.name), ("uid", pod.uid))
    begin = _second(pod.created_at)
    end = FOREVER if pod.deleted_at is None else _second(pod.deleted_at)
    yield from _placed(pod, identity, address, begin, end)
    yield from _phases(pod, identity, begin, end)
    yield from _times(pod, identity, begin, end)
    owner = (("owner_kind", pod.owner_kind), ("owner_name", pod.owner_name))
    yield SeriesInterval(
        "kube_pod_owner", (*identity, *owner, ("owner_is_controller", "true")), "1", begin, end
    )
    yield SeriesInterval("kube_pod_labels", identity + _label_pairs(pod.labels), "1", begin, end)
    for container in pod.containers:
        if container.kind is not ContainerRole.REGULAR:
            yield SeriesInterval(
                "kube_pod_init_container_info", identity + _init_pairs(container), "1", begin, end
            )


def node_spans(node: Node) -> Iterator[SeriesInterval]:
    """Yield a node's labels and what it offers; the nodes of a scenario never change."""
    name = (("node", node.name),)
    yield SeriesInterval("kube_node_labels", name + _label_pairs(node.labels), "1", 0)
    for family in ("kube_node_status_allocatable", "kube_node_status_capacity"):
        for resource, units in node.allocatable.items():
            unit = "core" if resource == "cpu" else "integer"
            labels = (*name, ("resource", sanitize_name(resource)), ("unit", unit))
            yield SeriesInterval(family, labels, go_number(units), 0)


def namespace_spans(namespace: Namespace) -> Iterator[SeriesInterval]:
    """Yield a namespace's labels."""
    labels = (("namespace", namespace.name), *_label_pairs(namespace.labels))
    yield SeriesInterval("kube_namespace_labels", labels, "1", 0)


def quota_spans(quota: QuotaStatus) -> Iterator[SeriesInterval]:
    """Yield a quota's limits and use; resource names are not sanitised there."""
    for kind, amounts in (("hard", quota.hard), ("used", quota.used)):
        for resource, amount in amounts.items():
            labels = (
                ("namespace", quota.namespace),
                ("resourcequota", quota.name),
                ("resource", resource),
                ("type", kind),
            )
            yield SeriesInterval("kube_resourcequota", labels, go_number(amount), 0)


def cluster_spans(cluster: SimulatedCluster) -> Iterator[SeriesInterval]:
    """Yield everything of a cluster but its quotas: nodes, namespaces, pods oldest first."""
    for node in cluster.nodes:
        yield from node_spans(node)
    for namespace in cluster.namespaces:
        yield from namespace_spans(namespace)
    for pod in cluster.pods:
        yield from pod_spans(pod, address_of(cluster, pod))


def address_of(cluster: SimulatedCluster, pod: Pod) -> str:
    """Return the address of a pod's node, "" when it has none."""
    return cluster.node_by_name[pod.node].address if pod.node else ""


def _placed(
    pod: Pod, identity: Labels, address: str, begin: int, end: int
) -> Iterator[SeriesInterval]:
    """Yield what names the node: until the bind the label is empty, then it is another series."""
    bound = FOREVER if pod.scheduled_at is None else _second(pod.scheduled_at)
    for node, host, first, last in (
        ("", "", begin, min(bound, end)),
        (pod.node, address, bound, end),
    ):
        if first >= last:
            continue
        placed = identity + _info_pairs(pod, node, host)
        yield SeriesInterval("kube_pod_info", placed, "1", first, last)
        for container in pod.containers:
            for resource, units in container.requests.items():
                pairs = (
                    *identity,
                    ("container", container.name),
                    ("node", node),
                    ("resource", sanitize_name(resource)),
                    ("unit", "integer"),
                )
                for family in _REQUEST_FAMILIES[container.kind]:
                    yield SeriesInterval(family, pairs, go_number(units), first, last)


_REQUEST_FAMILIES: Final = {
    ContainerRole.REGULAR: (
        "kube_pod_container_resource_requests",
        "kube_pod_container_resource_limits",
    ),
    ContainerRole.INIT: ("kube_pod_init_container_resource_requests",),
    ContainerRole.SIDECAR: ("kube_pod_init_container_resource_requests",),
}


def _phases(pod: Pod, identity: Labels, begin: int, end: int) -> Iterator[SeriesInterval]:
    """Yield all five phases, one of them 1 at a time."""
    marks = [(begin, PodPhase.PENDING)]
    if pod.started_at is not None:
        marks.append((_second(pod.started_at), PodPhase.RUNNING))
    terminal_at = pod.finished_at or pod.rejected_at
    if terminal_at is not None:
        marks.append((_second(terminal_at), pod.end_phase))
    ends = [mark for mark, _ in marks[1:]] + [end]
    for (first, now), last in zip(marks, ends, strict=True):
        for phase in _PHASES:
            value = "1" if phase == now else "0"
            yield SeriesInterval(
                "kube_pod_status_phase", (*identity, ("phase", phase)), value, first, min(last, end)
            )
    if pod.rejected_at is not None:
        refused = (*identity, ("reason", _REFUSED))
        yield SeriesInterval("kube_pod_status_reason", refused, "1", _second(pod.rejected_at), end)


def _times(pod: Pod, identity: Labels, begin: int, end: int) -> Iterator[SeriesInterval]:
    yield SeriesInterval("kube_pod_created", identity, go_number(begin), begin, end)
    if pod.scheduled_at is not None:
        bound = _second(pod.scheduled_at)
        yield SeriesInterval(
            "kube_pod_status_scheduled_time", identity, go_number(bound), bound, end
        )
        # The kubelet writes status.startTime before it pulls images, and for pods it refuses too.
        yield SeriesInterval("kube_pod_start_time", identity, go_number(bound), bound, end)
    finished = None if pod.finished_at is None else _second(pod.finished_at)
    if pod.helper_finished_at is not None:
        helper = _second(pod.helper_finished_at)
        until = end if finished is None else finished
        yield SeriesInterval("kube_pod_completion_time", identity, go_number(helper), helper, until)
    if finished is not None:
        yield SeriesInterval(
            "kube_pod_completion_time", identity, go_number(finished), finished, end
        )
    if pod.deletion_requested_at is not None:
        requested = _second(pod.deletion_requested_at)
        deletion = go_number(requested + _GRACE_SECONDS)
        yield SeriesInterval("kube_pod_deletion_timestamp", identity, deletion, requested, end)


def _info_pairs(pod: Pod, node: str, host: str) -> Labels:
    return (
        ("host_ip", host),
        ("pod_ip", _pod_ip(pod) if node else ""),
        ("node", node),
        ("created_by_kind", pod.owner_kind),
        ("created_by_name", pod.owner_name),
        ("priority_class", pod.priority_class),
        ("host_network", "false"),
    )


def _pod_ip(pod: Pod) -> str:
    draw = crc32(pod.uid.encode())
    return f"10.42.{draw >> 8 & 255}.{draw & 255}"


def _init_pairs(container: Container) -> Labels:
    always = "Always" if container.kind is ContainerRole.SIDECAR else ""
    return (
        ("container", container.name),
        ("image_spec", "registry.example.com/warmup:1"),
        ("image", ""),
        ("image_id", ""),
        ("container_id", ""),
        ("restart_policy", always),
    )


def _label_pairs(labels: Mapping[str, str]) -> Labels:
    return tuple((f"label_{sanitize_name(key)}", value) for key, value in labels.items())


def _second(at: datetime) -> int:
    return int(at.timestamp())

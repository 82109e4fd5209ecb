"""What scrapes of kube-state-metrics show of a simulated cluster, and no more.

A pod is known by its samples: the successful scrapes between its creation and its removal. Times in
the object are known exactly, but only if it was scraped after they were written.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from metering.protocols import (
    ContainerKind,
    ContainerRequest,
    NodeObservation,
    PodObservation,
    ScrapeTarget,
)
from simulator.cluster.exporters.prometheus_text import sanitize_name
from simulator.cluster.exporters.scraping import object_target
from simulator.cluster.scenario import (
    Container,
    Node,
    OutageKind,
    Pod,
    SimulatedCluster,
)

_SECOND: Final = timedelta(seconds=1)
_GPU_PREFIXES: Final = ("nvidia_com_gpu", "nvidia_com_mig_")


@dataclass(frozen=True)
class Window:
    """The queried hour, [start_at, end_at), and the scrape interval."""

    start_at: datetime
    end_at: datetime
    scrape: timedelta


def pods_seen(
    cluster: SimulatedCluster, ticks: Sequence[datetime], user_label: str
) -> tuple[PodObservation, ...]:
    """Return the pods that ask for a GPU and were there at one of the ticks, by uid.

    Args:
        cluster: Where.
        ticks: Successful scrapes, oldest first.
        user_label: Sanitised pod label that names the owner; "" for none.
    """
    if not ticks:
        return ()
    seen = [
        _pod_seen(pod, cluster, ticks, user_label)
        for pod in cluster.pods
        if pod.created_at <= ticks[-1] and (pod.deleted_at is None or pod.deleted_at > ticks[0])
    ]
    return tuple(sorted((one for one in seen if one is not None), key=lambda one: one.uid))


def nodes_seen(
    cluster: SimulatedCluster, ticks: Sequence[datetime], window: Window
) -> tuple[NodeObservation, ...]:
    """Return the nodes that offered a GPU inside the window, by name."""
    if not any(window.start_at <= at < window.end_at for at in ticks):
        return ()
    covered = covered_seconds(ticks, window)
    return tuple(
        NodeObservation(
            node=node.name,
            labels=sanitized(node.labels),
            allocatable=gpu_units(node.allocatable),
            covered_seconds=covered,
            first_seen_at=ticks[0],
            last_seen_at=ticks[-1],
            targets=(target_name(cluster),),
        )
        for node in sorted(cluster.nodes, key=lambda node: node.name)
    )


def targets_seen(
    cluster: SimulatedCluster, ticks: Sequence[datetime], begin_at: datetime, end_at: datetime
) -> tuple[ScrapeTarget, ...]:
    """Return the one target of kube-state-metrics with its scrapes in [begin_at, end_at)."""
    failures = sum(
        any(one.covers(at) and one.kind is OutageKind.EXPORTERS for one in cluster.outages)
        for at in cluster.scheduled_scrapes(begin_at, end_at)
    )
    if not ticks and not failures:
        return ()
    target = ScrapeTarget(target_name(cluster), tuple(ticks), failures, has_series=bool(ticks))
    return (target,)


def target_name(cluster: SimulatedCluster) -> str:
    """Return the `instance` of kube-state-metrics."""
    return dict(object_target(cluster.slug))["instance"]


def covered_seconds(ticks: Sequence[datetime], window: Window) -> int:
    """Return the whole seconds of the window that samples cover.

    Two samples at most two and a half scrape intervals apart cover the time between them; a
    sample at the edge of a gap covers half a scrape interval of it.
    """
    half = window.scrape / 2
    runs: list[list[datetime]] = []
    for at in ticks:
        if runs and at - runs[-1][1] <= window.scrape * 5 / 2:
            runs[-1][1] = at
        else:
            runs.append([at, at])
    parts = (
        min(last + half, window.end_at) - max(first - half, window.start_at) for first, last in runs
    )
    return sum(max(0, part // _SECOND) for part in parts)


def sanitized(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels with their keys as kube-state-metrics spells them."""
    return {sanitize_name(key): value for key, value in labels.items()}


def gpu_units(resources: Mapping[str, int]) -> dict[str, int]:
    """Return the GPU resources among several, sanitised, by name."""
    named = {sanitize_name(key): units for key, units in resources.items()}
    return {key: named[key] for key in sorted(named) if key.startswith(_GPU_PREFIXES)}


def _pod_seen(
    pod: Pod, cluster: SimulatedCluster, ticks: Sequence[datetime], user_label: str
) -> PodObservation | None:
    requests = _requests(pod.containers)
    first = bisect_left(ticks, pod.created_at)
    end = len(ticks) if pod.deleted_at is None else bisect_left(ticks, pod.deleted_at)
    if not requests or first >= end:
        return None
    last_seen_at = ticks[end - 1]
    is_bound = pod.scheduled_at is not None and pod.scheduled_at <= last_seen_at
    ended_at = pod.finished_at or pod.rejected_at
    is_terminal = ended_at is not None and ended_at <= last_seen_at
    return PodObservation(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node if is_bound else "",
        requests=requests,
        scheduled_at=pod.scheduled_at if is_bound else None,
        first_seen_at=ticks[first],
        last_seen_at=last_seen_at,
        finished_at=pod.finished_at if is_terminal else None,
        terminal_seen_at=_first_from(ticks[first:end], ended_at) if is_terminal else None,
        owner=sanitized(pod.labels).get(user_label, "") if user_label else "",
        priority_class=pod.priority_class,
        node_labels=_labels(cluster.node_by_name[pod.node]) if is_bound else {},
        targets=(target_name(cluster),),
    )


def _labels(node: Node) -> dict[str, str]:
    return sanitized(node.labels)


def _requests(containers: Sequence[Container]) -> tuple[ContainerRequest, ...]:
    """Return what containers ask of GPUs, regular ones first, by name, their order unknown."""
    found = [
        ContainerRequest(container.name, ContainerKind(container.kind), resource, units)
        for container in containers
        for resource, units in gpu_units(container.requests).items()
    ]
    return tuple(
        sorted(
            found,
            key=lambda one: (one.kind is not ContainerKind.REGULAR, one.container, one.resource),
        )
    )


def _first_from(ticks: Sequence[datetime], at: datetime | None) -> datetime | None:
    """Return the first of some ticks that is not before a time."""
    if at is None:
        return None
    index = bisect_right(ticks, at - _SECOND)
    return next((tick for tick in ticks[index:] if tick >= at), None)

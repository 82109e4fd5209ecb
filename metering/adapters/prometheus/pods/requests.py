"""Requests of pods as they were sampled.

kube-state-metrics shows a request for as long as the object exists. Series of one uid are one pod,
however many copies of Prometheus, restarts or shards of the exporter split them; a pod name that is
used again is another pod.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from sys import intern
from typing import Final, NamedTuple

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.samples import (
    Series,
    disagreement,
    distinct,
    impossible,
    read_units,
)
from tenants.domain.errors import SourceUnavailableError

REQUEST_METRICS: Final = (known.REQUESTS, known.INIT_REQUESTS)
IMPOSSIBLE_UNITS: Final = -1
"""Replaces an impossible amount, so that the pod is not treated as one without a request."""
NO_UID: Final = "Its request carries no uid."


@dataclass(slots=True)
class SeenPod:
    """One uid over all series that carry it."""

    namespace: str
    name: str
    first: int
    last: int
    times: list[Sequence[int]] = field(default_factory=list)
    """Sample times in Unix milliseconds, oldest first per series; lists may be shared."""
    units: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """By metric, container and resource; the largest where series disagree."""
    targets: tuple[str, ...] = ()
    """Names of the scrape targets that carried it."""
    nodes: dict[str, int] = field(default_factory=dict)
    """Each node its requests named, with the last time in Unix milliseconds."""
    defects: AbstractSet[str] = frozenset()
    """What of it cannot be or contradicts itself, one sentence each."""

    def first_from(self, moment: int) -> int:
        """Return the first sample at or after a moment, else the last one."""
        later = (bisect_left(times, moment) for times in self.times)
        found = [times[at] for times, at in zip(self.times, later, strict=True) if at < len(times)]
        return min(found, default=self.last)


class RequestLabels(NamedTuple):
    """Labels of a request, by our names."""

    uid: str
    namespace: str
    name: str
    target: str
    node: str
    container: str
    resource: str


class RequestReader:
    """Reads labels of requests; those of hours that were asked together only once.

    Args:
        names: The cluster's spelling.
        is_shared: Whether several hours are read from the same series.
    """

    def __init__(self, names: Names, *, is_shared: bool = False) -> None:
        """Start with an empty cache."""
        self._label = names.label
        self._is_shared = is_shared
        self._known: dict[int, tuple[Mapping[str, str], RequestLabels]] = {}

    def read(self, labels: Mapping[str, str]) -> RequestLabels:
        """Return the labels of a request."""
        known = self._known.get(id(labels))
        if known is not None:
            return known[1]
        found = RequestLabels(
            uid=labels.get("uid", ""),
            namespace=self._label(labels, "namespace"),
            name=self._label(labels, "pod"),
            target=intern(self._label(labels, "instance")),
            node=self._label(labels, "node"),
            container=self._label(labels, "container"),
            resource=labels.get("resource", ""),
        )
        if self._is_shared:
            self._known[id(labels)] = labels, found
        return found


def read_observations(
    observations: Iterable[Series], names: RequestReader, *, is_part: bool = False
) -> dict[str, SeenPod]:
    """Return the pods that requested a GPU, by uid.

    A request without a uid is skipped where another exporter shows the same pod with one; else it
    is a pod of its own with a defect, under a uid that is made of its names.

    Raises:
        SourceUnavailableError: `bad_answer` when no request carries a uid.
    """
    pods: dict[str, SeenPod] = {}
    nameless: dict[str, SeenPod] = {}
    for one in observations:
        if one.metric in REQUEST_METRICS:
            labels = names.read(one.labels)
            _merge(pods if labels.uid else nameless, labels, one)
    if nameless and not pods and not is_part:
        raise SourceUnavailableError("No request carries a uid.", reason="bad_answer")
    identified = {(pod.namespace, pod.name) for pod in pods.values()}
    for uid, pod in nameless.items():
        if (pod.namespace, pod.name) not in identified:
            pod.defects |= {NO_UID}
            pods[uid] = pod
    return {uid: pod for uid, pod in sorted(pods.items()) if any(pod.units.values())}


def _made_uid(labels: RequestLabels) -> str:
    named = f"{labels.namespace}/{labels.name}"
    return f"no-uid-{hashlib.sha256(named.encode()).hexdigest()[:32]}"


def _merge(pods: dict[str, SeenPod], labels: RequestLabels, one: Series) -> None:
    uid, times = labels.uid or _made_uid(labels), one.times
    first, last = times[0], times[-1]
    pod = pods.get(uid)
    if pod is None:
        pod = pods[uid] = SeenPod(labels.namespace, labels.name, first, last)
    elif (pod.namespace, pod.name) != (labels.namespace, labels.name):
        texts = [f"{pod.namespace}/{pod.name}", f"{labels.namespace}/{labels.name}"]
        pod.defects |= {disagreement("name", texts)}
    pod.first, pod.last = min(pod.first, first), max(pod.last, last)
    pod.times.append(times)
    if labels.target not in pod.targets:
        pod.targets = (*pod.targets, labels.target)
    if labels.node:
        pod.nodes[labels.node] = max(last, pod.nodes.get(labels.node, 0))
    _merge_units(pod, labels, one)


def _merge_units(pod: SeenPod, labels: RequestLabels, one: Series) -> None:
    key = (one.metric, labels.container, labels.resource)
    for text in distinct(one.values):
        units = read_units(text)
        if units is None:
            pod.defects |= {impossible(_request_named(labels), text)}
            pod.units.setdefault(key, IMPOSSIBLE_UNITS)
            continue
        former = pod.units.setdefault(key, units)
        if former not in {units, IMPOSSIBLE_UNITS}:
            texts = [str(former), str(units)]
            pod.defects |= {disagreement(_request_named(labels), texts)}
        pod.units[key] = max(former, units)


def _request_named(labels: RequestLabels) -> str:
    return f"request of container {labels.container} for {labels.resource}"

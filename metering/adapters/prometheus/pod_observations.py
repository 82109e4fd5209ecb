"""Observations of pods that requested a GPU: their requests at each scrape.

kube-state-metrics shows a request for as long as the object exists. Series of one uid are one pod,
however many copies of Prometheus, restarts or shards of the exporter split them; a pod name that is
used again is another pod. A contradiction is recorded as a defect of its pod and does not affect
other pods.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from sys import intern
from typing import Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.samples import Series, distinct, read_units, shown
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


def read_observations(observations: Iterable[Series], names: Names) -> dict[str, SeenPod]:
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
            uid = one.labels.get("uid", "")
            _merge(pods if uid else nameless, uid or _made_uid(one, names), one, names)
    if nameless and not pods:
        raise SourceUnavailableError("No request carries a uid.", reason="bad_answer")
    identified = {(pod.namespace, pod.name) for pod in pods.values()}
    for uid, pod in nameless.items():
        if (pod.namespace, pod.name) not in identified:
            pod.defects |= {NO_UID}
            pods[uid] = pod
    return {uid: pod for uid, pod in sorted(pods.items()) if any(pod.units.values())}


def _made_uid(one: Series, names: Names) -> str:
    named = f"{names.label(one.labels, 'namespace')}/{names.label(one.labels, 'pod')}"
    return f"no-uid-{hashlib.sha256(named.encode()).hexdigest()[:32]}"


def _merge(pods: dict[str, SeenPod], uid: str, one: Series, names: Names) -> None:
    namespace, name = names.label(one.labels, "namespace"), names.label(one.labels, "pod")
    pod = pods.get(uid)
    if pod is None:
        pod = pods[uid] = SeenPod(namespace, name, one.times[0], one.times[-1])
    if (pod.namespace, pod.name) != (namespace, name):
        texts = [f"{pod.namespace}/{pod.name}", f"{namespace}/{name}"]
        pod.defects |= {disagreement("name", texts)}
    pod.first, pod.last = min(pod.first, one.times[0]), max(pod.last, one.times[-1])
    pod.times.append(one.times)
    target = intern(names.label(one.labels, "instance"))
    if target not in pod.targets:
        pod.targets = (*pod.targets, target)
    node = names.label(one.labels, "node")
    if node:
        pod.nodes[node] = max(one.times[-1], pod.nodes.get(node, 0))
    _merge_units(pod, one, names)


def _merge_units(pod: SeenPod, one: Series, names: Names) -> None:
    container, resource = names.label(one.labels, "container"), one.labels.get("resource", "")
    key = (one.metric, container, resource)
    what = f"request of container {container} for {resource}"
    for text in distinct(one.values):
        units = read_units(text)
        if units is None:
            pod.defects |= {impossible(what, text)}
            pod.units.setdefault(key, IMPOSSIBLE_UNITS)
            continue
        former = pod.units.setdefault(key, units)
        if former not in {units, IMPOSSIBLE_UNITS}:
            pod.defects |= {disagreement(what, [str(former), str(units)])}
        pod.units[key] = max(former, units)


def impossible(what: str, text: str) -> str:
    """Return the sentence about a value that cannot be."""
    return f"Its {what} cannot be {shown(text)}."


def disagreement(what: str, texts: Iterable[str]) -> str:
    """Return the sentence about series that contradict each other."""
    return f"Its series disagree about its {what}: {', '.join(sorted(texts))}."

"""Clusters of a few pods over several hours, whole or with something wrong, as OpenMetrics."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hypothesis import strategies as st

from simulator.cluster.exporters.prometheus_text import render_labels

START = int(datetime(2026, 10, 1, 10, tzinfo=UTC).timestamp())
HOURS = 4
END = START + HOURS * 3600
SCRAPE = 60
BEGIN = START - 3600
"""The first scrape."""
LAST = END + 1800
"""The last one."""
USER_LABEL = "user"
FUTURE = LAST + 86_400
FACTS = ("info", "labels", "created", "scheduled")
POD_EVENTS = (
    *("unbound", "ended", "ended unknown", "owner", "moved", "units", "impossible units"),
    *("bound again", "late time", "hidden", "init", "sidecar"),
    *(f"without {fact}" for fact in FACTS),
)
CLUSTER_EVENTS = (
    *("gap", "down", "restart", "copies", "node labels", "node unlabelled", "offer", "shard left"),
)


@dataclass(frozen=True)
class Event:
    """Something from one second until another."""

    kind: str
    begin: int
    end: int

    def holds(self, at: int) -> bool:
        """Whether it is so at a time."""
        return self.begin <= at < self.end


@dataclass(frozen=True)
class PodCase:
    """One pod: when it exists, and what happens to it."""

    begin: int
    end: int
    events: tuple[Event, ...] = ()

    def has(self, kind: str, at: int) -> bool:
        """Whether an event of a kind holds at a time."""
        return any(one.kind == kind and one.holds(at) for one in self.events)

    def first(self, *kinds: str) -> int | None:
        """Return when the first event of some kinds begins."""
        return min((one.begin for one in self.events if one.kind in kinds), default=None)


@dataclass(frozen=True)
class ClusterCase:
    """One cluster.

    Attributes:
        phase: Milliseconds of its scrapes after each whole interval.
    """

    pods: tuple[PodCase, ...]
    events: tuple[Event, ...] = ()
    phase: int = 0

    def has(self, kind: str, at: int) -> bool:
        """Whether an event of a kind holds at a time."""
        return any(one.kind == kind and one.holds(at) for one in self.events)


def moments() -> st.SearchStrategy[int]:
    """Return times over all hours, often just where a window or a query begins or ends."""
    edges = st.builds(
        lambda hour, edge, beside: START + hour * 3600 + edge + beside,
        st.integers(-1, HOURS),
        st.sampled_from((0, -240, 600)),
        st.sampled_from((-60, -1, 0, 1, 60)),
    )
    return st.one_of(edges, st.integers(BEGIN, LAST))


def events(kinds: Sequence[str]) -> st.SearchStrategy[Event]:
    """Return an event of some kinds."""
    return st.builds(
        lambda kind, one, other: Event(kind, min(one, other), max(one, other)),
        st.sampled_from(kinds),
        moments(),
        moments(),
    )


def pods() -> st.SearchStrategy[PodCase]:
    """Return pods; most are there for some hours, many with nothing wrong."""
    return st.builds(
        lambda one, other, found: PodCase(min(one, other), max(one, other), tuple(found)),
        st.one_of(st.just(BEGIN), moments()),
        st.one_of(st.just(LAST + SCRAPE), moments()),
        st.lists(events(POD_EVENTS), max_size=3),
    )


def clusters(pods_count: int) -> st.SearchStrategy[ClusterCase]:
    """Return clusters."""
    return st.builds(
        lambda found, happening, phase: ClusterCase(tuple(found), tuple(happening), phase),
        st.lists(pods(), min_size=pods_count, max_size=pods_count),
        st.lists(events(CLUSTER_EVENTS), max_size=2),
        st.sampled_from((0, 0, 7_347)),
    )


def openmetrics(found: Sequence[ClusterCase]) -> str:
    """Return the series of some clusters, which are named c0, c1 and so on."""
    families: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for number, cluster in enumerate(found):
        for metric, labels, value, at in _samples(cluster):
            named = render_labels([("cluster", f"c{number}"), *sorted(labels.items())])
            series = f"{metric}{{{named}}}"
            families[metric][series].append(f"{series} {value} {at // 1000}.{at % 1000:03d}")
    lines = []
    for metric, by_series in families.items():
        lines.append(f"# TYPE {metric} unknown")
        for samples in by_series.values():
            lines.extend(samples)
    return "\n".join([*lines, "# EOF\n"])


Sample = tuple[str, Mapping[str, str], str, int]
"""Metric, labels, value and milliseconds."""


def _samples(cluster: ClusterCase) -> Iterator[Sample]:
    copies = any(one.kind == "copies" for one in cluster.events)
    for replica, shift in (("a", 0), ("b", 20_000))[: 1 + copies]:
        labels = {"prometheus_replica": replica} if copies else {}
        for at in range(BEGIN, LAST + 1, SCRAPE):
            if replica == "b" and not cluster.has("copies", at):
                continue
            for metric, own, value in _scrape(cluster, at):
                yield metric, {**labels, **own}, value, at * 1000 + cluster.phase + shift


def _scrape(cluster: ClusterCase, at: int) -> Iterator[tuple[str, Mapping[str, str], str]]:
    if cluster.has("gap", at):
        return
    is_restarted = any(one.kind == "restart" and one.begin <= at for one in cluster.events)
    first = {"job": "kube-state-metrics", "instance": f"10.0.0.{8 + is_restarted}:8080"}
    shards = [one for one in cluster.events if one.kind == "shard left"]
    targets = [first, {**first, "instance": "10.0.0.30:8080"}][: 1 + bool(shards)]
    if any(one.begin <= at for one in shards):
        targets = targets[:1]
    for ordinal, target in enumerate(targets):
        if cluster.has("down", at):
            yield "up", target, "0"
            continue
        yield "up", target, "1"
        if ordinal == 0:
            yield from _nodes(cluster, target, at)
        for number, pod in enumerate(cluster.pods):
            if number % (1 + bool(shards)) == ordinal and pod.begin <= at < pod.end:
                yield from _pod(number, pod, target, at)


def _nodes(
    cluster: ClusterCase, target: Mapping[str, str], at: int
) -> Iterator[tuple[str, Mapping[str, str], str]]:
    for number in range(3):
        node = {**target, "node": f"gpu-{number}"}
        offer = "4" if number == 0 and cluster.has("offer", at) else "8"
        yield (
            "kube_node_status_allocatable",
            {**node, "resource": "nvidia_com_gpu", "unit": "integer"},
            offer,
        )
        product = "H200" if number == 1 and cluster.has("node labels", at) else "H100"
        is_bare = number == 2 and cluster.has("node unlabelled", at)
        labels = {} if is_bare else {"label_nvidia_com_gpu_product": product}
        yield "kube_node_labels", {**node, "label_kubernetes_io_os": "linux", **labels}, "1"


def _pod(
    number: int, pod: PodCase, target: Mapping[str, str], at: int
) -> Iterator[tuple[str, Mapping[str, str], str]]:
    if pod.has("hidden", at):
        return
    own = {**target, "namespace": "team", "pod": f"job-{number}", "uid": f"uid-{number}"}
    is_bound = not pod.has("unbound", at)
    node = {"node": f"gpu-{(number + pod.has('moved', at)) % 3}"} if is_bound else {}
    gpu = {"resource": "nvidia_com_gpu", "unit": "integer"}
    units = "-1" if pod.has("impossible units", at) else "2" if pod.has("units", at) else "1"
    yield (
        "kube_pod_container_resource_requests",
        {**own, **node, **gpu, "container": "main"},
        units,
    )
    if pod.first("init", "sidecar") is not None:
        restart = {"restart_policy": "Always"} if pod.first("sidecar") is not None else {}
        init = {**own, "container": "prepare"}
        yield "kube_pod_init_container_resource_requests", {**init, **node, **gpu}, "1"
        yield "kube_pod_init_container_info", {**init, **restart}, "1"
    yield from _facts(pod, own, node, at)
    ended = [one for one in pod.events if one.kind.startswith("ended") and one.begin <= at]
    for phase in ("Failed", "Succeeded"):
        is_it = bool(ended) and phase == "Succeeded"
        yield "kube_pod_status_phase", {**own, "phase": phase}, str(int(is_it))
    if any(one.kind == "ended" for one in ended):
        yield "kube_pod_completion_time", own, str(ended[0].begin)


def _facts(
    pod: PodCase, own: Mapping[str, str], node: Mapping[str, str], at: int
) -> Iterator[tuple[str, Mapping[str, str], str]]:
    bound = str(pod.begin + 5 + 60 * pod.has("bound again", at))
    owner = "bob" if pod.has("owner", at) else "alice"
    shown: dict[str, tuple[str, Mapping[str, str], str] | None] = {
        "info": ("kube_pod_info", {**own, **node, "priority_class": "gpu"}, "1"),
        "labels": ("kube_pod_labels", {**own, f"label_{USER_LABEL}": owner}, "1"),
        "created": ("kube_pod_created", own, str(pod.begin)),
        "scheduled": ("kube_pod_status_scheduled_time", own, bound) if node else None,
    }
    if pod.has("late time", at):
        shown["created"] = ("kube_pod_created", own, str(FUTURE))
        shown["scheduled"] = ("kube_pod_status_scheduled_time", own, str(FUTURE))
    for fact, sample in shown.items():
        if sample is not None and not pod.has(f"without {fact}", at):
            yield sample

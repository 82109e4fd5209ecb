"""Clusters of GPU pods as kube-state-metrics shows them for some hours, in a Prometheus.

Each holds what a bill is made of, and of the devices no more than what names their models, so that
a history of many pods is written in minutes.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final

from bench.harness import ROOT, measured
from embedded.prometheus import EmbeddedPrometheus

SCRAPE_SECONDS: Final = 60
GPUS_PER_NODE: Final = 8
PROJECTS: Final = 5
EDGE_SECONDS: Final = 900
"""How far the history reaches beyond its hours."""
USER_LABEL: Final = "billing_example_com_user"
NAMES: Final = uuid.UUID("5b1d8f0e-3c52-4b7e-9a7f-0c1f5f7f2a11")
KSM: Final = 'job="kube-state-metrics",instance="10.42.0.9:8080"'
DCGM: Final = 'job="nvidia-dcgm-exporter",container="nvidia-dcgm-exporter"'
LABELS: Final = (
    'label_nvidia_com_gpu_product="NVIDIA-H100-80GB-HBM3",label_nvidia_com_gpu_count="8",'
    'label_nvidia_com_gpu_replicas="1",label_nvidia_com_gpu_sharing_strategy="none"'
)


@dataclass(frozen=True)
class PodCluster:
    """A cluster of whole GPUs that are all in use, one to a pod.

    Attributes:
        slug: The value of its label `cluster`.
        begin: The first hour.
        hours: How many.
        gpus: Each tenth serves one pod after another, the others one pod all the time.
        pod_seconds: How long a pod lasts of those that follow each other.
        facts_every: Every which scrape shows what does not change of a pod. It changes what
            Prometheus has to decode, and nothing that is read of it.
        devices: GPUs of a node that DCGM shows.
    """

    slug: str
    begin: datetime
    hours: int
    gpus: int
    pod_seconds: int
    namespaces: int = 50
    users: int = 200
    facts_every: int = 1
    devices: int = GPUS_PER_NODE

    @property
    def begin_second(self) -> int:
        """Return the begin as Unix seconds."""
        return int(self.begin.timestamp())

    def lifetimes(self) -> list["Lifetime"]:
        """Return all pods."""
        begin, all_seconds = self.begin_second, self.hours * 3600
        return [
            Lifetime(
                cluster=self,
                gpu=gpu,
                begin=begin + first - (EDGE_SECONDS if first == 0 else 0),
                end=begin + last + (EDGE_SECONDS if last == all_seconds else 0),
            )
            for gpu in range(self.gpus)
            for length in (self.pod_seconds if gpu % 10 == 0 else all_seconds,)
            for first, last in ((at, at + length) for at in range(0, all_seconds, length))
        ]

    def ticks(self) -> range:
        """Return the scrapes of what is there all the time."""
        begin = self.begin_second
        return _ticks(begin - EDGE_SECONDS, begin + self.hours * 3600 + EDGE_SECONDS)


@dataclass(frozen=True)
class Lifetime:
    """One pod on one GPU, epoch seconds."""

    cluster: PodCluster
    gpu: int
    begin: int
    end: int

    @property
    def node(self) -> str:
        """Return the GPU's node."""
        return _node(self.gpu // GPUS_PER_NODE)

    @property
    def pod(self) -> str:
        """Return the pod's labels as kube-state-metrics exports them."""
        uid = uuid.uuid5(NAMES, f"{self.gpu}/{self.begin}")
        namespace = namespace_of(self.gpu % self.cluster.namespaces)
        name = f"train-{self.gpu}-{self.begin % 1_000_000}"
        return f'{KSM},namespace="{namespace}",pod="{name}",uid="{uid}"'

    @property
    def ticks(self) -> range:
        """Return its scrapes."""
        return _ticks(self.begin, self.end)

    @property
    def fact_ticks(self) -> range:
        """Return the scrapes that show what does not change of it."""
        return self.ticks[:: self.cluster.facts_every]


def namespace_of(number: int) -> str:
    """Return the name of a namespace."""
    return f"team-{number}"


@contextmanager
def served(
    folder: Path, clusters: Sequence[PodCluster]
) -> Iterator[tuple[EmbeddedPrometheus, Decimal]]:
    """Start a Prometheus that holds the history of some clusters, and stop it in the end.

    Yields:
        The server, and the seconds until it had the history.
    """
    with measured() as watch:
        server = start(folder, clusters)
    try:
        yield server, watch.seconds
    finally:
        server.stop()


def start(folder: Path, clusters: Sequence[PodCluster]) -> EmbeddedPrometheus:
    """Return a server that holds the history of some clusters.

    Args:
        folder: For its state.
        clusters: Each with a selector of its own.
    """
    from embedded.prometheus_programs import find_prometheus  # noqa: PLC0415 - Fetches.

    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        raise SystemExit(f"This bench needs Prometheus: {programs.reason}")
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    server.prepare()
    text = server.folder / "history.txt"
    with text.open("wb") as out:
        _write(out, clusters)
    server.import_openmetrics(text, name="history")
    text.unlink()
    server.start()
    return server


def register(cluster: PodCluster, *, slug: str = "", url: str) -> Any:  # noqa: ANN401 - A Cluster.
    """Register a cluster with projects that share its namespaces; return it.

    Args:
        cluster: Whose history is read.
        slug: What it is registered as, where one history is read twice.
        url: Of the Prometheus.
    """
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    slug = slug or cluster.slug
    by: dict[str, Any] = {"actor": system_actor("bench"), "at": cluster.begin}
    registered = register_cluster(
        slug=slug,
        name=slug,
        metered_from=cluster.begin,
        prometheus_url=url,
        selector_label="cluster",
        selector_value=cluster.slug,
        scrape_interval_seconds=SCRAPE_SECONDS,
        user_label=USER_LABEL,
        **by,
    )
    projects = []
    for number in range(PROJECTS):
        name = f"{slug}-{number}"
        owner = create_organization(slug=name, name=name, billing_currency="EUR", **by)
        projects.append(create_project(organization=owner, slug=name, name=name, **by))
    for number in range(cluster.namespaces):
        bind_namespace(
            cluster=registered,
            namespace=namespace_of(number),
            project=projects[number % PROJECTS],
            valid_from=cluster.begin,
            **by,
        )
    return registered


def _write(out: BinaryIO, clusters: Sequence[PodCluster]) -> None:
    """Write the history as OpenMetrics, family by family."""
    pods = [pod for cluster in clusters for pod in cluster.lifetimes()]
    out.write(b"# TYPE kube_pod_container_resource_requests unknown\n")
    for pod in pods:
        _pod_lines(out, "kube_pod_container_resource_requests", pod, pod.ticks, _requested(pod))
    facts: tuple[tuple[str, str, Callable[[Lifetime], str]], ...] = (
        ("kube_pod_info", "1", _info),
        ("kube_pod_labels", "1", _labels),
        ("kube_pod_created", "", lambda _: ""),
        ("kube_pod_status_scheduled_time", "", lambda _: ""),
    )
    for name, value, labels_of in facts:
        out.write(f"# TYPE {name} unknown\n".encode())
        for pod in pods:
            value_now = value or str(pod.begin)
            _pod_lines(out, name, pod, pod.fact_ticks, labels_of(pod), value=value_now)
    out.write(b"# TYPE kube_pod_status_phase unknown\n")
    for pod in pods:
        for phase in ("Failed", "Succeeded"):
            labels = f',phase="{phase}"'
            _pod_lines(out, "kube_pod_status_phase", pod, pod.fact_ticks, labels, value="0")
    _write_nodes(out, clusters)
    out.write(b"# EOF\n")


def _requested(pod: Lifetime) -> str:
    return f',node="{pod.node}",container="main",resource="nvidia_com_gpu",unit="integer"'


def _info(pod: Lifetime) -> str:
    return f',node="{pod.node}",created_by_kind="Job",host_ip="10.0.0.1",priority_class="gpu"'


def _labels(pod: Lifetime) -> str:
    user = f'label_{USER_LABEL}="user-{pod.gpu % pod.cluster.users}"'
    return f',label_app="train-{pod.gpu % pod.cluster.namespaces}",{user}'


def _write_nodes(out: BinaryIO, clusters: Sequence[PodCluster]) -> None:
    for name, value, labels_of in (
        ("kube_node_status_allocatable", str(GPUS_PER_NODE), _offers),
        ("kube_node_labels", "1", _node_labels),
        ("up", "1", _exporters),
        ("DCGM_FI_DEV_GPU_UTIL", "87", _devices),
    ):
        out.write(f"# TYPE {name} unknown\n".encode())
        for cluster in clusters:
            for labels in labels_of(cluster):
                series = f'{name}{{cluster="{cluster.slug}",{labels}}}'
                _lines(out, series, cluster.ticks(), value)


def _nodes(cluster: PodCluster) -> Iterator[str]:
    yield from map(_node, range(-(-cluster.gpus // GPUS_PER_NODE)))


def _node(number: int) -> str:
    return f"gpu-{number:03d}"


def _offers(cluster: PodCluster) -> Iterator[str]:
    for node in _nodes(cluster):
        yield f'{KSM},node="{node}",resource="nvidia_com_gpu",unit="integer"'


def _node_labels(cluster: PodCluster) -> Iterator[str]:
    for node in _nodes(cluster):
        yield f'{KSM},node="{node}",{LABELS}'


def _exporters(cluster: PodCluster) -> Iterator[str]:
    yield KSM
    yield from map(_exporter, _nodes(cluster))


def _exporter(node: str) -> str:
    return f'{DCGM},pod="dcgm-{node}",instance="{node}:9400"'


def _devices(cluster: PodCluster) -> Iterator[str]:
    for node in _nodes(cluster):
        for gpu in range(cluster.devices):
            name = uuid.uuid5(NAMES, f"{node}/{gpu}")
            model = 'modelName="NVIDIA H100 80GB HBM3"'
            yield f'{_exporter(node)},hostname="{node}",gpu="{gpu}",{model},UUID="GPU-{name}"'


def _ticks(begin: int, end: int) -> range:
    """Return the scrapes of a lifetime, 7 s after each full step."""
    return range(begin - begin % SCRAPE_SECONDS + 7, end, SCRAPE_SECONDS)


def _pod_lines(
    out: BinaryIO, name: str, pod: Lifetime, ticks: range, labels: str, *, value: str = "1"
) -> None:
    _lines(out, f'{name}{{cluster="{pod.cluster.slug}",{pod.pod}{labels}}}', ticks, value)


def _lines(out: BinaryIO, series: str, ticks: range, value: str) -> None:
    out.write("".join([f"{series} {value} {at}.347\n" for at in ticks]).encode())

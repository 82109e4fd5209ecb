"""Six hours of 4,000 pods in a real Prometheus, and the organizations that own them."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final

from bench.harness import ROOT, scaled
from embedded.prometheus import EmbeddedPrometheus

START: Final = datetime(2026, 10, 5, tzinfo=UTC)
HOURS: Final = 6
SCRAPE_SECONDS: Final = 60
PODS: Final = scaled(4_000)
GPUS_PER_NODE: Final = 8
POD_HOURS: Final = 2
"""Every tenth GPU serves three pods one after another, the others one pod all the time."""
USERS: Final = scaled(200)
SELECTOR: Final = "bill"
"""Any number of clusters may read the same series."""
EDGE_SECONDS: Final = 900
NAMES: Final = uuid.UUID("5b1d8f0e-3c52-4b7e-9a7f-0c1f5f7f2a11")
KSM: Final = 'job="kube-state-metrics",instance="10.42.0.9:8080"'
DCGM: Final = 'job="nvidia-dcgm-exporter",container="nvidia-dcgm-exporter"'
CLUSTER: Final = f'cluster="{SELECTOR}"'
USER_LABEL: Final = "billing_example_com_user"
LABELS: Final = (
    'label_nvidia_com_gpu_product="NVIDIA-H100-80GB-HBM3",label_nvidia_com_gpu_count="8",'
    'label_nvidia_com_gpu_replicas="1",label_nvidia_com_gpu_sharing_strategy="none"'
)


@dataclass(frozen=True)
class Lifetime:
    """One pod on one GPU, epoch seconds."""

    gpu: int
    namespace: str
    begin: int
    end: int

    @property
    def node(self) -> str:
        """Return the GPU's node."""
        return f"gpu-{self.gpu // GPUS_PER_NODE:03d}"

    @property
    def pod(self) -> str:
        """Return the pod's labels as kube-state-metrics exports them."""
        uid = uuid.uuid5(NAMES, f"{self.gpu}/{self.begin}")
        return f'{KSM},namespace="{self.namespace}",pod="{self.name}",uid="{uid}"'

    @property
    def name(self) -> str:
        """Return the pod's name."""
        return f"train-{self.gpu}-{self.begin % 1_000_000}"


def start_prometheus(folder: Path, *, namespaces: int) -> EmbeddedPrometheus:
    """Return a server that holds the history.

    Args:
        folder: For its state.
        namespaces: That share the pods.
    """
    from embedded.prometheus_programs import find_prometheus  # noqa: PLC0415 - Fetches.

    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        raise SystemExit(f"This bench needs Prometheus: {programs.reason}")
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    server.prepare()
    text = server.folder / "history.txt"
    with text.open("wb") as out:
        _write(out, namespaces=namespaces)
    server.import_openmetrics(text, name="bill")
    text.unlink()
    server.start()
    return server


def make_projects(slug: str, count: int) -> list[Any]:
    """Make so many organizations with a project each, all with one price."""
    from billing.services.pricing.assignments import (  # noqa: PLC0415 - Django is set up by now.
        assign_price_book,
    )
    from billing.services.pricing.prices import create_price_book, set_price  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    by = _by()
    book = create_price_book(slug=slug, name="Book", currency="EUR", **by)
    set_price(price_book=book, size="large", unit_price=Decimal("2.5"), valid_from=START, **by)
    projects = []
    for number in range(count):
        name = f"{slug}-{number}"
        owner = create_organization(slug=name, name=name, billing_currency="EUR", **by)
        assign_price_book(organization=owner, price_book=book, valid_from=START, **by)
        projects.append(create_project(organization=owner, slug=name, name=name, **by))
    return projects


def register(slug: str, url: str, *, projects: Sequence[Any], namespaces: int) -> Any:  # noqa: ANN401 - A Cluster.
    """Register a cluster of all the pods; its projects share the namespaces."""
    from tenants.services.clusters import register_cluster  # noqa: PLC0415 - Django is set up.
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415

    by = _by()
    cluster = register_cluster(
        slug=slug,
        name=slug,
        metered_from=START,
        prometheus_url=url,
        selector_label="cluster",
        selector_value=SELECTOR,
        scrape_interval_seconds=SCRAPE_SECONDS,
        user_label=USER_LABEL,
        **by,
    )
    for number in range(namespaces):
        bind_namespace(
            cluster=cluster,
            namespace=f"team-{number}",
            project=projects[number % len(projects)],
            valid_from=START,
            **by,
        )
    return cluster


def _by() -> dict[str, Any]:
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.

    return {"actor": system_actor("bench"), "at": START}


def _lifetimes(namespaces: int) -> list[Lifetime]:
    begin = int(START.timestamp())
    all_seconds, part = HOURS * 3600, POD_HOURS * 3600
    return [
        Lifetime(
            gpu=gpu,
            namespace=f"team-{gpu % namespaces}",
            begin=begin + first - (EDGE_SECONDS if first == 0 else 0),
            end=begin + last + (EDGE_SECONDS if last == all_seconds else 0),
        )
        for gpu in range(PODS)
        for length in (part if gpu % 10 == 0 else all_seconds,)
        for first, last in ((at, at + length) for at in range(0, all_seconds, length))
    ]


def _write(out: BinaryIO, *, namespaces: int) -> None:
    """Write the history as OpenMetrics, family by family."""
    pods = _lifetimes(namespaces)
    for name, value, labels_of in (
        ("kube_pod_container_resource_requests", "1", _requested),
        ("kube_pod_info", "1", _info),
        ("kube_pod_labels", "1", _labels),
        ("kube_pod_created", "", lambda _: ""),
        ("kube_pod_status_scheduled_time", "", lambda _: ""),
    ):
        out.write(f"# TYPE {name} unknown\n".encode())
        for pod in pods:
            series = f"{name}{{{CLUSTER},{pod.pod}{labels_of(pod)}}}"
            _lines(out, series, _ticks(pod.begin, pod.end), value or str(pod.begin))
    out.write(b"# TYPE kube_pod_status_phase unknown\n")
    for pod in pods:
        for phase in ("Failed", "Succeeded"):
            series = f'kube_pod_status_phase{{{CLUSTER},{pod.pod},phase="{phase}"}}'
            _lines(out, series, _ticks(pod.begin, pod.end), "0")
    _write_nodes(out)
    out.write(b"# EOF\n")


def _requested(pod: Lifetime) -> str:
    return f',node="{pod.node}",container="main",resource="nvidia_com_gpu",unit="integer"'


def _info(pod: Lifetime) -> str:
    return f',node="{pod.node}",created_by_kind="Job",host_ip="10.0.0.1",priority_class="gpu"'


def _labels(pod: Lifetime) -> str:
    user = f'label_{USER_LABEL}="user-{pod.gpu % USERS}"'
    return f',label_app="{pod.namespace}",{user}'


def _write_nodes(out: BinaryIO) -> None:
    begin = int(START.timestamp())
    ticks = _ticks(begin - EDGE_SECONDS, begin + HOURS * 3600 + EDGE_SECONDS)
    nodes = [f"gpu-{number:03d}" for number in range(-(-PODS // GPUS_PER_NODE))]
    offers = [f'{KSM},node="{node}",resource="nvidia_com_gpu",unit="integer"' for node in nodes]
    exporters = [f'{DCGM},pod="dcgm-{node}",instance="{node}:9400"' for node in nodes]
    devices = [
        f'{exporter},hostname="{node}",gpu="{gpu}",modelName="NVIDIA H100 80GB HBM3"'
        f',UUID="GPU-{uuid.uuid5(NAMES, f"{node}/{gpu}")}"'
        for node, exporter in zip(nodes, exporters, strict=True)
        for gpu in range(GPUS_PER_NODE)
    ]
    for name, series, value in (
        ("kube_node_status_allocatable", offers, str(GPUS_PER_NODE)),
        ("kube_node_labels", [f'{KSM},node="{node}",{LABELS}' for node in nodes], "1"),
        ("up", [KSM, *exporters], "1"),
        ("DCGM_FI_DEV_GPU_UTIL", devices, "87"),
    ):
        out.write(f"# TYPE {name} unknown\n".encode())
        for labels in series:
            _lines(out, f"{name}{{{CLUSTER},{labels}}}", ticks, value)


def _ticks(begin: int, end: int) -> range:
    """Return the scrapes of a lifetime, 7 s after each full step."""
    return range(begin - begin % SCRAPE_SECONDS + 7, end, SCRAPE_SECONDS)


def _lines(out: BinaryIO, series: str, ticks: range, value: str) -> None:
    out.write("".join([f"{series} {value} {at}.347\n" for at in ticks]).encode())

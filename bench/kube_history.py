"""The history that kube-state-metrics and Prometheus have of pods on whole GPUs, as OpenMetrics.

Each tenant is an organization with a project and a namespace of its own.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, Final
from uuid import UUID

GPUS_PER_NODE: Final = 8
SCRAPED_AT_SECONDS: Final = 7
"""After each full step, so that no sample lies on the border of an hour."""
KSM: Final = 'job="kube-state-metrics",instance="10.42.0.9:8080"'
EXPORTER: Final = (
    'job="nvidia-dcgm-exporter",namespace="gpu-operator",container="nvidia-dcgm-exporter"'
)
LABELS: Final = (
    'label_nvidia_com_gpu_product="NVIDIA-H100-80GB-HBM3",label_nvidia_com_gpu_count="8",'
    'label_nvidia_com_gpu_replicas="1",label_nvidia_com_gpu_sharing_strategy="none"'
)


@dataclass(frozen=True)
class Stay:
    """One pod on one GPU, epoch seconds."""

    gpu: int
    begin: int
    end: int
    namespace: str
    uid: str

    @property
    def node(self) -> str:
        """Return the GPU's node."""
        return f"gpu-{self.gpu // GPUS_PER_NODE:03d}"

    @property
    def pod(self) -> str:
        """Return the pod's labels as kube-state-metrics exports them."""
        return f'{KSM},namespace="{self.namespace}",pod="train-{self.uid}",uid="{self.uid}"'

    @property
    def device(self) -> str:
        """Return the device's labels after a scrape."""
        return (
            f'{EXPORTER},pod="exporter-{self.node}",instance="{self.node}:9400"'
            f',gpu="{self.gpu % 8}",UUID="GPU-{self.gpu:08d}-9c55-7f20-8b1a-2d6e0f91c384"'
            f',device="nvidia{self.gpu % 8}"'
            f',modelName="NVIDIA H100 80GB HBM3",hostname="{self.node}"'
            f',DCGM_FI_DRIVER_VERSION="580.95.05",exported_namespace="{self.namespace}"'
            f',exported_pod="train-{self.uid}",exported_container="main"'
        )


def write_objects(
    out: BinaryIO, cluster: str, stays: list[Stay], *, span: tuple[int, int], scrape_seconds: int
) -> None:
    """Write what is known of pods and nodes, family by family.

    Args:
        out: Binary file; its "# EOF" is the caller's.
        cluster: The label that names the cluster, as written in a series.
        stays: The pods.
        span: First and last second of the nodes.
        scrape_seconds: Between two samples.
    """
    asked = 'container="main",resource="nvidia_com_gpu",unit="integer"'
    families = (
        ("kube_pod_container_resource_requests", asked, b"1"),
        ("kube_pod_info", 'priority_class=""', b"1"),
        ("kube_pod_labels", "", b"1"),
        ("kube_pod_status_scheduled_time", "", b""),
    )
    for name, extra, value in families:
        write_type(out, name)
        for stay in stays:
            ticks = ticks_of(stay.begin, stay.end, scrape_seconds)
            node = f'node="{stay.node}"' if extra else ""
            labels = ",".join(part for part in (cluster, stay.pod, node, extra) if part)
            written = value or b"%d" % stay.begin
            write_series(out, f"{name}{{{labels}}}", ticks, [written] * len(ticks))
    ticks = ticks_of(*span, scrape_seconds)
    nodes = sorted({stay.node for stay in stays})
    offers = [f'{KSM},node="{node}",resource="nvidia_com_gpu",unit="integer"' for node in nodes]
    reported = [f'{KSM},node="{node}",{LABELS}' for node in nodes]
    pods = [f'{EXPORTER},pod="exporter-{node}",instance="{node}:9400"' for node in nodes]
    for name, series, value in (
        ("kube_node_status_allocatable", offers, b"8"),
        ("kube_node_labels", reported, b"1"),
        ("up", [KSM, *pods], b"1"),
    ):
        write_type(out, name)
        for labels in series:
            write_series(out, f"{name}{{{cluster},{labels}}}", ticks, [value] * len(ticks))


def ticks_of(begin: int, end: int, scrape_seconds: int) -> range:
    """Return the scrapes of a stretch."""
    return range(begin - begin % scrape_seconds + SCRAPED_AT_SECONDS, end, scrape_seconds)


def write_type(out: BinaryIO, name: str) -> None:
    """Write the line that begins a family."""
    out.write(f"# TYPE {name} unknown\n".encode())


def write_series(out: BinaryIO, series: str, ticks: range, values: list[bytes]) -> None:
    """Write one series."""
    head = f"{series} ".encode()
    out.write(b"".join([b"%s%s %d\n" % (head, v, t) for v, t in zip(values, ticks, strict=True)]))


def make_tenants(
    slug: str, count: int, *, prometheus_url: str, scrape_seconds: int, at: datetime
) -> list[UUID]:
    """Make a cluster and so many tenants, whose namespaces are `<slug>-0` and on.

    Returns:
        The organizations' ids.
    """
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    who: dict[str, Any] = {"actor": system_actor("bench"), "at": at}
    cluster = register_cluster(
        slug=slug,
        name=slug,
        metered_from=at,
        prometheus_url=prometheus_url,
        selector_label="cluster",
        selector_value=slug,
        scrape_interval_seconds=scrape_seconds,
        user_label="",
        **who,
    )
    ids = []
    for number in range(count):
        name = f"{slug}-{number}"
        organization = create_organization(slug=name, name=name, billing_currency="EUR", **who)
        project = create_project(organization=organization, slug=name, name=name, **who)
        bind_namespace(cluster=cluster, namespace=name, project=project, valid_from=at, **who)
        ids.append(organization.pk)
    return ids


def meter_only(slug: str) -> None:
    """Let no hour of another cluster be opened or metered."""
    from tenants.models import Cluster  # noqa: PLC0415 - Django is set up by now.

    Cluster.objects.exclude(slug=slug).update(state="closed")
    Cluster.objects.filter(slug=slug).update(state="active")

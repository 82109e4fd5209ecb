"""How a Prometheus scrapes a simulated cluster: targets, labels, and the clash of the two.

kube-state-metrics is scraped with honor_labels, as its chart has it. dcgm-exporter is not, as
its chart has it: the exporter's own namespace, pod and container win, and the workload's become
`exported_namespace`, `exported_pod` and `exported_container`. Labels that no query
joins on are dropped, as busy sites do: they are a third of the data in Prometheus.
"""

from collections.abc import Iterable
from typing import Final

from simulator.cluster.exporters.prometheus_text import Labels
from simulator.cluster.scenario import SimulatedCluster

CLUSTER_LABEL: Final = "cluster"
OBJECT_JOB: Final = "kube-state-metrics"
DEVICE_JOB: Final = "dcgm-exporter"
OBJECT_PATH: Final = "kube-state-metrics"
DEVICE_PATH: Final = "dcgm"
TIMEOUT_SECONDS: Final = 10
"""Of a scrape; Prometheus wants it no longer than the interval."""
DROPPED_LABELS: Final = (
    "DCGM_FI_DRIVER_VERSION",
    "container_id",
    "created_by_kind",
    "created_by_name",
    "device",
    "host_ip",
    "host_network",
    "image",
    "image_id",
    "image_spec",
    "pci_bus_id",
    "pod_ip",
)
_DROPPED: Final = frozenset(DROPPED_LABELS)
_CLASHING: Final = ("namespace", "pod", "container")


def object_target(cluster: str) -> Labels:
    """Return the labels that scraping adds to kube-state-metrics' series."""
    return ((CLUSTER_LABEL, cluster), ("instance", f"{cluster}:8080"), ("job", OBJECT_JOB))


def device_target(cluster: str) -> Labels:
    """Return the labels that scraping adds to DCGM's series."""
    return (
        (CLUSTER_LABEL, cluster),
        ("container", "nvidia-dcgm-exporter"),
        ("instance", f"{cluster}:9400"),
        ("job", DEVICE_JOB),
        ("namespace", "gpu-operator"),
        ("pod", "nvidia-dcgm-exporter"),
    )


def scraped_object(cluster: str, labels: Labels) -> Labels:
    """Return a kube-state-metrics series as Prometheus holds it."""
    return _kept(labels) + object_target(cluster)


def scraped_device(cluster: str, labels: Labels) -> Labels:
    """Return a DCGM series as Prometheus holds it."""
    moved = tuple(
        (f"exported_{name}" if name in _CLASHING else name, value) for name, value in _kept(labels)
    )
    return moved + device_target(cluster)


def scrape_configs(
    clusters: Iterable[SimulatedCluster], exporter: str, *, interval_seconds: int | None = None
) -> list[dict[str, object]]:
    """Return the `scrape_configs` of a Prometheus that scrapes the live exporter.

    Args:
        clusters: What the exporter serves.
        exporter: Its "host:port".
        interval_seconds: How often; None for each cluster's own interval.
    """
    steps = {one.slug: interval_seconds or one.scrape_interval_seconds for one in clusters}
    return [
        {
            "job_name": f"{slug}-{job}",
            "honor_labels": job == OBJECT_JOB,
            "scrape_interval": f"{step}s",
            "scrape_timeout": f"{min(step, TIMEOUT_SECONDS)}s",
            "metrics_path": f"/{slug}/{path}/metrics",
            "static_configs": [{"targets": [exporter], "labels": dict(target)}],
            "metric_relabel_configs": [
                {"action": "labeldrop", "regex": "|".join(DROPPED_LABELS)},
            ],
        }
        for slug, step in steps.items()
        for job, path, target in (
            (OBJECT_JOB, OBJECT_PATH, object_target(slug)),
            (DEVICE_JOB, DEVICE_PATH, device_target(slug)),
        )
    ]


def _kept(labels: Labels) -> Labels:
    return tuple(pair for pair in labels if pair[0] not in _DROPPED)

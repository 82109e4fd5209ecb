"""What things are called: our names of metrics and labels, and the names a site may use instead.

A cluster's `metric_aliases` and `label_aliases` go before the defaults here, name by name; a
default that a cluster gives to another metric is taken from its own. Metric names reach a query, so
they are checked; label names are only looked up in responses.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from metering.protocols import ClusterTarget
from tenants.domain.errors import SourceUnavailableError

UP: Final = "up"
REQUESTS: Final = "kube_pod_container_resource_requests"
INIT_REQUESTS: Final = "kube_pod_init_container_resource_requests"
INIT_INFO: Final = "kube_pod_init_container_info"
POD_INFO: Final = "kube_pod_info"
POD_LABELS: Final = "kube_pod_labels"
POD_PHASE: Final = "kube_pod_status_phase"
CREATED: Final = "kube_pod_created"
SCHEDULED: Final = "kube_pod_status_scheduled_time"
COMPLETED: Final = "kube_pod_completion_time"
NODE_LABELS: Final = "kube_node_labels"
ALLOCATABLE: Final = "kube_node_status_allocatable"
SHARDS_TOTAL: Final = "kube_state_metrics_total_shards"
SHARD_ORDINAL: Final = "kube_state_metrics_shard_ordinal"
BUSY_PERCENT: Final = "DCGM_FI_DEV_GPU_UTIL"
BUSY_RATIO: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
SM_ACTIVE: Final = "DCGM_FI_PROF_SM_ACTIVE"
TENSOR_ACTIVE: Final = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
DRAM_ACTIVE: Final = "DCGM_FI_PROF_DRAM_ACTIVE"
MEMORY_USED: Final = "DCGM_FI_DEV_FB_USED"
MEMORY_FREE: Final = "DCGM_FI_DEV_FB_FREE"
MEMORY_RESERVED: Final = "DCGM_FI_DEV_FB_RESERVED"
POWER: Final = "DCGM_FI_DEV_POWER_USAGE"
SM_CLOCK: Final = "DCGM_FI_DEV_SM_CLOCK"
ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
PRESENCE: Final = (BUSY_PERCENT, BUSY_RATIO, ENERGY)
"""Metrics that show a device and its pod; every device exports at least one of them."""
FIGURES: Final = (
    POWER,
    SM_CLOCK,
    MEMORY_USED,
    MEMORY_FREE,
    MEMORY_RESERVED,
    SM_ACTIVE,
    TENSOR_ACTIVE,
    DRAM_ACTIVE,
)
"""Further metrics of a device; each may be missing."""

DEFAULT_METRICS: Final[Mapping[str, tuple[str, ...]]] = {
    **{
        name: (name,)
        for name in (
            UP,
            REQUESTS,
            INIT_REQUESTS,
            INIT_INFO,
            POD_INFO,
            POD_LABELS,
            POD_PHASE,
            CREATED,
            SCHEDULED,
            COMPLETED,
            NODE_LABELS,
            ALLOCATABLE,
            SHARDS_TOTAL,
            SHARD_ORDINAL,
        )
    },
    # DCGM_FI_DEV_GPU_UTIL_RATIO is left out on purpose: it is a percentage in DCGM 4.6 and a ratio
    # in 4.7, and its values do not show which. A site that knows may configure it as an alias.
    # Lower-case names come from the exporter's compatibility file for release 1.
    BUSY_PERCENT: (BUSY_PERCENT, "dcgm_gpu_utilization"),
    BUSY_RATIO: (
        BUSY_RATIO,
        "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
        "dcgm_fi_prof_gr_engine_active",
    ),
    SM_ACTIVE: (SM_ACTIVE, "DCGM_FI_PROF_SM_UTIL_RATIO", "dcgm_fi_prof_sm_active"),
    TENSOR_ACTIVE: (
        TENSOR_ACTIVE,
        "DCGM_FI_PROF_TENSOR_UTIL_RATIO",
        "dcgm_fi_prof_pipe_tensor_active",
    ),
    DRAM_ACTIVE: (DRAM_ACTIVE, "DCGM_FI_PROF_DRAM_UTIL_RATIO", "dcgm_fi_prof_dram_active"),
    MEMORY_USED: (MEMORY_USED, "dcgm_fb_used"),
    MEMORY_FREE: (MEMORY_FREE, "dcgm_fb_free"),
    MEMORY_RESERVED: (MEMORY_RESERVED, "dcgm_fb_reserved"),
    POWER: (POWER, "DCGM_FI_DEV_BOARD_POWER_WATTS", "dcgm_power_usage"),
    SM_CLOCK: (SM_CLOCK, "dcgm_sm_clock"),
    ENERGY: (ENERGY, "dcgm_total_energy_consumption"),
}
DEFAULT_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "instance": ("instance",),
    "namespace": ("exported_namespace", "pod_namespace", "namespace"),
    "pod": ("exported_pod", "pod_name", "pod"),
    "container": ("exported_container", "container_name", "container"),
    "node": ("exported_node", "node"),
    "hostname": (
        "hostname",
        "Hostname",
        "exported_hostname",
        "exported_Hostname",
        "exported_node",
        "node",
        "kubernetes_node",
    ),
    "uuid": ("UUID", "uuid"),
    "model": ("modelName", "model_name"),
    "instance_id": ("GPU_I_ID",),
    "instance_profile": ("GPU_I_PROFILE",),
    "share": ("vgpu",),
}
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)


@dataclass(frozen=True)
class Names:
    """One cluster's spelling of every metric and label.

    Attributes:
        metrics: Our metric name to the site's, best first.
        labels: Our label name to the site's, best first.
        ours: The site's metric name to ours.
    """

    metrics: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, tuple[str, ...]]
    ours: Mapping[str, str]

    def spelled(self, *metrics: str) -> tuple[str, ...]:
        """Return every name the site may use for these metrics."""
        return tuple(site for metric in metrics for site in self.metrics[metric])

    def label(self, labels: Mapping[str, str], name: str) -> str:
        """Return the value of the best spelling that is there, or "" for none."""
        for spelling in self.labels[name]:
            value = labels.get(spelling)
            if value:
                return value
        return ""


def names_of(target: ClusterTarget) -> Names:
    """Return the names a cluster uses.

    Raises:
        SourceUnavailableError: `bad_target` when an alias is no metric name.
    """
    for metric, aliases in target.metric_aliases.items():
        _check(metric, aliases)
    ours = {site: metric for metric, sites in target.metric_aliases.items() for site in sites}
    if len(ours) != sum(len(set(sites)) for sites in target.metric_aliases.values()):
        raise SourceUnavailableError("Two metrics share one alias.", reason="bad_target")
    for metric, sites in DEFAULT_METRICS.items():
        for site in sites:
            ours.setdefault(site, metric)
    metrics: dict[str, list[str]] = {metric: [] for metric in DEFAULT_METRICS}
    for site, metric in ours.items():
        metrics.setdefault(metric, []).append(site)
    if not all(metrics.values()):
        raise SourceUnavailableError(
            "A metric is left without a name: another one took it.", reason="bad_target"
        )
    labels = {label: tuple(sites) for label, sites in target.label_aliases.items()}
    for label, sites in DEFAULT_LABELS.items():
        labels[label] = tuple(dict.fromkeys((*labels.get(label, ()), *sites)))
    return Names(
        metrics={metric: tuple(sites) for metric, sites in metrics.items()},
        labels=labels,
        ours=ours,
    )


def _check(metric: str, aliases: Iterable[str]) -> None:
    if not aliases or isinstance(aliases, str):
        raise SourceUnavailableError(
            f"The aliases of {metric!r} must be a list of metric names.", reason="bad_target"
        )
    for alias in aliases:
        if _METRIC.fullmatch(alias) is None:
            raise SourceUnavailableError(
                f"An alias of {metric!r} is not a metric name.", reason="bad_target"
            )

"""What things are called: our names of metrics and labels, and the names a site may use instead.

A cluster's `metric_aliases` and `label_aliases` replace the defaults here, name by name. Metric
names reach a query, so they are checked; label names are only looked up in answers.
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
SCHEDULED: Final = "kube_pod_status_scheduled_time"
COMPLETED: Final = "kube_pod_completion_time"
NODE_LABELS: Final = "kube_node_labels"
ALLOCATABLE: Final = "kube_node_status_allocatable"
BUSY_PERCENT: Final = "DCGM_FI_DEV_GPU_UTIL"
BUSY_RATIO: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
ENERGY: Final = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"

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
            SCHEDULED,
            COMPLETED,
            NODE_LABELS,
            ALLOCATABLE,
        )
    },
    # DCGM_FI_DEV_GPU_UTIL_RATIO is left out on purpose: it is a percentage in DCGM 4.6 and a
    # ratio in 4.7, and its values do not tell which. A site that knows names it as an alias.
    BUSY_PERCENT: (BUSY_PERCENT,),
    BUSY_RATIO: (BUSY_RATIO, "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
    ENERGY: (ENERGY,),
}
DEFAULT_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "instance": ("instance",),
    "namespace": ("exported_namespace", "pod_namespace", "namespace"),
    "pod": ("exported_pod", "pod_name", "pod"),
    "container": ("exported_container", "container_name", "container"),
    "node": ("exported_node", "node"),
    "hostname": ("hostname", "Hostname", "exported_node", "node", "kubernetes_node"),
    "uuid": ("UUID", "uuid"),
    "model": ("modelName",),
    "instance_id": ("GPU_I_ID",),
    "instance_profile": ("GPU_I_PROFILE",),
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
    metrics = dict(DEFAULT_METRICS)
    for metric, aliases in target.metric_aliases.items():
        _check(metric, aliases)
        metrics[metric] = tuple(aliases)
    labels = dict(DEFAULT_LABELS)
    for label, aliases in target.label_aliases.items():
        labels[label] = tuple(aliases)
    ours = {site: metric for metric, sites in metrics.items() for site in sites}
    if len(ours) != sum(len(sites) for sites in metrics.values()):
        raise SourceUnavailableError("Two metrics share one alias.", reason="bad_target")
    return Names(metrics=metrics, labels=labels, ours=ours)


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

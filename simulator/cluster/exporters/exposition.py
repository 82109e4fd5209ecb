"""What the exporters of a simulated cluster answer at a moment: DCGM's and kube-state-metrics'.

Shapes: dcgm-exporter 4.5.3-4.8.3 (internal/pkg/rendermetrics) and kube-state-metrics 2.20.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property

from simulator.cluster.exporters.device_metrics import (
    DEVICE_METRICS,
    device_labels,
    read_device,
)
from simulator.cluster.exporters.device_series import (
    DeviceTimeline,
    PowerTimeline,
    device_timelines,
    power_timelines,
)
from simulator.cluster.exporters.object_series import (
    FAMILIES,
    QuotaStatus,
    SeriesInterval,
    address_of,
    namespace_spans,
    node_spans,
    pod_spans,
    quota_spans,
)
from simulator.cluster.exporters.prometheus_text import Sample, render_family
from simulator.cluster.scenario import SimulatedCluster


class ClusterExposition:
    """Both expositions of one cluster, at any moment; what does not change is prepared once."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        """Take the cluster; data for its devices is computed on first use."""
        self.cluster = cluster

    @cached_property
    def timelines(self) -> tuple[DeviceTimeline, ...]:
        """Return which pod held which device when."""
        return device_timelines(self.cluster)

    @cached_property
    def powers(self) -> Mapping[str, PowerTimeline]:
        """Return what each device drew when, by UUID."""
        return power_timelines(self.timelines)

    def dcgm_text(self, at: datetime) -> str:
        """Return what the cluster's dcgm-exporters answer, all nodes in one text."""
        second = int(at.timestamp())
        readings = [
            (timeline, read_device(timeline, self.powers[timeline.gpu.uuid], second))
            for timeline in self.timelines
        ]
        return "".join(
            render_family(
                metric.family,
                [
                    Sample(
                        device_labels(timeline, timeline.at(second), metric.extra),
                        metric.value(reading),
                    )
                    for timeline, reading in readings
                    if metric.is_on_instances or not timeline.instance_id
                ],
            )
            for metric in DEVICE_METRICS
        )

    def kube_state_metrics_text(self, at: datetime, quotas: Iterable[QuotaStatus] = ()) -> str:
        """Return what kube-state-metrics answers, with the quotas the cluster has."""
        second = int(at.timestamp())
        samples: defaultdict[str, list[Sample]] = defaultdict(list)
        for span in self._spans(at, quotas):
            if span.begin <= second < span.end:
                samples[span.family].append(Sample(span.labels, span.value))
        return "".join(render_family(family, samples[name]) for name, family in FAMILIES.items())

    def _spans(self, at: datetime, quotas: Iterable[QuotaStatus]) -> Iterable[SeriesInterval]:
        for pod in self.cluster.objects(at):
            yield from pod_spans(pod, address_of(self.cluster, pod))
        for node in self.cluster.nodes:
            yield from node_spans(node)
        for namespace in self.cluster.namespaces:
            yield from namespace_spans(namespace)
        for quota in quotas:
            yield from quota_spans(quota)

"""Checks of a cluster's Prometheus: does it answer, and with what metering needs."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from django.utils import timezone

from config.doctor.clusters import ClusterFacts, clock_result
from config.doctor.findings import CheckResult, counted, listed, ok, problem, sentence, warning
from metering.adapters.prometheus import PrometheusUsageSource
from metering.adapters.prometheus.names import NODE_LABELS
from metering.adapters.prometheus_inspection import (
    DEVICES,
    DEVICES_NAMED,
    GPU_NODES,
    GPU_REQUESTS,
    OWNERS,
    POD_METRICS,
    PRODUCTS,
    PrometheusInspection,
    ScrapeStatus,
)
from metering.services.collection.composed import target_of
from metering.tasks import process_source
from tenants.domain.errors import SourceUnavailableError

PAGE: Final = "docs/how-to/connect-a-cluster.md"
DEVICES_PAGE: Final = "docs/reference/device-metrics.md"
NAMES: Final = (
    "prometheus",
    "prometheus-clock",
    "scrapes",
    "pod-series",
    "node-series",
    "device-series",
    "retention",
)
SCRAPE_SECONDS_MAX: Final = 60
RETENTION_MIN: Final = timedelta(days=30)
MARGIN: Final = timedelta(hours=3)
"""Beside the backlog: its oldest hour, what is queried around it, and a working day's start."""
_REMEDIES: Final[Mapping[str, str]] = {
    "unreachable": "Check prometheus_url, and that this host may reach it.",
    "timeout": "Check prometheus_url, and that no firewall drops the connection.",
    "unauthorized": "Put a valid token or password into the file of the credential.",
    "credentials_missing": "Put a token or password where prometheus_credential_reference says.",
    "credentials_forbidden": "Name another credential; the page says which are sent where.",
    "tls_failed": "Name its certificate authority as ca_bundle in USAGE_SOURCE_OPTIONS.",
    "bad_target": "Correct prometheus_url, selector and aliases of the cluster.",
}


def check_prometheus(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Yield what a cluster's Prometheus says; where it does not answer, no more than that."""
    source = process_source()
    if not facts.cluster.prometheus_url:
        yield _without_url(facts)
        return
    if not isinstance(source, PrometheusUsageSource):
        yield warning(
            "prometheus",
            "USAGE_SOURCE is not prometheus: nothing of it was asked.",
            "Use USAGE_SOURCE=prometheus.",
            "docs/reference/environment.md",
        )
        return
    try:
        yield from _findings(facts, PrometheusInspection(source, target_of(facts.cluster)))
    except SourceUnavailableError as error:
        yield problem(
            "prometheus",
            sentence(error),
            _REMEDIES.get(error.reason, "See its log, and the load of its host."),
            PAGE,
        )


def _without_url(facts: ClusterFacts) -> CheckResult:
    if facts.cluster.is_watched:
        return ok("prometheus", "None is set; the watch of its API alone is metered.")
    return problem(
        "prometheus",
        "The cluster has no prometheus_url and is not watched: nothing is metered.",
        "Set prometheus_url, or is_watched, or both.",
        PAGE,
    )


def _findings(facts: ClusterFacts, inspection: PrometheusInspection) -> Iterator[CheckResult]:
    status = inspection.status()
    at = timezone.now()
    scrapes, series = inspection.scrapes(at=at), inspection.series(at=at)
    version = f"version {status.version}" if status.version else "a version it does not say"
    yield ok("prometheus", f"It answers, with {version}.")
    yield clock_result("prometheus-clock", status.clock, at=at)
    yield scrape_result(scrapes, configured=facts.cluster.scrape_interval_seconds)
    yield pod_result(series)
    yield node_result(series)
    yield device_result(series)
    yield retention_result(inspection.retention(), backlog=facts.backlog)


def scrape_result(found: ScrapeStatus, *, configured: int) -> CheckResult:
    """Return whether kube-state-metrics is scraped, as often as the cluster says."""
    if not found.targets:
        return problem(
            "scrapes",
            'No target has job=~".*kube-state-metrics.*": coverage cannot be measured.',
            "Name the scrape job so, or set coverage_jobs in USAGE_SOURCE_OPTIONS.",
            PAGE,
        )
    if not found.answering:
        return problem(
            "scrapes",
            f"The last scrape of kube-state-metrics failed ({counted(found.targets, 'target')}).",
            "See the page Targets of Prometheus, and restart the exporter.",
            PAGE,
        )
    interval = found.interval_seconds or configured
    if not configured * 2 // 3 <= interval <= configured * 3 // 2:
        return problem(
            "scrapes",
            f"It is scraped every {interval} s, and the cluster says {configured} s.",
            f"Set scrape_interval_seconds of the cluster to {interval}.",
            PAGE,
        )
    if interval > SCRAPE_SECONDS_MAX:
        return warning(
            "scrapes",
            f"It is scraped every {interval} s: pods are billed that inexactly.",
            f"Scrape it every {SCRAPE_SECONDS_MAX} s or less; 30 is good.",
            PAGE,
        )
    return ok(
        "scrapes",
        f"{found.answering} of {counted(found.targets, 'target')} of kube-state-metrics answer,"
        f" every {interval} s.",
    )


def pod_result(series: Mapping[str, int]) -> CheckResult:
    """Return whether pods, their requests and users are there."""
    missing = [name for name in POD_METRICS if not series[name]]
    if missing:
        return problem(
            "pod-series",
            f"Not a single series in an hour of {listed(missing)}.",
            "Scrape kube-state-metrics with its resource pods, and check selector_label.",
            PAGE,
        )
    requests = series[GPU_REQUESTS]
    if not requests:
        return warning(
            "pod-series",
            "No pod asked for a GPU in the last hour.",
            "If some run, add the resource they ask for to the catalogue and to resources in"
            " USAGE_SOURCE_OPTIONS.",
            "docs/reference/catalogue.md",
        )
    if not series.get(OWNERS, 1):
        return warning(
            "pod-series",
            f"{counted(requests, 'container')} asked for GPUs; no pod has the label of its user.",
            "Allow user_label by --metric-labels-allowlist=pods=[...] of kube-state-metrics.",
            PAGE,
        )
    return ok("pod-series", f"{counted(requests, 'container')} asked for GPUs in an hour.")


def node_result(series: Mapping[str, int]) -> CheckResult:
    """Return whether nodes offer GPUs, and name their product."""
    nodes, named = series[GPU_NODES], series[PRODUCTS]
    if not nodes:
        return problem(
            "node-series",
            "No node offers a GPU in the last hour.",
            "Run the device plugin, and kube-state-metrics with its resource nodes.",
            PAGE,
        )
    if not named:
        has_labels = series[NODE_LABELS]
        labels = "never names nvidia.com/gpu.product" if has_labels else "is not exported"
        return problem(
            "node-series",
            f"{counted(nodes, 'node')} with GPUs, but kube_node_labels {labels}: nothing can be"
            " sized.",
            "Allow it by --metric-labels-allowlist=nodes=[*] of kube-state-metrics, and run"
            " gpu-feature-discovery.",
            PAGE,
        )
    return ok("node-series", f"{counted(nodes, 'node')} with GPUs; {named:,} name their product.")


def device_result(series: Mapping[str, int]) -> CheckResult:
    """Return whether devices are measured; no bill depends on it."""
    if not series[DEVICES]:
        return warning(
            "device-series",
            "No series of dcgm-exporter: idle GPUs, energy and health stay unknown.",
            "Scrape dcgm-exporter on every node with GPUs.",
            DEVICES_PAGE,
        )
    if not series[DEVICES_NAMED]:
        return warning(
            "device-series",
            f"{series[DEVICES]:,} series of devices have no UUID or no host name.",
            "Keep these labels in the scrape's relabelling, or set label_aliases.",
            DEVICES_PAGE,
        )
    return ok("device-series", f"{series[DEVICES_NAMED]:,} series of dcgm-exporter.")


def retention_result(kept: timedelta | None, *, backlog: timedelta) -> CheckResult:
    """Return whether samples are kept until their hours are sealed."""
    if kept is None:
        return ok("retention", "It does not say how long it keeps samples; a month is enough.")
    days, late = kept / timedelta(days=1), backlog / timedelta(hours=1)
    if kept < backlog + MARGIN:
        return problem(
            "retention",
            f"Samples are kept for {days:.1f} days, and the oldest open hour is {late:,.0f} h"
            " late: it is lost soon.",
            "Raise --storage.tsdb.retention.time now, then find out why metering is late.",
            PAGE,
        )
    if kept < RETENTION_MIN:
        return warning(
            "retention",
            f"Samples are kept for {days:.1f} days; the oldest open hour is {late:,.0f} h late.",
            "Keep them for a month or more: --storage.tsdb.retention.time=32d.",
            PAGE,
        )
    return ok("retention", f"Samples are kept for {days:.0f} days; the backlog is {late:,.0f} h.")

"""The doctor's checks of Prometheus: what is missing is named with its remedy."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import override_settings

from config.doctor import prometheus
from config.doctor.clusters import ClusterFacts
from config.doctor.findings import CheckResult
from metering.adapters.prometheus import names as known
from metering.adapters.prometheus_inspection import (
    DEVICES,
    DEVICES_NAMED,
    GPU_NODES,
    GPU_REQUESTS,
    OWNERS,
    POD_METRICS,
    PRODUCTS,
    ScrapeStatus,
)
from metering.tasks import process_source
from tenants.models import Cluster

SOUND = {
    **dict.fromkeys(POD_METRICS, 400),
    known.NODE_LABELS: 12,
    GPU_REQUESTS: 80,
    GPU_NODES: 10,
    PRODUCTS: 10,
    OWNERS: 70,
    DEVICES: 160,
    DEVICES_NAMED: 160,
}
SCRAPED = ScrapeStatus(targets=1, answering=1, interval_seconds=30, age_seconds=4)
REAL = {
    "BACKEND": "metering.adapters.prometheus.PrometheusUsageSource",
    "OPTIONS": {},
}


def series(**changes: int) -> Mapping[str, int]:
    return SOUND | changes


def scrapes(**changes: int) -> ScrapeStatus:
    return replace(SCRAPED, **changes)


def test_a_prometheus_with_everything_is_well() -> None:
    found = [
        prometheus.scrape_result(scrapes(), configured=30),
        prometheus.pod_result(series()),
        prometheus.node_result(series()),
        prometheus.device_result(series()),
        prometheus.retention_result(timedelta(days=90), backlog=timedelta(hours=1)),
    ]

    assert [(one.state, one.found) for one in found] == [
        ("ok", "1 of 1 target of kube-state-metrics answer, every 30 s."),
        ("ok", "80 containers asked for GPUs in an hour."),
        ("ok", "10 nodes with GPUs; 10 name their product."),
        ("ok", "160 series of dcgm-exporter."),
        ("ok", "Samples are kept for 90 days; the backlog is 1 h."),
    ]


@pytest.mark.parametrize(
    ("result", "state", "sentence", "remedy"),
    [
        (
            prometheus.scrape_result(scrapes(targets=0), configured=30),
            "problem",
            'No target has job=~".*kube-state-metrics.*": coverage cannot be measured.',
            "Name the scrape job so, or set coverage_jobs in USAGE_SOURCE_OPTIONS.",
        ),
        (
            prometheus.scrape_result(scrapes(answering=0), configured=30),
            "problem",
            "The last scrape of kube-state-metrics failed (1 target).",
            "See the page Targets of Prometheus, and restart the exporter.",
        ),
        (
            prometheus.scrape_result(scrapes(interval_seconds=60), configured=30),
            "problem",
            "It is scraped every 60 s, and the cluster says 30 s.",
            "Set scrape_interval_seconds of the cluster to 60.",
        ),
        (
            prometheus.scrape_result(scrapes(interval_seconds=300), configured=300),
            "warning",
            "It is scraped every 300 s: pods are billed that inexactly.",
            "Scrape it every 60 s or less; 30 is good.",
        ),
        (
            prometheus.pod_result(series(kube_pod_info=0, kube_pod_status_phase=0)),
            "problem",
            "Not a single series in an hour of kube_pod_info, kube_pod_status_phase.",
            "Scrape kube-state-metrics with its resource pods, and check selector_label.",
        ),
        (
            prometheus.node_result(series(**{PRODUCTS: 0})),
            "problem",
            (
                "10 nodes with GPUs, but kube_node_labels never names nvidia.com/gpu.product:"
                " nothing can be sized."
            ),
            (
                "Allow it by --metric-labels-allowlist=nodes=[*] of kube-state-metrics, and run"
                " gpu-feature-discovery."
            ),
        ),
        (
            prometheus.node_result(series(**{GPU_NODES: 0})),
            "problem",
            "No node offers a GPU in the last hour.",
            "Run the device plugin, and kube-state-metrics with its resource nodes.",
        ),
        (
            prometheus.device_result(series(**{DEVICES: 0})),
            "warning",
            "No series of dcgm-exporter: idle GPUs, energy and health stay unknown.",
            "Scrape dcgm-exporter on every node with GPUs.",
        ),
        (
            prometheus.device_result(series(**{DEVICES_NAMED: 0})),
            "warning",
            "160 series of devices have no UUID or no host name.",
            "Keep these labels in the scrape's relabelling, or set label_aliases.",
        ),
        (
            prometheus.retention_result(timedelta(days=2), backlog=timedelta(hours=47)),
            "problem",
            (
                "Samples are kept for 2.0 days, and the oldest open hour is 47 h late: it is lost"
                " soon."
            ),
            "Raise --storage.tsdb.retention.time now, then find out why metering is late.",
        ),
        (
            prometheus.retention_result(timedelta(days=15), backlog=timedelta()),
            "warning",
            "Samples are kept for 15.0 days; the oldest open hour is 0 h late.",
            "Keep them for a month or more: --storage.tsdb.retention.time=32d.",
        ),
    ],
)
def test_what_is_missing_is_named_with_its_remedy(
    result: CheckResult, state: str, sentence: str, remedy: str
) -> None:
    assert (result.state, result.found, result.remedy) == (state, sentence, remedy)


def test_pods_without_gpus_or_owners_are_a_warning() -> None:
    idle = prometheus.pod_result(series(**{GPU_REQUESTS: 0}))
    nameless = prometheus.pod_result(series(**{OWNERS: 0}))

    assert (idle.state, idle.found) == ("warning", "No pod asked for a GPU in the last hour.")
    assert (nameless.state, nameless.found) == (
        "warning",
        "80 containers asked for GPUs; no pod has the label of its user.",
    )
    assert nameless.remedy.startswith("Allow user_label by --metric-labels-allowlist=pods=[...]")


def asked(**fields: object) -> list[CheckResult]:
    facts = ClusterFacts(Cluster(slug="hopper", **fields), (), timedelta(), None)
    return list(prometheus.check_prometheus(facts))


def test_one_that_does_not_answer_is_one_problem() -> None:
    process_source.cache_clear()
    with override_settings(USAGE_SOURCE=REAL):
        (away,) = asked(prometheus_url="http://127.0.0.1:1")
        (unread,) = asked(
            prometheus_url="http://127.0.0.1:1", prometheus_credential_reference="file:none/token"
        )
    process_source.cache_clear()

    assert (away.state, away.found) == (
        "problem",
        "Prometheus cannot be reached.",
    )
    assert away.remedy == "Check prometheus_url, and that this host may reach it."
    assert unread.remedy == ("Put a token or password where prometheus_credential_reference says.")


def test_a_cluster_without_any_source_is_a_problem() -> None:
    (nothing,) = asked()
    (watched,) = asked(is_watched=True)

    assert (nothing.state, watched.state) == ("problem", "ok")
    assert nothing.remedy == "Set prometheus_url, or is_watched, or both."

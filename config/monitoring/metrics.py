"""Metrics of our own in Prometheus text: what an operator watches, and nothing about tenants.

Each web process counts its requests; the counts are summed over all. Gauges are queried from the
database at the scrape, so every process returns the same values.
"""

import math
import time
from collections.abc import Callable, Iterator
from datetime import datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from billing.selectors.pending import count_unaccrued_corrections, count_unaccrued_windows
from metering.selectors.allocations.watch import heartbeat_ages
from metering.selectors.collection.gauges import (
    oldest_due_window,
    open_exceptions_by_kind,
    windows_by_state,
)
from quotas.selectors.gauges import (
    counter_drift,
    interference,
    live_bypasses,
    refusals_by_code,
    reservations_by_state,
    unapplied_targets,
)
from tenants.adapters.process_counts import all_processes
from tenants.selectors.clock import clocks_off, crashes_by_event
from tenants.selectors.notifications import deliveries_given_up, oldest_undelivered_age
from tenants.selectors.report_database import ReplicaAwayError, has_replica, replica_state

PREFIX = "gpu_ledger"
SECONDS_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
UNMATCHED = "unmatched"
"""The route of requests that no URL matches, so that scanners add no series."""

PROCESS_REGISTRY = CollectorRegistry()
REQUESTS = Counter(
    f"{PREFIX}_http_requests",
    "HTTP requests answered, by method, route and status.",
    ("method", "route", "status"),
    registry=PROCESS_REGISTRY,
)
REQUEST_SECONDS = Histogram(
    f"{PREFIX}_http_request_seconds",
    "Seconds from request to answer.",
    buckets=SECONDS_BUCKETS,
    registry=PROCESS_REGISTRY,
)
ROUTE_SECONDS = Counter(
    f"{PREFIX}_http_route_seconds",
    "Seconds that requests took, added up by route; buckets of each would make scrapes slow.",
    ("route",),
    registry=PROCESS_REGISTRY,
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class MetricsPort:
    """Middleware that answers /metrics on a port of its own, and nothing else there.

    `manage.py serve` listens there too. The port is that of the socket, which no header changes.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a scrape, or let the site answer on its own port."""
        if _port_of(request) != str(settings.METRICS_PORT):
            return self.get_response(request)
        if request.path_info == "/metrics":
            return metrics(request)
        return HttpResponseNotFound()


def _port_of(request: HttpRequest) -> str:
    """Return the port that a request came in at; "" for none.

    On a Unix socket gunicorn takes SERVER_PORT from the Host header, which anybody writes.
    """
    connection = request.META.get("gunicorn.socket")
    if connection is None:
        return str(request.META.get("SERVER_PORT", ""))
    address = connection.getsockname()
    return str(address[1]) if isinstance(address, tuple) else ""


class RequestMetrics:
    """Middleware that counts every request and the seconds it took."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer, and count the answer."""
        begin = time.perf_counter()
        response = self.get_response(request)
        match = request.resolver_match
        route = match.route if match is not None else UNMATCHED
        method = request.method if request.method in METHODS else "OTHER"
        REQUESTS.labels(method, route, str(response.status_code)).inc()
        seconds = time.perf_counter() - begin
        REQUEST_SECONDS.observe(seconds)
        ROUTE_SECONDS.labels(route).inc(seconds)
        return response


class LedgerCollector(Collector):
    """The state of the ledgers, queried at the time of the scrape; see each gauge's help."""

    def __init__(self, *, at: datetime) -> None:
        """Keep the time of the scrape."""
        self.at = at

    def collect(self) -> Iterator[Metric]:
        """Yield every gauge; the number of statements does not grow with the load."""
        windows = GaugeMetricFamily(
            f"{PREFIX}_windows", "Metering windows.", labels=("cluster", "state")
        )
        for gauge in windows_by_state():
            windows.add_metric((gauge.cluster, gauge.state), gauge.windows)
        yield windows
        yield _by_label(
            "oldest_due_window_age_seconds",
            "Seconds since the oldest unsealed window fell due.",
            label="cluster",
            values=oldest_due_window(at=self.at),
        )
        yield _by_label(
            "watch_heartbeat_age_seconds",
            "Seconds since the watch of a cluster's API last reported that it is healthy.",
            label="cluster",
            values=heartbeat_ages(at=self.at),
        )
        yield _by_label(
            "open_exceptions",
            "Metering exceptions that wait for a person.",
            label="kind",
            values=open_exceptions_by_kind(),
        )
        yield from _replica()
        yield from _enforcement()
        yield from _admission()
        yield _by_label(
            "clock_offset_seconds",
            "Seconds by which the clock of a process is ahead of the database's, where over 30.",
            label="process",
            values=clocks_off(),
        )
        yield _crashes()
        yield _by_label(
            "notifications_given_up",
            "Notifications that did not arrive after the last attempt.",
            label="kind",
            values=deliveries_given_up(),
        )
        yield _by_label(
            "undelivered_notification_age_seconds",
            "Seconds since the oldest undelivered notification was written.",
            label="kind",
            values=oldest_undelivered_age(at=self.at),
        )
        yield GaugeMetricFamily(
            f"{PREFIX}_unaccrued_windows",
            "Sealed windows that are not charged in full.",
            value=count_unaccrued_windows(),
        )
        yield GaugeMetricFamily(
            f"{PREFIX}_unaccrued_corrections",
            "Posted usage corrections that are not charged in full.",
            value=count_unaccrued_corrections(),
        )


def _crashes() -> Metric:
    family = CounterMetricFamily(
        f"{PREFIX}_sweep_crashes",
        "Items of sweeps, and tasks, that ended in an unexpected error.",
        labels=("event",),
    )
    for event, count in crashes_by_event().items():
        family.add_metric((event,), count)
    return family


def _replica() -> Iterator[Metric]:
    """Yield how far the replica is behind, where there is one; infinity where it is away."""
    lag = GaugeMetricFamily(
        f"{PREFIX}_replica_lag_seconds",
        "Seconds by which the replica for reports is behind; infinity where it is away.",
    )
    limit = GaugeMetricFamily(
        f"{PREFIX}_replica_lag_max_seconds",
        "Lag from which reports are read from the primary instead.",
    )
    if has_replica():
        try:
            lag.add_metric((), replica_state().lag.total_seconds())
        except ReplicaAwayError:
            lag.add_metric((), math.inf)
        limit.add_metric((), settings.REPLICA_LAG_SECONDS_MAX)
    yield lag
    yield limit


def _enforcement() -> Iterator[Metric]:
    yield _by_label(
        "unapplied_enforcement_targets",
        "Namespaces whose quota is not yet true in their cluster.",
        label="cluster",
        values=unapplied_targets(),
    )
    others = interference()
    yield _by_label(
        "quota_drifts_repaired",
        "Quotas that were changed or deleted in the cluster, and that were repaired.",
        label="cluster",
        values={slug: one.drifts_repaired for slug, one in others.items()},
    )
    yield _by_label(
        "namespaces_with_foreign_quotas",
        "Namespaces in which another manager keeps a quota of GPU resources too.",
        label="cluster",
        values={
            slug: one.foreign_namespaces for slug, one in others.items() if one.foreign_namespaces
        },
    )


def _admission() -> Iterator[Metric]:
    reservations = GaugeMetricFamily(
        f"{PREFIX}_reservations", "Reservations that count now.", labels=("cluster", "state")
    )
    for labels, count in reservations_by_state().items():
        reservations.add_metric(labels, count)
    yield reservations
    yield _by_label(
        "admission_bypasses",
        "Pods that hold units and were never admitted, of clusters that admit.",
        label="cluster",
        values=live_bypasses(),
    )
    yield GaugeMetricFamily(
        f"{PREFIX}_quota_counter_drift_units",
        "Units by which counters were off when they were last compared with their reservations.",
        value=counter_drift(),
    )
    refusals = CounterMetricFamily(
        f"{PREFIX}_admission_refusals", "Pods that were refused.", labels=("code",)
    )
    for code, count in refusals_by_code().items():
        refusals.add_metric((code,), count)
    yield refusals


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's own signature.
    """Answer a scrape."""
    gauges = CollectorRegistry()
    gauges.register(_Described(LedgerCollector(at=timezone.now())))
    text = generate_latest(all_processes(PROCESS_REGISTRY)) + generate_latest(gauges)
    return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


class _Described(Collector):
    """Keeps the registry from collecting once more only to learn the names."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self.collector.collect()


def _by_label(name: str, text: str, *, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family

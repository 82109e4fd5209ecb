"""Metrics of the webhooks, counted per process and summed where processes share a directory."""

from functools import lru_cache

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from tenants.adapters.process_counts import all_processes

NANOSECONDS = 1_000_000_000
REGISTRY = CollectorRegistry()
ANSWERS = Counter(
    "gpu_ledger_admission_answers",
    "Answers to API servers, by cluster, endpoint and reason.",
    ("cluster", "endpoint", "reason"),
    registry=REGISTRY,
)
SECONDS = Histogram(
    "gpu_ledger_admission_seconds",
    "Seconds from question to answer, by endpoint.",
    ("endpoint",),
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
    registry=REGISTRY,
)


UNSELECTED = Gauge(
    "gpu_ledger_admission_unselected_namespaces",
    "Namespaces of projects that the applied webhook configuration leaves out, by cluster.",
    ("cluster",),
    registry=REGISTRY,
    multiprocess_mode="livemax",
)


def count_unselected(cluster: str, namespaces: int) -> None:
    """Note how many namespaces of projects the applied configuration leaves out."""
    UNSELECTED.labels(cluster).set(namespaces)


def count_answer(cluster: str, endpoint: str, reason: str, *, nanoseconds: int) -> None:
    """Count an answer, and how long it took.

    Args:
        cluster: Slug of a known cluster.
        endpoint: The called webhook.
        reason: Reason of the answer, from a fixed set.
        nanoseconds: From the request to the answer.
    """
    _answers(cluster, endpoint, reason).inc()
    _seconds(endpoint).observe(nanoseconds / NANOSECONDS)


@lru_cache(maxsize=10_000)
def _answers(cluster: str, endpoint: str, reason: str) -> Counter:
    return ANSWERS.labels(cluster, endpoint, reason)


@lru_cache(maxsize=10)
def _seconds(endpoint: str) -> Histogram:
    return SECONDS.labels(endpoint)


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's own signature.
    """Answer a scrape."""
    return HttpResponse(generate_latest(all_processes(REGISTRY)), content_type=CONTENT_TYPE_LATEST)

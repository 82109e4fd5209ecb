"""The doctor beside a Prometheus on this machine that answers well, badly, late or to nobody."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from pytest_django import Settings

from config.doctor.clusters import ClusterFacts
from config.doctor.findings import CheckResult
from config.doctor.prometheus import NAMES, check_prometheus
from metering.adapters.prometheus import names as known
from metering.adapters.prometheus_inspection import (
    DEVICES,
    DEVICES_NAMED,
    GPU_NODES,
    GPU_REQUESTS,
    OWNERS,
    POD_METRICS,
    PRODUCTS,
)
from metering.tasks import process_source
from tenants.models import Cluster

COUNTED = (
    *POD_METRICS,
    known.NODE_LABELS,
    GPU_REQUESTS,
    GPU_NODES,
    PRODUCTS,
    OWNERS,
    DEVICES,
    DEVICES_NAMED,
)
REAL = {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}


@dataclass
class Answering:
    """What a server answers.

    Attributes:
        statuses: By path; 200 for others.
        missing: Series that it does not have.
        every: Seconds between two scrapes.
        off: Seconds that its clock is ahead.
    """

    statuses: Mapping[str, int] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()
    every: int = 30
    off: int = 0
    retention: str = "90d"
    asked: list[str] = field(default_factory=list)

    def document(self, path: str, query: str) -> dict[str, Any]:
        if path.endswith("/buildinfo"):
            return {"version": "3.8.0"}
        if path.endswith("/runtimeinfo"):
            return {"storageRetention": self.retention}
        if query.startswith("label_replace("):
            rows = [
                {"metric": {"answer": name}, "value": [0, "0" if name in self.missing else "7"]}
                for name in COUNTED
                if f'"{name}"' in query
            ]
            return {"resultType": "vector", "result": rows}
        now = int(time.time())
        times = range(now - 3000, now, self.every)
        labels = {"__name__": "up", "job": "kube-state-metrics", "instance": "10.0.0.9:8080"}
        row = {"metric": labels, "values": [[at, "1"] for at in times]}
        return {"resultType": "matrix", "result": [row]}


@contextmanager
def serving(answering: Answering) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query).get("query", [""])[0]
            answering.asked.append(parts.path)
            data = answering.document(parts.path, query)
            body = json.dumps({"status": "success", "data": data}).encode()
            self.send_response(answering.statuses.get(parts.path, 200))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def date_time_string(self, timestamp: float | None = None) -> str:
            moment = time.time() if timestamp is None else timestamp
            return super().date_time_string(int(moment) + answering.off)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def real_source(settings: Settings) -> Iterator[None]:
    process_source.cache_clear()
    settings.USAGE_SOURCE = REAL
    yield
    process_source.cache_clear()


def found_in(answering: Answering, **fields: object) -> dict[str, CheckResult]:
    given = {"user_label": "billing_example_com_user", "scrape_interval_seconds": 30, **fields}
    with serving(answering) as url:
        cluster = Cluster(slug="hopper", prometheus_url=url, **given)
        facts = ClusterFacts(cluster, (), timedelta(hours=2), None)
        return {result.check: result for result in check_prometheus(facts)}


def test_a_whole_prometheus_is_well_in_every_check() -> None:
    found = found_in(Answering())

    assert tuple(found) == NAMES
    assert {one.state for one in found.values()} == {"ok"}
    assert found["prometheus"].found == "It answers, with version 3.8.0."
    assert found["scrapes"].found == ("1 of 1 target of kube-state-metrics answer, every 30 s.")
    assert found["retention"].found == "Samples are kept for 90 days; the backlog is 2 h."


def test_another_server_without_version_and_retention_is_well() -> None:
    unknown = {"/api/v1/status/buildinfo": 404, "/api/v1/status/runtimeinfo": 404}

    found = found_in(Answering(statuses=unknown))

    assert found["prometheus"].found == "It answers, with a version it does not say."
    assert found["retention"].found == (
        "It does not say how long it keeps samples; a month is enough."
    )


@pytest.mark.parametrize(
    ("missing", "check", "state"),
    [
        (known.POD_INFO, "pod-series", "problem"),
        (known.SCHEDULED, "pod-series", "problem"),
        (GPU_REQUESTS, "pod-series", "warning"),
        (OWNERS, "pod-series", "warning"),
        (GPU_NODES, "node-series", "problem"),
        (PRODUCTS, "node-series", "problem"),
        (DEVICES, "device-series", "warning"),
        (DEVICES_NAMED, "device-series", "warning"),
    ],
)
def test_each_missing_series_is_found_by_its_check_alone(
    missing: str, check: str, state: str
) -> None:
    found = found_in(Answering(missing=frozenset({missing})))

    assert [(name, one.state.value) for name, one in found.items() if one.state != "ok"] == [
        (check, state)
    ]


def test_labels_of_users_are_not_missed_where_a_cluster_names_none() -> None:
    found = found_in(Answering(missing=frozenset({OWNERS})), user_label="")

    assert found["pod-series"].state == "ok"


def test_a_clock_and_an_interval_that_differ_are_problems() -> None:
    found = found_in(Answering(off=900, every=60))

    assert found["prometheus-clock"].state == "problem"
    assert found["prometheus-clock"].remedy == "Let NTP keep the clocks of all hosts."
    assert found["scrapes"].found == "It is scraped every 60 s, and the cluster says 30 s."


def test_a_retention_below_the_backlog_is_a_problem() -> None:
    found = found_in(Answering(retention="4h"))

    assert found["retention"].state == "problem"
    assert found["retention"].found == (
        "Samples are kept for 0.2 days, and the oldest open hour is 2 h late: it is lost soon."
    )


@pytest.mark.parametrize(
    ("status", "path", "sentence", "remedy"),
    [
        (
            401,
            "/api/v1/status/buildinfo",
            "Prometheus answered with HTTP status 401.",
            "Put a valid token or password into the file of the credential.",
        ),
        (
            500,
            "/api/v1/query",
            "Prometheus answered with HTTP status 500.",
            "See its log, and the load of its host.",
        ),
        (
            302,
            "/api/v1/status/buildinfo",
            "Prometheus answered with HTTP status 302.",
            "See its log, and the load of its host.",
        ),
    ],
)
def test_one_that_refuses_is_one_problem(
    status: int, path: str, sentence: str, remedy: str
) -> None:
    answering = Answering(statuses={path: status})

    found = found_in(answering)

    assert list(found) == ["prometheus"]
    assert (found["prometheus"].state, found["prometheus"].found) == ("problem", sentence)
    assert found["prometheus"].remedy == remedy


def test_series_are_asked_for_in_two_queries() -> None:
    answering = Answering()
    found_in(answering)

    assert answering.asked.count("/api/v1/query") == 2

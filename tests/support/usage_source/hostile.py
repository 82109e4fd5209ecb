"""Hostile set-ups as a real Prometheus keeps them: who was scraped when, and which pods it showed.

Every set-up is one cluster of one Prometheus, distinguished by its `cluster` label. Times are whole
seconds from `BEGIN`, on the clock of the Kubernetes API.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests

from metering.protocols import ClusterTarget
from simulator.cluster.exporters.prometheus_text import render_labels
from tests.support.metering.seen import WHOLE_H100

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
HOUR = 3600
SCRAPE = 60
UNTIL = 6 * HOUR
ALWAYS = ((0, UNTIL),)
Row = dict[str, Any]


def moment(seconds: int) -> datetime:
    """Return the time so many seconds after `BEGIN`."""
    return BEGIN + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Pod:
    """One pod of whole GPUs or, of 0, of none; `gone_at` is when its object was deleted."""

    uid: str
    bound_at: int = 0
    gone_at: int = UNTIL * 2
    name: str = ""
    namespace: str = "team-nlp"
    node: str = "node-1"
    units: int = 1
    created_late: int = 0
    """How many seconds after its bind it is said to have been created."""

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        """Return what each of its series carries."""
        name = self.name or f"pod-{self.uid}"
        return (("namespace", self.namespace), ("pod", name), ("uid", self.uid))


@dataclass(frozen=True)
class Exporter:
    """One target of kube-state-metrics as one Prometheus scrapes it.

    Attributes:
        up: Spans in which it answers; outside of them it has no `up` at all.
        down: Spans in which it is a target and does not answer.
        shows: Whether it shows a pod at a moment, while the pod is there.
        nodes: The nodes it shows.
        shard: Its ordinal and how many shards it knows of; None where its own metrics are not
            scraped.
        labels: Further labels of the target.
        offset: The second of each minute at which it is scraped.
        ahead: Seconds by which the clock of this Prometheus is ahead of the API's.
    """

    instance: str
    up: Sequence[tuple[int, int]] = ALWAYS
    down: Sequence[tuple[int, int]] = ()
    shows: Callable[[Pod, int], bool] = lambda *_: True
    nodes: Sequence[str] = ("node-1",)
    shard: tuple[int, int] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    offset: int = 0
    ahead: int = 0


@dataclass(frozen=True)
class Setup:
    """One cluster: what truly happened, and who was scraped."""

    slug: str
    pods: Sequence[Pod]
    exporters: Sequence[Exporter]

    def target(self, url: str) -> ClusterTarget:
        """Return the cluster as metering knows it."""
        return ClusterTarget(
            slug=self.slug,
            prometheus_url=url,
            scrape_interval_seconds=SCRAPE,
            selector_label="cluster",
            selector_value=self.slug,
        )

    def true_seconds(self, hour: int) -> dict[str, int]:
        """Return for how long each pod held its GPU in an hour, those that did not left out."""
        begin, end = hour * HOUR, (hour + 1) * HOUR
        held = {
            pod.uid: max(0, min(pod.gone_at, end) - max(pod.bound_at, begin)) for pod in self.pods
        }
        return {uid: seconds for uid, seconds in held.items() if seconds}


def write_history(setups: Iterable[Setup], path: Path) -> None:
    """Write what Prometheus would hold of all set-ups, as OpenMetrics text."""
    families: dict[str, list[str]] = defaultdict(list)
    for setup in setups:
        for exporter in setup.exporters:
            for name, line in _lines(setup, exporter):
                families[name].append(line)
    with path.open("w", encoding="utf-8") as out:
        for name, lines in families.items():
            out.write(f"# TYPE {name} gauge\n")
            out.writelines(lines)
        out.write("# EOF\n")


def _lines(setup: Setup, exporter: Exporter) -> Iterator[tuple[str, str]]:
    place = (
        ("cluster", setup.slug),
        ("instance", exporter.instance),
        ("job", "kube-state-metrics"),
        *exporter.labels.items(),
    )
    for at in range(exporter.offset, UNTIL, SCRAPE):
        is_up, is_down = covers(exporter.up, at), covers(exporter.down, at)
        if is_up or is_down:
            yield _line("up", place, int(is_up), at + exporter.ahead)
        if is_up:
            for name, labels, value in _shown(setup, exporter, at):
                yield _line(name, (*labels, *place), value, at + exporter.ahead)


def _shown(
    setup: Setup, exporter: Exporter, at: int
) -> Iterator[tuple[str, tuple[tuple[str, str], ...], int]]:
    begin = int(BEGIN.timestamp())
    for pod in setup.pods:
        if pod.bound_at <= at < pod.gone_at and exporter.shows(pod, at):
            asked = (("container", "main"), ("node", pod.node), ("resource", "nvidia_com_gpu"))
            if pod.units:
                yield (
                    "kube_pod_container_resource_requests",
                    (*pod.identity, *asked, ("unit", "integer")),
                    pod.units,
                )
            yield "kube_pod_info", (*pod.identity, ("node", pod.node)), 1
            yield "kube_pod_created", pod.identity, begin + pod.bound_at + pod.created_late
            yield "kube_pod_status_scheduled_time", pod.identity, begin + pod.bound_at
    for node in exporter.nodes:
        labels = tuple((f"label_{key}", value) for key, value in WHOLE_H100.items())
        yield "kube_node_labels", (("node", node), *labels), 1
        offer = (("node", node), ("resource", "nvidia_com_gpu"), ("unit", "integer"))
        yield "kube_node_status_allocatable", offer, 64
    if exporter.shard is not None:
        ordinal, total = exporter.shard
        yield "kube_state_metrics_total_shards", (), total
        yield "kube_state_metrics_shard_ordinal", (("shard_ordinal", str(ordinal)),), ordinal


def _line(name: str, labels: tuple[tuple[str, str], ...], value: int, at: int) -> tuple[str, str]:
    return name, f"{name}{{{_rendered(labels)}}} {value} {_BEGIN_SECONDS + at}\n"


_BEGIN_SECONDS = int(BEGIN.timestamp())
_rendered = lru_cache(maxsize=10_000)(render_labels)
"""A series has the same labels in each of 360 scrapes."""


def covers(spans: Sequence[tuple[int, int]], at: int) -> bool:
    """Whether some span holds a moment."""
    return any(begin <= at < end for begin, end in spans)


@dataclass
class Proxy:
    """A proxy in front of Prometheus that may damage answers; quiet about it, as some are.

    Attributes:
        url: Its own base URL.
        damage: What it makes of the rows of an answer to a query.
        asked: The queries that came through.
    """

    upstream: str
    url: str = ""
    damage: Callable[[str, list[Row]], list[Row]] = lambda _, rows: rows
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Pass a request on and return status and body of what is handed back."""
        found = requests.get(f"{self.upstream}{path}", timeout=30)
        parts = urlsplit(path)
        if parts.path != "/api/v1/query" or not found.ok:
            return found.status_code, found.content
        query = parse_qs(parts.query)["query"][0]
        self.asked.append(query)
        payload = found.json()
        payload["data"]["result"] = self.damage(query, payload["data"]["result"])
        return found.status_code, json.dumps(payload).encode()


@contextmanager
def proxy_to(upstream: str) -> Iterator[Proxy]:
    """Serve a proxy on a free port."""
    proxy = Proxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, body = proxy.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def every_other(rows: list[Row]) -> list[Row]:
    """Return half the rows, and `up`: an answer without it is refused for that alone."""
    return [
        row
        for position, row in enumerate(rows)
        if position % 2 == 0 or row["metric"].get("__name__") == "up"
    ]

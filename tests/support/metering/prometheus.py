"""A server on 127.0.0.1 that answers as a Prometheus might, well or badly; and rows to answer with.

It understands no PromQL: it shows the queries of the source apart by their shape, and keeps what it
was asked.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from metering.adapters.prometheus import PrometheusUsageSource
from metering.protocols import ClusterTarget, DeviceFigures, Observation
from tests.support.metering.aggregating import aggregate, is_aggregating

HOUR = datetime(2026, 10, 1, 10, tzinfo=UTC)
START = int(HOUR.timestamp())
END = START + 3600
SCRAPE = 60
ASKED = END + 600
"""Time of the query at a scrape of 60 s."""
FIRST = START - 4 * SCRAPE
"""Left edge of the range at a scrape of 60 s."""
KSM = {"job": "kube-state-metrics", "instance": "10.0.0.9:8080"}
DCGM = {
    "job": "dcgm-exporter",
    "instance": "10.0.0.7:9400",
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-7hx2p",
    "container": "nvidia-dcgm-exporter",
}
ASKED_AFTER: dict[str, datetime] = {
    "start_at": HOUR,
    "end_at": HOUR + timedelta(hours=1),
    "as_of": HOUR + timedelta(hours=2),
}
"""The hour as it is asked about, an hour after its end."""
EDGE = '{__name__=~"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION'
Row = dict[str, Any]


def grid(begin: int = FIRST + SCRAPE, end: int = ASKED, step: int = SCRAPE) -> list[int]:
    """Return the seconds of a scrape every minute, both ends included."""
    return list(range(begin, end + 1, step))


def raw(
    metric: str, labels: Mapping[str, str], value: str = "1", times: Sequence[float] | None = None
) -> Row:
    """Return a series of a matrix with one value throughout."""
    at = grid() if times is None else times
    return {"metric": {"__name__": metric, **labels}, "values": [[one, value] for one in at]}


def last(metric: str, labels: Mapping[str, str], value: str = "1", at: int = ASKED) -> Row:
    """Return a row of a vector."""
    return {"metric": {"__name__": metric, **labels}, "value": [at, value]}


def answer(rows: Sequence[Row], kind: str, **extra: object) -> dict[str, Any]:
    """Return a whole answer."""
    return {"status": "success", "data": {"resultType": kind, "result": list(rows)}, **extra}


@dataclass(frozen=True)
class Reply:
    """One HTTP answer.

    Attributes:
        length: Overrides Content-Length, so that a body can break off.
        silence_seconds: Waited before the headers.
        pause_seconds: Waited before the body.
    """

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    silence_seconds: float = 0
    pause_seconds: float = 0


@dataclass
class World:
    """What the queries answer: rows, or a Reply in the place of the whole answer."""

    observations: list[Row] | Reply = field(default_factory=list)
    facts: list[Row] | Reply = field(default_factory=list)
    exporters: list[Row] | Reply = field(default_factory=list)
    devices: list[Row] | Reply = field(default_factory=list)
    figures: list[Row] | Reply = field(default_factory=list)
    details: list[Row] | Reply = field(default_factory=list)
    health: list[Row] | Reply = field(default_factory=list)
    counts: list[Row] | Reply | None = None
    """None counts the rows of the others."""
    targets: list[Row] | Reply = field(default_factory=list)
    """Of the last day; a row that counts them is added."""
    handovers: list[Row] | Reply = field(default_factory=list)
    is_closed: bool = True
    """Whether a range includes its left edge, as in Prometheus 2."""
    device_series: int = 0
    """What Prometheus counts of devices' series."""
    asked: list[dict[str, str]] = field(default_factory=list)
    heard: list[dict[str, str]] = field(default_factory=list)
    """Headers of each query."""

    def reply(self, parameters: dict[str, str]) -> Reply:
        """Answer one query and remember it."""
        self.asked.append(parameters)
        query = parameters["query"]
        if is_aggregating(query):
            found, kind = self.aggregate(query, parameters["time"]), "vector"
        elif query.startswith(EDGE):
            found, kind = self._edge(parameters), "matrix"
        else:
            found, kind = self._prove(query) if "count" in query else self._find(query)
        if isinstance(found, Reply):
            return found
        return Reply(json.dumps(answer(found, kind)).encode())

    def aggregate(self, query: str, time: str) -> list[Row] | Reply:
        """Answer a query of aggregates of devices."""
        if isinstance(self.devices, Reply):
            return self.devices
        figures = [] if isinstance(self.figures, Reply) else self.figures
        rows = [*self.devices, *figures]
        return aggregate(query, round(float(time)), rows, is_closed=self.is_closed)

    def _edge(self, parameters: Mapping[str, str]) -> list[Row] | Reply:
        """Answer a query of the counter's samples around one edge of the hour."""
        if isinstance(self.devices, Reply):
            return self.devices
        until = round(float(parameters["time"]))
        since = (
            until
            - int(parameters["query"].rpartition("[")[2].rstrip("s]"))
            + (not self.is_closed) / 1000
        )
        cut = [
            {**row, "values": [one for one in row["values"] if since <= one[0] <= until]}
            for row in self.devices
            if row["metric"]["__name__"] in parameters["query"]
        ]
        return [row for row in cut if row["values"]]

    def _find(self, query: str) -> tuple[list[Row] | Reply, str]:
        if "last_over_time" in query:
            return self.exporters if "on (job,instance)" in query else self.facts, "vector"
        if "> 0" in query:
            return self.health, "matrix"
        if "DCGM_FI_DEV_FB_USED" in query:
            return self.figures, "matrix"
        if "DCGM" in query:
            return self.devices, "matrix"
        if "phase=" in query:
            return _rows_named_in(query, self.details), "matrix"
        return self.observations, "matrix"

    def _prove(self, query: str) -> tuple[list[Row] | Reply, str]:
        """Answer one of the queries that show whether all of it was there."""
        if " offset " in query:
            return self.handovers, "vector"
        if "timestamp(" in query:
            found = self.targets
            rows = _rows_in(found)
            counted = {"metric": {"answer": "targets"}, "value": [ASKED, str(rows)]}
            return [*found, counted] if isinstance(found, list) else found, "vector"
        return self._count(query), "vector"

    def _count(self, query: str) -> list[Row] | Reply:
        answers = {"observations": self.observations, "facts": self.facts, "details": self.details}
        if query.startswith("count("):
            return [last("", {}, str(self.device_series))]
        rows = [
            {"metric": {"answer": name}, "value": [ASKED, str(_rows_in(found))]}
            for name, found in answers.items()
            if f'"{name}"' in query
        ]
        return rows if self.counts is None else self.counts


def _rows_named_in(query: str, found: list[Row] | Reply) -> list[Row] | Reply:
    """Return the rows of the metrics that a query names."""
    if isinstance(found, Reply):
        return found
    return [row for row in found if row["metric"]["__name__"] in query]


def _rows_in(found: list[Row] | Reply) -> int:
    if isinstance(found, list):
        return len(found)
    try:
        return len(json.loads(found.body)["data"]["result"])
    except (ValueError, KeyError, TypeError):
        return 0


@contextmanager
def serving(world: World) -> Iterator[str]:
    """Serve a world and yield its base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            world.heard.append(dict(self.headers.items()))
            reply = world.reply({key: values[0] for key, values in query.items()})
            time.sleep(reply.silence_seconds)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            length = len(reply.body) if reply.length is None else reply.length
            self.send_header("Content-Length", str(length))
            with suppress(ConnectionError):
                self.end_headers()
            time.sleep(reply.pause_seconds)
            # Who gave up waiting has gone by now.
            with suppress(ConnectionError):
                self.wfile.write(reply.body)
            if length != len(reply.body):
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def observe(world: World, **target: Any) -> Observation:  # noqa: ANN401 - Any field.
    """Return what the source makes of a world, for one hour at a scrape of 60 s."""
    with serving(world) as url:
        return PrometheusUsageSource().observe(target_of(url, **target), **ASKED_AFTER)


def observe_devices(world: World, **target: Any) -> DeviceFigures:  # noqa: ANN401 - As above.
    """Return what the source makes of a world's devices, for the same hour."""
    with serving(world) as url:
        return PrometheusUsageSource().observe_devices(target_of(url, **target), **ASKED_AFTER)


def target_of(url: str, **target: Any) -> ClusterTarget:  # noqa: ANN401 - Any field.
    """Return a cluster that is scraped every 60 s."""
    settings: dict[str, Any] = {
        "slug": "hopper",
        "prometheus_url": url,
        "scrape_interval_seconds": SCRAPE,
    }
    return ClusterTarget(**(settings | target))


def identity(name: str = "llm-train-0", uid: str = "7c1f2a3b") -> dict[str, str]:
    """Return what every series of one pod carries."""
    return {"namespace": "team-nlp", "pod": name, "uid": uid, **KSM}


def request(
    pod: Mapping[str, str],
    units: str = "1",
    *,
    container: str = "trainer",
    resource: str = "nvidia_com_gpu",
    node: str = "gpu-h100-01",
    times: Sequence[float] | None = None,
) -> Row:
    """Return a container's request as a observation."""
    labels = {**pod, "container": container, "resource": resource, "unit": "integer"}
    if node:
        labels["node"] = node
    return raw("kube_pod_container_resource_requests", labels, units, times)


def facts_of(
    pod: Mapping[str, str], *, scheduled: int | None = START - 7200, node: str = "gpu-h100-01"
) -> list[Row]:
    """Return what instant answers say of a running pod."""
    place = {"node": node} if node else {}
    rows = [last("kube_pod_info", {**pod, **place, "priority_class": "gpu-standard"})]
    if scheduled is not None:
        rows.append(last("kube_pod_status_scheduled_time", pod, str(scheduled)))
    return rows


def up(times: Sequence[float] | None = None, value: str = "1", instance: str = "") -> Row:
    """Return `up` of kube-state-metrics."""
    return raw("up", {**KSM, **({"instance": instance} if instance else {})}, value, times)


def sound_world() -> World:
    """Return a world with one running pod on one node, every scrape in place."""
    pod = identity()
    node = {"node": "gpu-h100-01", **KSM}
    return World(
        observations=[
            up(),
            request(pod),
            raw(
                "kube_node_status_allocatable",
                {**node, "resource": "nvidia_com_gpu", "unit": "integer"},
                "8",
            ),
        ],
        facts=[
            *facts_of(pod),
            last(
                "kube_node_labels",
                {**node, "label_nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3"},
            ),
        ],
        devices=[
            raw(
                "DCGM_FI_DEV_GPU_UTIL",
                {
                    **DCGM,
                    "UUID": "GPU-4a7b",
                    "hostname": "gpu-h100-01",
                    "modelName": "NVIDIA H100 80GB HBM3",
                    "exported_namespace": "team-nlp",
                    "exported_pod": "llm-train-0",
                },
                "98",
                grid(START - 2 * SCRAPE, END + 2 * SCRAPE),
            )
        ],
    )

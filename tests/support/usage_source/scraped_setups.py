"""Scraped set-ups: which target of an exporter answered when, which pods it carried, and a worker.

Each set-up is one cluster of a shared, real Prometheus, distinguished by the label `cluster`. Times
are seconds from `HOUR`.
"""

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from embedded.programs import end_stale
from embedded.prometheus import EmbeddedPrometheus
from metering.adapters.prometheus import PrometheusUsageSource
from metering.domain.collection.windows import GapPolicy
from metering.models import MeteringException, MeteringWindow, UsageRecord
from metering.services.collection.hour_decisions import decide_window
from metering.services.collection.sweeping import Worker, meter_due
from simulator.cluster.exporters.prometheus_text import render_labels
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import ACTOR, WHOLE_H100

HOUR = datetime(2026, 10, 1, 10, tzinfo=UTC)
START = int(HOUR.timestamp())
BEGIN, END = -1800, 12_600
SCRAPE = 30
ALWAYS = ((BEGIN, END),)
NODE = "gpu-h100-01"
Times = Sequence[tuple[int, int]]
Labels = dict[str, str]


@dataclass(frozen=True)
class Target:
    """One address of the exporter: when it answered, and when it did not though it was scraped."""

    name: str
    up: Times = ALWAYS
    down: Times = ()
    late: int = 0
    replica: str = ""

    def scrapes(self, within: Times, begin: int = BEGIN, end: int = END) -> list[int]:
        """Return the scrapes in some times and in [begin, end)."""
        due = range(BEGIN + self.late, END, SCRAPE)
        return [at for at in due if begin <= at < end and any(a <= at < b for a, b in within)]


@dataclass(frozen=True)
class Pod:
    """A pod of one GPU, and which targets carry it; without any, all do."""

    name: str
    bound: int = -1200
    gone: int = END
    on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setup:
    """One cluster: its series, as Prometheus keeps them."""

    slug: str
    rows: list[tuple[str, Labels, str, Sequence[int]]] = field(default_factory=list)

    def add(
        self, metric: str, labels: Labels, target: Target, times: Sequence[int], *, value: str = "1"
    ) -> None:
        """Add samples of one value that a target carried."""
        place = {"cluster": self.slug, "job": "kube-state-metrics", "instance": target.name}
        copy = {"replica": target.replica} if target.replica else {}
        self.rows.append((metric, {**labels, **place, **copy}, value, times))


def scraped(
    slug: str, targets: Sequence[Target], *pods: Pod, nodes_on: Sequence[str] = ()
) -> Setup:
    """Return what Prometheus keeps of some pods and a node of eight GPUs."""
    setup = Setup(slug)
    for target in targets:
        spans = [(span, "1") for span in target.up] + [(span, "0") for span in target.down]
        for span, value in sorted(spans):
            setup.add("up", {}, target, target.scrapes([span]), value=value)
        if not nodes_on or target.name in nodes_on:
            _add_node(setup, target)
        for pod in pods:
            if not pod.on or target.name in pod.on:
                _add_pod(setup, pod, target)
    return setup


def _add_node(setup: Setup, target: Target) -> None:
    times = target.scrapes(target.up)
    offer = {"node": NODE, "resource": "nvidia_com_gpu", "unit": "integer"}
    labels = {f"label_{key}": text for key, text in WHOLE_H100.items()}
    setup.add("kube_node_status_allocatable", offer, target, times, value="8")
    setup.add("kube_node_labels", {"node": NODE, **labels}, target, times)


def _add_pod(setup: Setup, pod: Pod, target: Target) -> None:
    times = target.scrapes(target.up, pod.bound, pod.gone)
    identity = {"namespace": "team-nlp", "pod": pod.name, "uid": pod.name}
    asked = {"node": NODE, "container": "main", "resource": "nvidia_com_gpu", "unit": "integer"}
    requests = "kube_pod_container_resource_requests"
    setup.add(requests, {**identity, **asked}, target, times)
    setup.add("kube_pod_info", {**identity, "node": NODE}, target, times)
    setup.add(
        "kube_pod_status_scheduled_time", identity, target, times, value=str(START + pod.bound)
    )


def away(begin: int, end: int) -> Times:
    """Return all times but one."""
    return ((BEGIN, begin), (end, END))


@contextmanager
def serving(setups: Iterable[Setup], programs: Path) -> Iterator[str]:
    """Run a Prometheus that holds these set-ups, and yield its URL."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs)
    try:
        text = server.folder / "history.txt"
        text.write_text(_openmetrics(setups), encoding="utf-8")
        server.account.own(text)
        server.import_openmetrics(text, name="scraped")
        server.start()
        yield server.url()
    finally:
        server.stop()
        end_stale(folder)
        shutil.rmtree(folder)


def _openmetrics(setups: Iterable[Setup]) -> str:
    families: dict[str, list[str]] = defaultdict(list)
    for metric, labels, value, times in (row for setup in setups for row in setup.rows):
        series = f"{metric}{{{render_labels(tuple(labels.items()))}}} {value}"
        families[metric] += [f"{series} {START + second}\n" for second in times]
    parts = (f"# TYPE {name} gauge\n" + "".join(lines) for name, lines in families.items())
    return "".join(parts) + "# EOF\n"


class Case:
    """A set-up that a worker meters long after it happened, so that no gap is retried first."""

    def __init__(self, setup: Setup, url: str, *, hours: int = 1) -> None:
        """Meter so many hours from `HOUR` on; the one namespace is bound."""
        cluster = make_cluster(
            setup.slug,
            prometheus_url=url,
            selector_label="cluster",
            selector_value=setup.slug,
            scrape_interval_seconds=SCRAPE,
            metered_from=HOUR,
            closed_at=HOUR + timedelta(hours=hours),
        )
        bind(cluster, "team-nlp", make_project(make_organization()))
        self.worker = Worker(name="w", source=PrometheusUsageSource(), actor=ACTOR)
        self.at = HOUR + timedelta(days=2)

    def meter(self) -> list[str]:
        """Meter what is due; return the states of the hours."""
        meter_due(worker=self.worker, at=self.at)
        return list(MeteringWindow.objects.order_by("start_at").values_list("state", flat=True))

    def decide(self, decision: GapPolicy, *, hour: int = 0) -> list[str]:
        """Decide on an hour and meter it; return the states of the hours."""
        window = MeteringWindow.objects.get(start_at=HOUR + timedelta(hours=hour))
        decide_window(
            window_id=window.pk, decision=decision, note="Known.", actor=ACTOR, at=self.at
        )
        return self.meter()

    def billed(self, hour: int = 0) -> dict[str, int]:
        """Return the unit-seconds of an hour by pod, corrections included."""
        found: dict[str, int] = defaultdict(int)
        rows = UsageRecord.objects.filter(window_start=HOUR + timedelta(hours=hour))
        for name, seconds in rows.values_list("pod_name", "unit_seconds"):
            found[name] += seconds
        return dict(found)

    def open(self) -> list[tuple[str, str]]:
        """Return kind and subject of the open exceptions."""
        rows = MeteringException.objects.filter(state="open").order_by("kind", "subject")
        return list(rows.values_list("kind", "subject"))

    def summary(self) -> str:
        """Return the sentence of the one open exception."""
        return MeteringException.objects.get(state="open").summary

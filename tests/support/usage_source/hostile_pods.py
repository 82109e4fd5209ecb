"""Hostile set-ups: what the exporters of one cluster reported, and the hours metered from it.

Every set-up is one cluster of a shared, real Prometheus, with its label `cluster`. Times
are seconds from `HOUR`; the history lasts from half an hour before it to two and a half hours after
it, so that hours which follow and later rechecks can be metered too.
"""

import itertools
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from embedded.programs import end_stale
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus
from metering.adapters.prometheus import PrometheusUsageSource
from metering.models import CapacityRecord, MeteringException, MeteringWindow, UsageRecord
from metering.services.collection.sweeping import CollectionSweep, Worker, meter_due
from metering.services.corrections.rechecking import RecheckSweep, recheck_due
from tenants.domain.actors import system_actor
from tenants.models import Cluster
from tests.support.builders import bind, make_cluster, make_organization, make_project

ROOT = Path(__file__).resolve().parents[3]
HOUR = datetime(2026, 10, 1, 10, tzinfo=UTC)
START = int(HOUR.timestamp())
SCRAPE = 60
BEGIN, END = -1800, 3 * 3600 + 1800
NAMESPACE = "team-nlp"
NODE = "gpu-h100-01"
H100 = {
    "label_nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3",
    "label_nvidia_com_gpu_replicas": "1",
}
A100 = {**H100, "label_nvidia_com_gpu_product": "NVIDIA-A100-SXM4-80GB"}
REQUESTS = "kube_pod_container_resource_requests"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def grid(begin: int = BEGIN, end: int = END, step: int = SCRAPE) -> range:
    """Return a scrape every minute of [begin, end)."""
    return range(begin, end, step)


@dataclass
class Setup:
    """One cluster: its series, as Prometheus would hold them after the scrapes."""

    slug: str
    rows: list[tuple[str, Mapping[str, str], str, Iterable[int]]] = field(default_factory=list)

    def add(
        self,
        metric: str,
        labels: Mapping[str, str],
        value: str = "1",
        times: Iterable[int] = grid(),
        instance: str = "ksm-0:8080",
    ) -> None:
        """Add a series of one value, by default at every scrape of kube-state-metrics."""
        scraped = {"cluster": self.slug, "job": "kube-state-metrics", "instance": instance}
        self.rows.append((metric, {**labels, **scraped}, value, times))

    def up(self, instance: str = "ksm-0:8080", times: Iterable[int] = grid()) -> None:
        """Add an exporter that answered every scrape."""
        self.add("up", {}, "1", times, instance)

    def node(
        self,
        name: str = NODE,
        *,
        units: str = "8",
        resource: str = "nvidia_com_gpu",
        labels: Mapping[str, str] | None = None,
        times: Iterable[int] = grid(),
        labels_times: Iterable[int] | None = None,
        instance: str = "ksm-0:8080",
    ) -> None:
        """Add a node: what it offers and its labels, unless they are empty."""
        offer = {"node": name, "resource": resource, "unit": "integer"}
        if units:
            self.add("kube_node_status_allocatable", offer, units, times, instance)
        labels = H100 if labels is None else labels
        if labels:
            shown = labels_times or times
            self.add("kube_node_labels", {"node": name, **labels}, "1", shown, instance)

    def pod(
        self,
        name: str,
        *,
        units: str = "1",
        resource: str = "nvidia_com_gpu",
        node: str = NODE,
        bound: int | str | None = -1200,
        ended: int | str | None = None,
        begin: int = BEGIN,
        end: int = END,
        priority: str = "gpu-standard",
        instance: str = "ksm-0:8080",
    ) -> None:
        """Add a pod with everything kube-state-metrics says of it; its uid is its name.

        A bind or an end that is text is the value of its timestamp, whatever it may mean.
        """
        who, seen = identity(name), grid(begin, end)
        place = {"node": node} if bound is not None else {}
        request = {**who, **place, "container": "main", "resource": resource, "unit": "integer"}
        self.add(REQUESTS, request, units, seen, instance)
        self.add("kube_pod_info", {**who, **place, "priority_class": priority}, "1", seen, instance)
        if bound is not None:
            at = bound if isinstance(bound, str) else str(START + bound)
            self.add("kube_pod_status_scheduled_time", who, at, seen, instance)
        if ended is not None:
            at = ended if isinstance(ended, str) else str(START + ended)
            first = 1800 if isinstance(ended, str) else ended
            after = [second for second in seen if second >= first]
            self.add("kube_pod_completion_time", who, at, after, instance)
            self.add("kube_pod_status_phase", {**who, "phase": "Failed"}, "1", after, instance)


def identity(name: str, uid: str | None = None) -> dict[str, str]:
    """Return what every series of one pod carries."""
    return {"namespace": NAMESPACE, "pod": name, "uid": uid or name}


def sound(slug: str) -> Setup:
    """Return a set-up of one exporter, one node of eight H100 and one good pod on it."""
    setup = nodeless(slug)
    setup.node()
    return setup


def nodeless(slug: str) -> Setup:
    """Return a sound set-up without the series of its node."""
    setup = Setup(slug)
    setup.up()
    setup.pod("good")
    return setup


def openmetrics(setups: Iterable[Setup]) -> str:
    """Return the series of all set-ups as OpenMetrics, each metric and series in one piece."""
    families: dict[str, list[str]] = defaultdict(list)
    for metric, labels, value, times in itertools.chain(*(setup.rows for setup in setups)):
        text = ",".join(
            f'{key}="{reported.translate(_ESCAPES)}"' for key, reported in labels.items()
        )
        lines = families[metric]
        lines += [f"{metric}{{{text}}} {value} {START + second}\n" for second in times]
    heads = ((f"# TYPE {name} unknown\n", lines) for name, lines in families.items())
    return "".join(head + "".join(lines) for head, lines in heads) + "# EOF\n"


@contextmanager
def serving(setups: Iterable[Setup], programs: Path) -> Iterator[str]:
    """Run a Prometheus that holds these set-ups, and yield its URL."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs)
    try:
        text = server.folder / "history.txt"
        text.write_text(openmetrics(setups), encoding="utf-8")
        server.account.own(text)
        server.import_openmetrics(text, name="hostile")
        server.start()
        yield server.url()
    finally:
        server.stop()
        end_stale(folder)
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Metered:
    """A cluster that is metered from a set-up by a worker, as in production."""

    cluster: Cluster
    worker: Worker

    def meter(self, *, hours: int = 1) -> CollectionSweep:
        """Open, collect and seal the hours that are due so long after `HOUR`."""
        return meter_due(worker=self.worker, at=HOUR + timedelta(hours=hours, seconds=900))

    def recheck(self, *, hours: int) -> RecheckSweep:
        """Do the rechecks that are due so long after `HOUR`."""
        return recheck_due(worker=self.worker, at=HOUR + timedelta(hours=hours, seconds=900))

    def states(self) -> list[str]:
        """Return the states of the hours."""
        return list(MeteringWindow.objects.order_by("start_at").values_list("state", flat=True))

    def billed(self) -> dict[str, int]:
        """Return unit-seconds by pod over all hours and revisions."""
        found: dict[str, int] = defaultdict(int)
        for name, seconds in UsageRecord.objects.values_list("pod_name", "unit_seconds"):
            found[name] += seconds
        return dict(found)

    def sizes(self) -> set[str]:
        """Return the price groups that are billed."""
        return set(UsageRecord.objects.values_list("price_group", flat=True))

    def open(self) -> list[tuple[str, str, int]]:
        """Return kind, subject and held unit-seconds of what is in the queue."""
        rows = MeteringException.objects.filter(state="open").order_by("kind", "subject")
        return list(rows.values_list("kind", "subject", "held_unit_seconds"))

    def summary(self) -> str:
        """Return the sentence of the one exception in the queue."""
        return MeteringException.objects.get(state="open").summary

    def capacity(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Return capacity and idle unit-seconds of the first hour by node and resource."""
        rows = CapacityRecord.objects.filter(window_start=HOUR)
        return {
            (row.node, row.resource): (row.capacity_unit_seconds, row.idle_unit_seconds)
            for row in rows
        }


def metered(setup: Setup, url: str) -> Metered:
    """Return a set-up's cluster, metered from `HOUR` on; its one namespace is bound."""
    cluster = make_cluster(
        setup.slug,
        prometheus_url=url,
        selector_label="cluster",
        selector_value=setup.slug,
        scrape_interval_seconds=SCRAPE,
        user_label="user",
        metered_from=HOUR,
    )
    bind(cluster, NAMESPACE, make_project(make_organization()))
    source = PrometheusUsageSource()
    return Metered(cluster, Worker(name="w", source=source, actor=system_actor("metering.tick")))


def sealed(setup: Setup, url: str) -> Metered:
    """Return a set-up whose first hour is metered and sealed, with its good pod billed."""
    found = metered(setup, url)
    found.meter()
    assert found.states() == ["sealed"]
    assert found.billed()["good"] == 3600
    return found


def running(setups: Iterable[Setup]) -> Iterator[str]:
    """Yield the URL of a Prometheus that holds every set-up; skip where there is none."""
    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail(programs.reason)
        pytest.skip(programs.reason)
    with serving(setups, programs.folder) as found:
        yield found

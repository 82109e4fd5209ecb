"""The lab's stage: the story's exporters, a Prometheus that can be killed, and two watches.

Import it once Django is set up.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Self

from bench.harness import ROOT
from bench.lab_methods import Reported
from embedded.ports import free_port
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus
from metering.adapters.prometheus import PrometheusUsageSource
from metering.domain.collection.windows import DEFAULT_POLICY
from metering.protocols.watch import WatchedKind, WatchTarget
from metering.services.allocations.heartbeats import beat
from metering.services.allocations.leases import Lease, take_lease
from metering.services.allocations.lists import ledger_events, ledger_list
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.composed import Hour, target_of
from metering.services.collection.composition import compose_window
from metering.services.collection.observing import basis_of, given_of, observe_hour
from simulator.adapters.cluster_watch import SimulatedClusterWatch
from simulator.cluster.exporters.exporter import GrowingScenario, LiveExporter
from simulator.cluster.exporters.scraping import OBJECT_JOB, OBJECT_PATH
from simulator.cluster.lab import (
    BACK_UNITS,
    KILL_UNITS,
    NAMESPACE,
    RESTART_UNITS,
    SCRAPE_UNITS,
    SLUG,
)
from simulator.cluster.scenario import Scenario
from tenants.domain.actors import system_actor
from tenants.models import Cluster, Organization
from tenants.services.clusters import register_cluster
from tenants.services.namespaces import bind_namespace
from tenants.services.organizations import create_organization, create_project

ACTOR = system_actor("lab")
LAG_SECONDS = 16
"""After the window's end, so that a later scrape shows who was still there."""
LEASE_SECONDS = 600
CUT_UNITS = (100, 160)
SPEED = 15
POLICY = replace(DEFAULT_POLICY, hole_seconds_max=DEFAULT_POLICY.hole_seconds_max // SPEED)
"""The outage of forty seconds stands for ten minutes, which is too long to seal by itself."""


def now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


def seconds_of_story(begin_at: datetime, last: int) -> Iterator[int]:
    """Yield the seconds of the scenario in real time; a missed one is yielded with the next."""
    second = min(0, (now() - begin_at) // timedelta(seconds=1))
    while second <= last:
        yield second
        second = max(second + 1, (now() - begin_at) // timedelta(seconds=1))
        wait = (begin_at + timedelta(seconds=second) - now()).total_seconds()
        time.sleep(max(0, wait))


class Stage:
    """Everything the story happens on; use it as a context."""

    def __init__(self, folder: Path, scenario: Scenario, *, begin_at: datetime) -> None:
        """Start the first kube-state-metrics, a Prometheus and two watches."""
        self._growing = GrowingScenario(lambda _: scenario)
        self._exporters: list[LiveExporter] = []
        self._targets = folder / "targets.json"
        self._start_exporter()
        self.server = _prometheus(folder, targets=self._targets)
        url = self.server.url()
        self.watches = [
            Watch(_cluster(slug, url=url, begin_at=begin_at), scenario, cut=cut)
            for slug, cut in (("lab", None), ("lab-cut", CUT_UNITS))
        ]

    def __enter__(self) -> Self:
        """Return the stage."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop all started servers."""
        self.server.stop()
        for exporter in self._exporters:
            exporter.stop()

    def step(self, second: int) -> None:
        """Apply the scenario's events of this second, and update the watches."""
        process = self.server.process
        is_alive = process is not None and process.poll() is None
        if second >= RESTART_UNITS and len(self._exporters) == 1:
            self._exporters[0].stop()
            self._start_exporter()
        if process is not None and is_alive and KILL_UNITS <= second < BACK_UNITS:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        if second >= BACK_UNITS and not is_alive:
            self.server.start()
        for watch in self.watches:
            watch.step(second)

    def _start_exporter(self) -> None:
        """Start a kube-state-metrics that replaces the previous one in service discovery."""
        exporter = LiveExporter(self._growing, clock=now)
        exporter.start()
        self._exporters.append(exporter)
        instance = f"kube-state-metrics-{len(self._exporters)}"
        discovered = [{"targets": [exporter.address], "labels": {"instance": instance}}]
        partial = self._targets.with_suffix(".partial")
        partial.write_text(json.dumps(discovered), encoding="utf-8")
        partial.replace(self._targets)


def _prometheus(folder: Path, *, targets: Path) -> EmbeddedPrometheus:
    """Start a Prometheus that scrapes the discovered targets as two replicas do."""
    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        raise SystemExit(f"This bench needs Prometheus: {programs.reason}")
    configs: list[dict[str, object]] = [
        {
            "job_name": f"replica-{replica}",
            "honor_labels": True,
            "scrape_interval": f"{SCRAPE_UNITS}s",
            "scrape_timeout": f"{SCRAPE_UNITS}s",
            "metrics_path": f"/{SLUG}/{OBJECT_PATH}/metrics",
            "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
            "relabel_configs": [
                {"target_label": "job", "replacement": OBJECT_JOB},
                {"target_label": "prometheus_replica", "replacement": replica},
            ],
        }
        for replica in ("a", "b")
    ]
    server = EmbeddedPrometheus(
        folder / "prometheus", programs=programs.folder, scrape_configs=configs, port=free_port()
    )
    server.start()
    return server


class Watch:
    """One watch of the lab's cluster, stepped every second; cut off for a while, perhaps."""

    def __init__(
        self, cluster: Cluster, scenario: Scenario, *, cut: tuple[int, int] | None
    ) -> None:
        """Take the lease; nothing is listed yet."""
        self.cluster = cluster
        self._watch = SimulatedClusterWatch(scenario=scenario)
        self._target = WatchTarget(slug=SLUG)
        self._cut = cut
        self._lease = _lease(cluster)
        self._versions: dict[WatchedKind, str] = {}

    def step(self, second: int) -> None:
        """Write what has happened since the last second; list first where nothing is known."""
        if self._cut is not None and self._cut[0] <= second < self._cut[1]:
            self._versions = {}
        elif self._versions:
            self._follow()
        else:
            self._list()

    def _list(self) -> None:
        at = now()
        for kind in (WatchedKind.NODES, WatchedKind.PODS):
            pages = self._watch.list(self._target, kind)
            listed = ledger_list(lease=self._lease, kind=kind, pages=pages, at=at, actor=ACTOR)
            self._versions[kind] = listed.resource_version
        beat(lease=self._lease, at=at)

    def _follow(self) -> None:
        at = now()
        for kind, version in self._versions.items():
            reported = self._watch.watch(
                self._target, kind, resource_version=version, timeout_seconds=1
            )
            events = list(reported)
            ledger_events(lease=self._lease, kind=kind, events=events, at=at, actor=ACTOR)
            self._versions[kind] = events[-1].resource_version
        beat(lease=self._lease, at=at)


def _lease(cluster: Cluster) -> Lease:
    lease = take_lease(
        cluster_id=cluster.pk, holder="lab", lease_seconds=LEASE_SECONDS, actor=ACTOR, at=now()
    )
    if lease is None:
        raise SystemExit("Nobody else can lead a watch in a database of our own.")
    return lease


def _cluster(slug: str, *, url: str, begin_at: datetime) -> Cluster:
    """Return a watched cluster whose namespace belongs to a project."""
    month = begin_at.replace(day=1, hour=0, minute=0, second=0)
    organization = Organization.objects.filter(slug="lab").first() or create_organization(
        slug="lab", name="Lab", billing_currency="EUR", actor=ACTOR, at=month
    )
    project = create_project(organization=organization, slug=slug, name=slug, actor=ACTOR, at=month)
    cluster = register_cluster(
        slug=slug,
        name=slug,
        metered_from=month,
        prometheus_url=url,
        scrape_interval_seconds=SCRAPE_UNITS,
        actor=ACTOR,
        at=month,
    )
    bind_namespace(
        cluster=cluster,
        namespace=NAMESPACE,
        project=project,
        valid_from=month,
        actor=ACTOR,
        at=month,
    )
    Cluster.objects.filter(pk=cluster.pk).update(is_watched=True)
    cluster.refresh_from_db()
    return cluster


def metered(
    method: str, *, cluster: Cluster, is_watched: bool, begin_at: datetime, end_at: datetime
) -> Reported:
    """Compose the story's window as a collection would, without writing it."""
    window_end_at = end_at

    @dataclass(frozen=True)
    class StoryHour(Hour):
        """Fifty minutes, lived through in 200 seconds."""

        @property
        def end_at(self) -> datetime:
            """Return the end of the story's window."""
            return window_end_at

    hour = StoryHour(cluster.pk, begin_at, target_of(cluster), is_watched)
    as_of = end_at + timedelta(seconds=LAG_SECONDS - SCRAPE_UNITS)
    observed = observe_hour(
        hour=hour, source=PrometheusUsageSource(), as_of=as_of, actor=ACTOR, at=as_of
    )
    if observed.failure is not None:
        raise observed.failure
    basis = basis_of(observed, policy=POLICY)
    catalogue = ensure_catalogue(actor=ACTOR, at=as_of)
    composed = compose_window(given_of(observed, basis=basis, catalogue=catalogue))
    return Reported(
        method=method,
        seconds={row.fact.pod_uid: Decimal(row.unit_seconds) for row in composed.usage},
        flagged=frozenset(found.subject.partition(" ")[0] for found in composed.findings),
        is_hour_flagged=not basis.scrapes_suffice and not basis.watch_suffices,
    )

"""Benches: a watch, the cluster it looks at, and the hand that moves the cluster's time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from metering.adapters.kubernetes import KubernetesClusterWatch
from metering.protocols.watch import (
    Change,
    ClusterWatchSource,
    ObjectState,
    WatchedKind,
    WatchEvent,
    WatchTarget,
)
from simulator.adapters.cluster_watch import SimulatedClusterWatch
from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.scenario import USER_LABEL, Scenario
from simulator.kubernetes_api import KubernetesAPI
from tests.support.references import reference_to

MONTH = datetime(2026, 10, 1, tzinfo=UTC)
START = MONTH + timedelta(days=4, hours=9)
STEP = timedelta(hours=1, seconds=7)


@dataclass
class Clock:
    """A clock that is put forward by hand."""

    at: datetime = START

    def __call__(self) -> datetime:
        return self.at


class Bench(Protocol):
    """A watch of one cluster of the scenario at a moment that can be moved."""

    watch: ClusterWatchSource
    target: WatchTarget
    clock: Clock

    def move(self, at: datetime) -> None: ...

    def purge(self) -> None: ...


@dataclass
class SimulatedBench:
    """The simulated watch; its history is purged by being older than a second."""

    scenario: Scenario
    clock: Clock = field(default_factory=Clock)
    target: WatchTarget = field(
        default_factory=lambda: WatchTarget("hopper", user_label=USER_LABEL)
    )

    def __post_init__(self) -> None:  # noqa: D105 - Says what the class says.
        self.watch: ClusterWatchSource = SimulatedClusterWatch(
            scenario=self.scenario, clock=self.clock
        )

    def move(self, at: datetime) -> None:
        self.clock.at = at

    def purge(self) -> None:
        self.watch = SimulatedClusterWatch(
            scenario=self.scenario, history_seconds=1, clock=self.clock
        )


@dataclass
class KubernetesBench:
    """The Kubernetes watch against the simulated API server, loaded with the same scenario."""

    api: KubernetesAPI
    target: WatchTarget
    scenario: Scenario
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:  # noqa: D105 - Says what the class says.
        self.watch: ClusterWatchSource = KubernetesClusterWatch(page_objects=7, clock=self.clock)
        self.move(START)

    def move(self, at: datetime) -> None:
        self.clock.at = at
        self.api.load(self.scenario.cluster("hopper"), at)

    def purge(self) -> None:
        self.api.store.compact()


@contextmanager
def kubernetes_bench(folder: Path, scenario: Scenario) -> Iterator[KubernetesBench]:
    """Yield a bench with an API server of its own."""
    with KubernetesAPI(folder, tokens={"watcher": "watcher"}, bookmark_seconds=0.05) as api:
        kubeconfig = api.kubeconfig(folder / "kubeconfig")
        target = WatchTarget(
            "hopper", credential_reference=reference_to(kubeconfig), user_label=USER_LABEL
        )
        yield KubernetesBench(api, target, scenario)


def make_scenario() -> Scenario:
    """Return the standard scenario of some days."""
    return demo_scenario(1, MONTH, MONTH + timedelta(days=6))


def listed(bench: Bench, kind: WatchedKind = WatchedKind.PODS) -> dict[str, ObjectState]:
    """Return a whole list by uid."""
    return {
        state.uid: state for page in bench.watch.list(bench.target, kind) for state in page.states
    }


def version_of(bench: Bench, kind: WatchedKind = WatchedKind.PODS) -> str:
    """Return the version of a list taken now."""
    (version,) = {page.resource_version for page in bench.watch.list(bench.target, kind)}
    return version


def reported(bench: Bench, version: str) -> list[WatchEvent]:
    """Return what a watch of pods shows up to the first bookmark after the opening one."""
    stream = bench.watch.watch(
        bench.target, WatchedKind.PODS, resource_version=version, timeout_seconds=5
    )
    found = [next(stream)]
    for event in stream:
        found.append(event)
        if event.change is Change.BOOKMARK and _has_moved_on(event, bench):
            break
    return found


def _has_moved_on(event: WatchEvent, bench: Bench) -> bool:
    """Whether a bookmark is one of the server's own, not a pod that is none of ours."""
    return isinstance(bench, SimulatedBench) or event.state is None


# NOIMPORT

"""The lab's hour: nine pods, a restart, an outage, and what either source reports.

The same story is lived through with a live Prometheus by `python -m bench lab`.
"""

from datetime import datetime, timedelta

import pytest

from metering.domain.collection.windows import GapPolicy, WindowState
from metering.models import MeteringException, MeteringWindow, UsageRecord
from metering.protocols.watch import WatchedKind, WatchTarget
from metering.services.allocations.heartbeats import beat
from metering.services.allocations.leases import Lease, take_lease
from metering.services.allocations.lists import ledger_events, ledger_list
from metering.services.collection.collecting import Collection, collect_window
from metering.services.collection.hour_decisions import decide_window
from metering.services.collection.windows import claim_windows, open_due_windows
from simulator.adapters.cluster_watch import SimulatedClusterWatch
from simulator.adapters.usage_source import SimulatedUsageSource
from simulator.cluster.lab import (
    BACK_UNITS,
    KILL_UNITS,
    NAMESPACE,
    SLUG,
    lab_scenario,
)
from tenants.models import Cluster
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.collecting import DUE
from tests.support.metering.seen import ACTOR, HOUR

UNIT = 15
KINDS = (WatchedKind.NODES, WatchedKind.PODS)
TARGET = WatchTarget(slug=SLUG)
SCENARIO = lab_scenario(HOUR, unit_seconds=UNIT)
TRUTH = {
    pod.uid: pod.true_units * pod.true_seconds(HOUR, HOUR + timedelta(hours=1))
    for pod in SCENARIO.cluster(SLUG).pods
}


class Watching:
    """A watch that is stepped by hand from one happening of the story to the next."""

    def __init__(self, cluster: Cluster) -> None:
        self.now = HOUR - timedelta(minutes=10)
        self.watch = SimulatedClusterWatch(scenario=SCENARIO, clock=lambda: self.now)
        lease = take_lease(
            cluster_id=cluster.pk, holder="lab", lease_seconds=3600, actor=ACTOR, at=self.now
        )
        assert lease is not None
        self.lease: Lease = lease
        self.versions: dict[WatchedKind, str] = {}

    def relist(self) -> None:
        for kind in KINDS:
            pages = self.watch.list(TARGET, kind)
            listed = ledger_list(lease=self.lease, kind=kind, pages=pages, at=self.now, actor=ACTOR)
            self.versions[kind] = listed.resource_version
        beat(lease=self.lease, at=self.now)

    def follow(self, until: datetime) -> None:
        """Stay healthy until a moment; a heartbeat comes shortly before whatever happens."""
        for moment in (*self.happenings(until), until):
            self.now = moment
            pods = WatchedKind.PODS
            reported = self.watch.watch(
                TARGET, pods, resource_version=self.versions[pods], timeout_seconds=1
            )
            events = list(reported)
            ledger_events(lease=self.lease, kind=pods, events=events, at=moment, actor=ACTOR)
            self.versions[pods] = events[-1].resource_version
            beat(lease=self.lease, at=moment)

    def happenings(self, until: datetime) -> list[datetime]:
        times = {
            moment
            for pod in SCENARIO.cluster(SLUG).pods
            for moment in (pod.created_at, pod.finished_at, pod.deleted_at)
            if moment is not None
        }
        beats = {moment - timedelta(seconds=10) for moment in times}
        return sorted(moment for moment in times | beats if self.now < moment < until)


def unit(number: int) -> datetime:
    return HOUR + timedelta(seconds=UNIT * number)


@pytest.fixture
def lab(db: None) -> Cluster:  # noqa: ARG001 - It is the transaction.
    cluster = make_cluster(SLUG, metered_from=HOUR, user_label="")
    bind(cluster, NAMESPACE, make_project(make_organization()))
    open_due_windows(at=DUE)
    return cluster


@pytest.fixture
def watching(lab: Cluster) -> Watching:
    Cluster.objects.update(is_watched=True)
    found = Watching(lab)
    found.relist()
    return found


def meter() -> Collection:
    MeteringWindow.objects.update(state="open", not_before=DUE)
    [claimed] = claim_windows(worker="lab", limit=1, at=DUE)
    source = SimulatedUsageSource(scenario=SCENARIO)
    return collect_window(claimed=claimed, source=source, actor=ACTOR, at=DUE)


def billed() -> dict[str, int]:
    found = dict.fromkeys(TRUTH, 0)
    return found | dict(UsageRecord.objects.values_list("pod_uid", "unit_seconds"))


def errors() -> dict[str, int]:
    """Return by how much each pod is billed too much, in GPU-seconds; only where it is not 0."""
    found = billed()
    return {uid: found[uid] - true for uid, true in TRUTH.items() if found[uid] != true}


def kinds() -> dict[str, list[str]]:
    """Return which exceptions are open about each pod, "" for the hour."""
    found: dict[str, list[str]] = {}
    for kind, subject in MeteringException.objects.order_by("kind").values_list("kind", "subject"):
        found.setdefault(subject.partition(" ")[0], []).append(kind)
    return found


def test_the_truth_of_the_story() -> None:
    assert TRUTH == {
        "u1": 1380,
        "u2a": 315,
        "u2b": 495,
        "u3": 15,
        "u4": 3525,
        "u5": 750,
        "u6": 1800,
        "u7": 330,
        "u8": 2280,
        "u9": 0,
    }


def test_with_the_watch_alive_every_pod_is_billed_exactly(watching: Watching) -> None:
    watching.follow(DUE)

    assert meter().state is WindowState.RECONCILED

    assert errors() == {}
    assert kinds() == {"": ["single_source"]}
    window = MeteringWindow.objects.get()
    assert window.sources == ["kubernetes", "simulated"]
    assert window.reconciliation["pods"] == {"agreed": 7, "kubernetes_only_explained": 2}
    assert window.reconciliation["unit_seconds"]["billed"] == sum(TRUTH.values())


def test_prometheus_alone_misses_what_it_could_not_see_and_says_so(lab: Cluster) -> None:
    MeteringWindow.objects.filter(cluster=lab).update(accepts_low_coverage=True)

    assert meter().state is WindowState.RECONCILED

    assert errors() == {"u3": -15, "u5": -330, "u7": -330}
    assert kinds()["u5"] == ["uncertain_end"]


def test_what_the_watch_missed_comes_from_prometheus_with_a_flag(watching: Watching) -> None:
    watching.follow(unit(15))
    watching.now = unit(50)
    watching.relist()
    watching.follow(DUE)

    assert meter().state is WindowState.RECONCILED

    assert MeteringWindow.objects.get().unobserved_seconds == 0
    assert kinds()[""] == ["single_source"]
    found = errors()
    assert set(found) <= {"u2a", "u3"}
    assert abs(found.get("u2a", 0)) <= 15
    assert MeteringWindow.objects.get().reconciliation["pods"]["recovered"] >= 1
    assert billed()["u1"] == TRUTH["u1"]


def test_what_nobody_saw_makes_the_hour_wait_and_is_bounded(watching: Watching) -> None:
    watching.follow(unit(KILL_UNITS))
    watching.now = unit(BACK_UNITS)
    watching.relist()
    watching.follow(DUE)
    for _ in range(6):
        meter()
    window = MeteringWindow.objects.get()
    assert window.state == "gap"
    assert kinds() == {"": ["low_coverage"]}

    decide_window(
        window_id=window.pk, decision=GapPolicy.ACCEPT, note="Known.", actor=ACTOR, at=DUE
    )
    meter()

    # Who lived in the hole alone left no trace; who died in it is billed to the last observation.
    assert errors() == {"u5": -300, "u7": -330}
    assert kinds()["u5"] == ["uncertain_end"]
    found = MeteringException.objects.get(kind="uncertain_end")
    assert found.details["slack_seconds"] == (BACK_UNITS - KILL_UNITS) * UNIT

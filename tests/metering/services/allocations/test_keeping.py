"""The driver: who leads, what a fault does, and how it ends."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event

import pytest
from django.db import OperationalError

from metering.models import ClusterWatch, PodAllocation, WatchCursor, WatchSpan
from metering.protocols.watch import WatchTarget
from metering.services.allocations.heartbeats import WatchPace
from metering.services.allocations.keeping import keep_watching, watch_cluster
from metering.services.allocations.leading import Watcher
from simulator.adapters.cluster_watch import SimulatedClusterWatch
from tenants.domain.errors import SourceUnavailableError
from tenants.models import AuditEntry, Cluster
from tests.support.metering.allocations.stage import ACTOR, START, TARGET, Stage, scenario


@dataclass
class Impatient(Event):
    """A stop that comes after so many looks at it; waiting takes no time."""

    looks_left: int = 5
    waits: list[float] = field(default_factory=list)

    def is_set(self) -> bool:
        self.looks_left -= 1
        return self.looks_left < 0

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0)
        return self.is_set()


def watcher(clock: Callable[[], datetime], stop: Impatient) -> Watcher:
    return Watcher(
        name="two",
        watch=SimulatedClusterWatch(scenario=scenario(), clock=clock),
        actor=ACTOR,
        clock=lambda: START,
        pace=WatchPace(quiet_seconds=0, batch_seconds=0),
        stop=stop,
        database_clock=lambda: START,
    )


@pytest.fixture
def stage(cluster: Cluster) -> Stage:
    return Stage(cluster)


def test_it_reads_once_up_to_now_and_lets_others_lead(stage: Stage) -> None:
    read = watch_cluster(
        cluster_id=stage.cluster.pk, target=TARGET, watcher=stage.watcher(), is_once=True
    )

    watch = ClusterWatch.objects.get()
    assert read
    assert PodAllocation.objects.filter(end_at__isnull=True).count() > 10
    assert (watch.healthy_at, watch.lease_until) == (START, None)
    assert [span.is_resumed for span in WatchSpan.objects.all()] == [False]


def test_reading_once_more_goes_on_from_the_kept_versions(stage: Stage) -> None:
    for _ in range(2):
        watch_cluster(
            cluster_id=stage.cluster.pk, target=TARGET, watcher=stage.watcher(), is_once=True
        )
        stage.forward(3600)

    assert set(WatchCursor.objects.values_list("listed_at", flat=True)) == {START}
    assert [span.is_resumed for span in WatchSpan.objects.all()] == [False, True]


def test_reading_once_lists_anew_where_the_version_is_purged(stage: Stage) -> None:
    stage.history_seconds = 60
    for _ in range(2):
        watch_cluster(
            cluster_id=stage.cluster.pk, target=TARGET, watcher=stage.watcher(), is_once=True
        )
        stage.forward(3600)

    assert [span.is_resumed for span in WatchSpan.objects.all()] == [False, False]


def test_reading_once_says_when_it_cannot(stage: Stage) -> None:
    with pytest.raises(SourceUnavailableError):
        watch_cluster(
            cluster_id=stage.cluster.pk,
            target=WatchTarget("nowhere"),
            watcher=stage.watcher(),
            is_once=True,
        )

    assert not WatchSpan.objects.exists()


def test_while_somebody_else_leads_nothing_is_done(stage: Stage) -> None:
    stage.lead("other")

    read = watch_cluster(cluster_id=stage.cluster.pk, target=TARGET, watcher=stage.watcher())

    assert not read
    assert not WatchCursor.objects.exists()
    assert AuditEntry.objects.filter(action="metering:watch:lead").count() == 1


def test_it_waits_a_third_of_a_lease_to_ask_again_for_the_lead(stage: Stage) -> None:
    stage.lead("other")
    stop = Impatient(looks_left=2)

    keep_watching(cluster_id=stage.cluster.pk, target=TARGET, watcher=watcher(lambda: START, stop))

    assert stop.waits == [10]
    assert ClusterWatch.objects.get().lease_owner == "other"


def test_reported_to_stop_it_gives_the_lease_back(stage: Stage) -> None:
    stop = Impatient(looks_left=30)

    keep_watching(cluster_id=stage.cluster.pk, target=TARGET, watcher=watcher(lambda: START, stop))

    watch = ClusterWatch.objects.get()
    assert (watch.lease_owner, watch.lease_until) == ("two", None)
    assert set(WatchCursor.objects.values_list("kind", flat=True)) == {"pods", "nodes"}


def test_reported_to_stop_inside_a_list_it_writes_nothing_of_it(stage: Stage) -> None:
    stop = Impatient(looks_left=2)

    keep_watching(cluster_id=stage.cluster.pk, target=TARGET, watcher=watcher(lambda: START, stop))

    assert ClusterWatch.objects.get().lease_until is None
    assert not WatchCursor.objects.exists()


def test_a_lost_lease_is_asked_for_again(stage: Stage) -> None:
    stop = Impatient(looks_left=3)
    pulses = iter([0] * 3 + [1_000_000] * 1000)

    def lose() -> int:
        now = next(pulses)
        if now:
            ClusterWatch.objects.update(lease_owner="other", fence=99)
        return now

    keep_watching(
        cluster_id=stage.cluster.pk,
        target=TARGET,
        watcher=replace(watcher(lambda: START, stop), pulse=lose),
    )

    assert stop.waits == [10]
    assert not WatchCursor.objects.exists()


@pytest.mark.parametrize("fault", [RuntimeError("odd"), OperationalError("away")])
def test_a_fault_ends_nobody_elses_watch(
    stage: Stage, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    stop = Impatient(looks_left=3)

    def broken() -> datetime:
        raise fault

    held = watcher(lambda: START, stop)
    keep_watching(cluster_id=stage.cluster.pk, target=TARGET, watcher=replace(held, clock=broken))

    assert len(stop.waits) == 2
    assert 1 <= stop.waits[0] <= 1.5
    assert 2 <= stop.waits[1] <= 3
    assert any("metering.watch." in record.getMessage() for record in caplog.records)

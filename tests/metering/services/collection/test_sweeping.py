"""Sweeping: what is due is metered and sealed, one bad window stops no other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection

from metering.domain.collection.windows import DEFAULT_POLICY
from metering.models import (
    CapacityRecord,
    MeteringException,
    MeteringWindow,
    PodAllocation,
    UsageRecord,
)
from metering.protocols import ClusterTarget, Observation
from metering.selectors.collection.windows import sealable_window_ids
from metering.services.collection import sweeping
from metering.services.collection.collecting import Collection
from metering.services.collection.division.collecting import collect_claimed
from metering.services.collection.sealing import seal_window
from metering.services.collection.sweeping import (
    CollectionSweep,
    Worker,
    meter_due,
    meter_next,
    seal_settled,
)
from metering.services.collection.windows import open_due_windows
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tenants.selectors.clock import crashes_by_event
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    ReplayedSource,
    moment,
    observation,
    pod,
    worker,
)

pytestmark = pytest.mark.django_db

DUE = moment(3600 + LATER)


@dataclass
class BrokenSource(ReplayedSource):
    """A source with a mistake in it, which shows in one hour only."""

    broken_hour: datetime = HOUR

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Crash in the broken hour; see protocols.UsageSource."""
        if start_at == self.broken_hour:
            raise KeyError("uid")
        return super().observe(target, start_at=start_at, end_at=end_at, as_of=as_of)


@dataclass
class OvertakenSource(ReplayedSource):
    """A source so slow that another worker takes the window over meanwhile."""

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Raise the fence, as another worker's claim does; see protocols.UsageSource."""
        MeteringWindow.objects.update(fence=99)
        return super().observe(target, start_at=start_at, end_at=end_at, as_of=as_of)


@dataclass
class SilentSource(ReplayedSource):
    """A source whose cluster `silent` does not answer, which takes simulated time.

    Attributes:
        now: The simulated time.
        silent_at: The one hour it does not answer about; all when it is None.
        tried: Attempts without an answer.
        timeout_seconds: For how long an answer is waited for.
    """

    now: datetime = HOUR
    timeout_seconds: int = 45
    silent_at: datetime | None = None
    tried: int = 0
    answered: list[tuple[datetime, datetime]] = field(default_factory=list)

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Wait in vain, or answer at once; see protocols.UsageSource."""
        if target.slug == "silent" and self.silent_at in (None, start_at):
            self.tried += 1
            self.now += timedelta(seconds=self.timeout_seconds)
            raise SourceUnavailableError("Prometheus did not answer in time.", reason="timeout")
        self.answered.append((start_at, self.now))
        return super().observe(target, start_at=start_at, end_at=end_at, as_of=as_of)


def test_a_due_hour_is_metered_and_sealed() -> None:
    cluster = make_cluster(metered_from=HOUR)
    project = make_project(make_organization())
    bind(cluster, "team-nlp", project)

    sweep = meter_due(worker=worker(observation(pod(units=2))), at=DUE)

    assert (sweep.opened, sweep.sealed, sweep.retried, sweep.failed) == (1, 1, 0, 0)
    record = UsageRecord.objects.get()
    assert (record.project_id, record.size, record.price_group) == (
        project.id,
        "large",
        "H100/whole",
    )
    assert (record.units, record.seconds, record.unit_seconds) == (2, 3600, 7200)
    assert MeteringWindow.objects.get().record_digest != ""
    assert PodAllocation.objects.get().resource == "nvidia.com/gpu"
    capacity = CapacityRecord.objects.get()
    assert (capacity.capacity_unit_seconds, capacity.idle_unit_seconds) == (28800, 21600)


def test_an_hour_that_crashes_the_source_stops_no_other() -> None:
    make_cluster(metered_from=HOUR)
    broken = Worker(name="w", source=BrokenSource(), actor=ACTOR)

    sweep = meter_due(worker=broken, at=DUE + timedelta(hours=2))

    assert sweep == CollectionSweep(opened=3, sealed=2, failed=1)
    assert crashes_by_event() == {"metering.window.failed": 1}
    first = MeteringWindow.objects.get(start_at=HOUR)
    assert (first.state, first.attempt) == ("collecting", 1)


def test_an_overtaken_worker_leaves_the_window_to_the_other() -> None:
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))
    slow = Worker(name="w", source=OvertakenSource({HOUR: observation(pod())}), actor=ACTOR)

    assert meter_due(worker=slow, at=DUE) == CollectionSweep(opened=1)

    assert MeteringWindow.objects.get().state == "collecting"
    assert not UsageRecord.objects.exists()


def test_a_cluster_whose_waive_fails_stops_no_seal_and_no_other_waive() -> None:
    broken = make_cluster("broken", metered_from=HOUR - timedelta(hours=1))
    make_cluster("ended", metered_from=HOUR - timedelta(hours=1))
    open_due_windows(at=DUE)
    Cluster.objects.update(metered_until=HOUR)
    make_cluster("whole", metered_from=HOUR)
    open_due_windows(at=DUE)
    MeteringWindow.objects.filter(cluster__slug="whole").update(state="reconciled", as_of=DUE)
    failing = MeteringWindow.objects.get(cluster=broken, start_at=HOUR).pk

    def fail_to_waive(
        execute: Callable[..., object], sql: str, params: object, *rest: object
    ) -> object:
        if isinstance(params, dict) and failing in params.get("ids", ()):
            raise OperationalError("canceling statement due to lock timeout")
        return execute(sql, params, *rest)

    with connection.execute_wrapper(fail_to_waive):
        swept = seal_settled(worker=worker(), at=DUE)

    assert swept == CollectionSweep(sealed=2)
    hours = MeteringWindow.objects.filter(start_at=HOUR)
    states = dict(hours.values_list("cluster__slug", "state"))
    assert states == {"broken": "open", "ended": "sealed", "whole": "sealed"}
    assert crashes_by_event() == {"metering.waive.failed": 1}


def test_progress_is_reported_after_every_window() -> None:
    make_cluster(metered_from=HOUR)
    reported: list[int] = []

    meter_due(
        worker=worker(),
        at=DUE + timedelta(hours=4),
        progress=lambda sweep: reported.append(sweep.sealed),
    )

    assert reported == [1, 2, 3, 4, 5]


def test_a_sweep_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "WINDOWS_MAX", 2)
    make_cluster(metered_from=HOUR)

    assert meter_due(worker=worker(), at=DUE + timedelta(hours=4)).sealed == 2


def test_the_oldest_due_window_is_metered_next_and_none_that_is_not_due() -> None:
    make_cluster(metered_from=HOUR)
    open_due_windows(at=DUE + timedelta(hours=1))

    assert meter_next(worker=worker(), at=DUE) == CollectionSweep(sealed=1)
    assert meter_next(worker=worker(), at=DUE) is None

    states = MeteringWindow.objects.order_by("start_at").values_list("state", flat=True)
    assert list(states) == ["sealed", "open"]


def test_a_silent_cluster_with_a_backlog_keeps_no_hour_of_another_waiting() -> None:
    """One process, a backlog of two days, and 6 hours during which every attempt takes 45 s."""
    make_cluster("silent", metered_from=HOUR - timedelta(days=2))
    make_cluster("healthy", metered_from=HOUR)
    source = SilentSource(now=DUE)
    metering = Worker(name="w", source=source, actor=ACTOR)
    end_at, opened_until = DUE + timedelta(hours=6), DUE - timedelta(hours=1)

    while source.now < end_at:
        if opened_until + timedelta(hours=1) <= source.now:
            opened_until += timedelta(hours=1)
            open_due_windows(at=source.now)
        if meter_next(worker=metering, at=source.now) is None:
            source.now += timedelta(seconds=15)

    states = MeteringWindow.objects.filter(cluster__slug="healthy").values_list("state", flat=True)
    assert list(states) == ["sealed"] * 6
    waits = [at - start_at - (DUE - HOUR) for start_at, at in source.answered]
    assert max(waits) <= timedelta(seconds=2 * source.timeout_seconds)
    left = MeteringException.objects.filter(state="open", kind="source_unavailable")
    assert set(left.values_list("window__cluster__slug", flat=True)) == {"silent"}
    assert left.count() == MeteringWindow.objects.filter(cluster__slug="silent").count()
    # After pauses of some 15 minutes, and once when an hour comes due.
    assert source.tried <= 6 * 4 + 6 + 6


@pytest.mark.parametrize("is_first", [True, False])
def test_a_worker_that_cannot_reach_a_source_keeps_no_other_from_metering(
    is_first: bool,  # noqa: FBT001 - A case of the test.
) -> None:
    make_cluster("silent", metered_from=HOUR - timedelta(hours=10))
    open_due_windows(at=DUE)
    source = SilentSource(now=DUE, timeout_seconds=0)
    cut_off = Worker(name="cut-off", source=source, actor=ACTOR)
    pair = (cut_off, worker()) if is_first else (worker(), cut_off)

    for second in range(30):
        for metering in pair:
            meter_next(worker=metering, at=DUE + timedelta(seconds=second))

    assert MeteringWindow.objects.filter(state="sealed").count() == 11
    assert source.tried == 1
    assert not MeteringException.objects.filter(state="open").exists()


def test_an_hour_that_always_takes_too_long_keeps_none_of_its_cluster_waiting() -> None:
    make_cluster("silent", metered_from=HOUR - timedelta(hours=5))
    source = SilentSource(now=DUE, silent_at=HOUR - timedelta(hours=5))
    metering = Worker(name="w", source=source, actor=ACTOR)
    open_due_windows(at=DUE)

    while source.now < DUE + timedelta(hours=1):
        if meter_next(worker=metering, at=source.now) is None:
            source.now += timedelta(seconds=15)

    states = MeteringWindow.objects.order_by("start_at").values_list("state", flat=True)
    assert list(states) == ["open", *["sealed"] * 5]
    assert source.tried >= 3


def test_windows_that_are_quarantined_keep_none_behind_them_waiting() -> None:
    make_cluster(metered_from=HOUR)
    open_due_windows(at=DUE + timedelta(hours=2))
    deadly = MeteringWindow.objects.order_by("start_at").values_list("id", flat=True)[:2]
    attempts = DEFAULT_POLICY.attempts_max
    MeteringWindow.objects.filter(id__in=list(deadly)).update(attempt=attempts)

    assert meter_next(worker=worker(), at=DUE + timedelta(hours=2)) == CollectionSweep(sealed=1)

    states = MeteringWindow.objects.order_by("start_at").values_list("state", flat=True)
    assert list(states) == ["quarantined", "quarantined", "sealed"]


def test_a_window_somebody_else_sealed_meanwhile_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = MeteringWindow.objects.create(
        cluster=make_cluster(), start_at=HOUR, not_before=DUE, state="reconciled", as_of=DUE
    )
    reported = sealable_window_ids()
    assert reported == [made.id]
    seal_window(window_id=made.id, actor=ACTOR, at=DUE)
    monkeypatch.setattr(sweeping, "sealable_window_ids", lambda **_: reported)

    assert seal_settled(worker=worker(), at=DUE) == CollectionSweep()


def test_a_window_that_another_worker_seals_before_its_collector_is_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))

    def sealed_by_another(**fields: Any) -> Collection:  # noqa: ANN401 - As it takes them.
        collected = collect_claimed(**fields)
        seal_settled(worker=worker(observation()), at=DUE)
        return collected

    monkeypatch.setattr(sweeping, "collect_claimed", sealed_by_another)

    sweep = meter_due(worker=worker(observation(pod(units=2))), at=DUE)

    assert sweep == CollectionSweep(opened=1)
    assert crashes_by_event() == {}
    assert MeteringWindow.objects.get().state == "sealed"


def test_idle_means_that_nothing_was_done() -> None:
    assert CollectionSweep().is_idle
    assert not CollectionSweep(retried=1).is_idle

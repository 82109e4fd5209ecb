"""A watch whose clock is in the future does not lead, and shows so; one in the past is believed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from metering.models import ClusterWatch, PodAllocation, WatchCursor, WatchSpan
from metering.services.allocations.heartbeats import (
    CLOCK_AHEAD_MAX,
    ClockAheadError,
    refuse_future,
)
from metering.services.allocations.keeping import keep_watching, watch_cluster
from tenants.models import Cluster
from tenants.selectors.clock import database_now
from tests.metering.services.allocations.test_keeping import Impatient
from tests.support.metering.allocations.stage import START, TARGET, Stage, turn_until

AHEAD = (
    "The clock of the watching process is 7200 s ahead of the database's;"
    " it does not watch until that is put right."
)


@pytest.fixture
def stage(cluster: Cluster) -> Stage:
    return Stage(cluster)


def test_a_moment_is_refused_only_when_the_database_has_not_come_near_it() -> None:
    refuse_future(START + CLOCK_AHEAD_MAX, database_at=START)
    refuse_future(START - timedelta(days=400), database_at=START)

    with pytest.raises(ClockAheadError, match="6 s ahead"):
        refuse_future(START + CLOCK_AHEAD_MAX + timedelta(seconds=1), database_at=START)


@pytest.mark.django_db
def test_the_database_shows_its_own_clock_even_inside_a_transaction() -> None:
    first, second = database_now(), database_now()

    assert first < second
    assert first.tzinfo is not None
    assert abs(second - datetime.now(tz=UTC)) < timedelta(minutes=1)


def test_a_watch_that_is_ahead_takes_no_lease_and_says_why(stage: Stage) -> None:
    stage.lead("before")
    ClusterWatch.objects.update(lease_until=None)
    stage.ahead_seconds = 7200
    stop = Impatient(looks_left=3)

    keep_watching(
        cluster_id=stage.cluster.pk, target=TARGET, watcher=replace(stage.watcher(), stop=stop)
    )

    watch = ClusterWatch.objects.get()
    assert (watch.lease_owner, watch.lease_until, watch.healthy_at) == ("before", None, None)
    assert watch.last_error == AHEAD
    assert len(stop.waits) == 2
    assert not WatchCursor.objects.exists()


def test_a_watch_that_is_ahead_says_nothing_of_one_that_is_led(stage: Stage) -> None:
    stage.lead("other")
    stage.ahead_seconds = 7200

    keep_watching(
        cluster_id=stage.cluster.pk,
        target=TARGET,
        watcher=replace(stage.watcher(), stop=Impatient(looks_left=2)),
    )

    watch = ClusterWatch.objects.get()
    assert (watch.lease_owner, watch.last_error) == ("other", "")


def test_a_clock_that_jumps_ahead_beats_no_more_and_vouches_for_nothing(stage: Stage) -> None:
    loop = stage.loop()
    turn_until(loop, lambda: ClusterWatch.objects.get().healthy_at == START)
    rows = PodAllocation.objects.filter(end_at__isnull=True).count()

    stage.forward(7200)
    stage.ahead_seconds = 7200
    ClusterWatch.objects.update(lease_until=datetime(2100, 1, 1, tzinfo=UTC))
    with pytest.raises(ClockAheadError):
        turn_until(loop, lambda: False)
    loop.abandon()

    (span,) = WatchSpan.objects.all()
    assert (span.begin_at, span.until_at) == (START, START)
    assert ClusterWatch.objects.get().healthy_at == START
    assert PodAllocation.objects.filter(end_at__isnull=True).count() == rows


def test_a_leader_whose_clock_jumps_ahead_gives_the_lease_back(stage: Stage) -> None:
    looks = iter([START, START])
    held = replace(stage.watcher(), database_clock=lambda: next(looks, START - timedelta(hours=2)))

    with pytest.raises(ClockAheadError):
        watch_cluster(cluster_id=stage.cluster.pk, target=TARGET, watcher=held)

    assert ClusterWatch.objects.get().lease_until is None
    assert not WatchSpan.objects.exists()

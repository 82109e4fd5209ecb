"""Several workers at once: each window is one worker's, and each hour is billed once."""

import threading
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest
from django.db import connections

from metering import tasks
from metering.models import MeteringWindow, UsageRecord
from metering.selectors import locks
from metering.services.collection.sweeping import CollectionSweep, meter_due
from metering.services.collection.windows import claim_windows, open_due_windows
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import HOUR, LATER, moment, observation, pod, ticks, worker

DUE = moment(3600 + LATER)


def at_once(*works: Callable[[], None]) -> None:
    """Start all of them together, each with a connection of its own, and wait."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], None]) -> None:
        barrier.wait(timeout=10)
        work()
        connections.close_all()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)


@pytest.mark.usefixtures("committed_db")
def test_workers_at_once_claim_disjoint_windows() -> None:
    make_cluster("a", metered_from=HOUR)
    make_cluster("b", metered_from=HOUR)
    at = DUE + timedelta(hours=29)
    assert open_due_windows(at=at) == 60
    claims: dict[str, list[int]] = {}

    def work(name: str) -> None:
        claims[name] = [
            claimed.id for _ in range(5) for claimed in claim_windows(worker=name, limit=3, at=at)
        ]

    at_once(*(lambda name=f"w{index}": work(name) for index in range(4)))

    taken = [window_id for ids in claims.values() for window_id in ids]
    assert len(taken) == len(set(taken)) == 60
    assert set(MeteringWindow.objects.values_list("attempt", flat=True)) == {1}


@pytest.mark.usefixtures("committed_db")
def test_sweeps_at_once_over_the_same_pods_bill_every_hour_once() -> None:
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))
    hours = [HOUR + timedelta(hours=hour) for hour in range(24)]
    seen = [
        observation(
            *(
                pod(f"uid-{index}", last_seen_at=moment(3600 + 307, start_at=h))
                for index in range(5)
            ),
            start_at=h,
            end_at=h + timedelta(hours=1),
            ticks=ticks(start_at=h),
        )
        for h in hours
    ]
    at = DUE + timedelta(hours=23)
    sweeps: list[CollectionSweep] = []

    def work(name: str) -> None:
        sweeps.append(meter_due(worker=worker(*seen, name=name), at=at))

    at_once(lambda: work("one"), lambda: work("two"), lambda: work("three"))

    assert sum(sweep.sealed for sweep in sweeps) == 24
    assert sum(sweep.failed for sweep in sweeps) == 0
    assert UsageRecord.objects.count() == 24 * 5
    assert set(UsageRecord.objects.values_list("unit_seconds", flat=True)) == {3600}


def test_a_tick_that_another_process_makes_is_left_to_it(
    superuser_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_cluster(metered_from=HOUR)
    woken: list[str] = []
    monkeypatch.setattr(tasks, "wake", woken.append)

    with psycopg.connect(superuser_url) as other:
        other.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))",
            [locks.TICK_LOCK_CLASS, "metering.tick_windows"],
        )
        tasks.tick_windows()

    assert woken == ["metering.meter_windows"]
    assert not MeteringWindow.objects.exists()

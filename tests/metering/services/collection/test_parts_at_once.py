"""Workers at once on one window of many pods: each part once, and the window finished once."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Barrier, Lock

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from metering.domain.collection.parts import Part
from metering.models import MeteringWindow, UsageRecord, WindowDivision
from metering.protocols import ClusterTarget
from metering.protocols.parts import Frame, PartObservation
from metering.services.collection.sweeping import Worker, meter_next
from metering.services.collection.windows import open_due_windows
from tenants.models import AuditEntry
from tests.metering.services.collection.test_division import (
    DUE,
    metered,
    set_the_stage,
    worker_of,
)
from tests.support.builders import bind, make_cluster
from tests.support.cast import make_cast
from tests.support.metering.ledger import everything
from tests.support.metering.seen import HOUR, ReplayedSource

WORKERS = 4


@dataclass
class CountingSource(ReplayedSource):
    """A source that counts how often it was asked about each part of each hour."""

    counts: Counter[tuple[datetime, str]] = field(default_factory=Counter)
    guard: Lock = field(default_factory=Lock)

    def observe_part(
        self, target: ClusterTarget, *, frame: Frame, as_of: datetime, part: Part
    ) -> PartObservation:
        """Count, and answer; see protocols.parts."""
        with self.guard:
            self.counts[frame.observation.start_at, part.text] += 1
        return super().observe_part(target, frame=frame, as_of=as_of, part=part)


def counting_worker(source: CountingSource, *, name: str) -> Worker:
    """Return a worker with a source that all of them share."""
    one = worker_of(16, name=name)
    return Worker(name=name, source=source, actor=one.actor, policy=one.policy)


def at_once(work: Callable[[str], None]) -> None:
    """Let workers begin at one time, each with a connection of its own."""
    together = Barrier(WORKERS)

    def run(name: str) -> None:
        together.wait()
        try:
            work(name)
        finally:
            connection.close()

    with ThreadPoolExecutor(WORKERS) as pool:
        for done in [pool.submit(run, f"worker-{number}") for number in range(WORKERS)]:
            done.result()


@pytest.mark.usefixtures("committed_db")
def test_workers_at_once_do_each_part_once_and_write_the_same_rows() -> None:
    expected = metered(1)
    set_the_stage()
    open_due_windows(at=DUE)
    replayed = worker_of(16).source
    assert isinstance(replayed, ReplayedSource)
    source = CountingSource(replayed.seen, counted=replayed.counted)

    def work(name: str) -> None:
        worker = counting_worker(source, name=name)
        while meter_next(worker=worker, at=DUE) is not None:
            pass

    at_once(work)
    work("last")

    assert everything() == expected
    assert set(source.counts.values()) == {1}
    assert len(source.counts) == 2 * 17
    assert not WindowDivision.objects.exists()
    seals = AuditEntry.objects.filter(action="metering:window:seal")
    assert seals.count() == MeteringWindow.objects.filter(state="sealed").count()


@pytest.mark.django_db
def test_the_page_of_an_hour_says_how_many_of_its_parts_are_done() -> None:
    people = make_cast()
    User.objects.update(is_staff=True)
    bind(make_cluster(metered_from=HOUR), "team-nlp", people.llm)
    open_due_windows(at=DUE)
    worker = worker_of(4)
    client = Client()
    client.force_login(people.ann)

    def page() -> str:
        window = MeteringWindow.objects.get(start_at=HOUR)
        answer = client.get(f"/admin/metering/meteringwindow/{window.pk}/change/")
        assert answer.status_code == 200
        return answer.content.decode()

    assert " of 5 " not in page()
    for _ in range(3):
        meter_next(worker=worker, at=DUE)
    assert "2 of 5 observed" in page()
    while not UsageRecord.objects.exists():
        meter_next(worker=worker, at=DUE)
    assert "of 5 posted" in page()
    while WindowDivision.objects.filter(window__start_at=HOUR).exists():
        meter_next(worker=worker, at=DUE + timedelta(seconds=1))
    assert " of 5 " not in page()

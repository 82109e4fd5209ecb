"""Load on a ledger: two workers meter a day, and a webhook admits pods, whatever happens to it."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Self

from django.db import Error, connections, transaction

from metering.domain.collection.windows import DEFAULT_POLICY
from metering.models import MeteringWindow, UsageRecord
from metering.protocols import Observation
from metering.services.collection.sweeping import meter_due
from quotas.models import Reservation
from quotas.services.limits.changes import open_counter
from tenants.models import Cluster
from tests.quotas.webhook.conftest import Webhooks, make_node
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project
from tests.support.metering.seen import HOUR, LATER, moment, observation, pod, ticks, worker
from tests.support.quotas.admitting import drifted
from tests.support.quotas.builders import make_limit
from tests.support.quotas.reviews import pod as asking_pod

HOURS, PODS = 48, 5
WORKERS = 2
DONE_SECONDS = 240
DUE = moment(3600 + LATER) + timedelta(hours=HOURS - 1)
DECIDED_SECONDS = 30
LEASE_SECONDS = 10
"""A worker that lost its connection leaves its hour to another one after so long."""


class Load:
    """Work that goes on through an outage, and what was acknowledged of it."""

    def __init__(self) -> None:
        """Make two clusters: one is metered, the other admits."""
        acme = make_organization()
        project = make_project(acme)
        bind(make_cluster("hopper", metered_from=HOUR), "team-nlp", project)
        self.admitting: Cluster = make_cluster(
            "ampere",
            metered_from=DUE + timedelta(days=365),
            is_watched=True,
            admission_mode="enforce",
            admission_on_failure="deny",
        )
        make_node(self.admitting)
        bind(self.admitting, "team-llm", project)
        with transaction.atomic():
            open_counter(limit=make_limit(acme, project, units=100_000), at=AT)
        self.admitted: list[str] = []
        self.undecided = 0
        self.slowest_seconds = 0
        self.errors = 0
        self._stopped = threading.Event()
        works = [*(self._metering(f"w{number}") for number in range(WORKERS)), self._admit]
        self._threads = [threading.Thread(target=self._repeat, args=(work,)) for work in works]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End, wait for what is under way, and ask for the last pod until it is decided.

        A question that broke off may have been counted: its controller asks again.
        """
        self._stopped.set()
        for thread in self._threads:
            thread.join(DONE_SECONDS)
        count, deadline = len(self.admitted), time.monotonic() + DECIDED_SECONDS
        while len(self.admitted) == count and time.monotonic() < deadline:
            self._admit()
            time.sleep(0.2)

    def await_windows(self, count: int = HOURS) -> None:
        """Wait until so many hours are sealed.

        Raises:
            TimeoutError: They are not, in four minutes.
        """
        deadline = time.monotonic() + DONE_SECONDS
        while time.monotonic() < deadline:
            with suppress(Error):
                if MeteringWindow.objects.filter(state="sealed").count() >= count:
                    return
            connections.close_all()
            time.sleep(0.2)
        raise TimeoutError(f"Fewer than {count} hours are sealed.")

    def check(self) -> None:
        """Hold the ledger against what was acknowledged: nothing lost, nothing twice."""
        assert set(MeteringWindow.objects.values_list("state", flat=True)) == {"sealed"}
        assert UsageRecord.objects.count() == HOURS * PODS
        assert set(UsageRecord.objects.values_list("unit_seconds", flat=True)) == {3600}
        counted = set(Reservation.objects.values_list("pod_uid", flat=True))
        assert sorted(self.admitted) == sorted(counted)
        assert drifted() == []

    def _repeat(self, work: Callable[[], None]) -> None:
        """Do a kind of work over and over, as a process that is started again after each error."""
        while not self._stopped.is_set():
            try:
                work()
            except Error:
                self.errors += 1
                connections.close_all()
            time.sleep(0.05)
        connections.close_all()

    def _metering(self, name: str) -> Callable[[], None]:
        seen = [_hour(number) for number in range(HOURS)]
        policy = replace(DEFAULT_POLICY, lease_seconds=LEASE_SECONDS, attempts_max=1000)
        metering = replace(worker(*seen, name=name), policy=policy)
        return lambda: self._count(meter_due(worker=metering, at=DUE).failed)

    def _count(self, failed: int) -> None:
        self.errors += failed

    def _admit(self) -> None:
        """Ask for the next pod, and again until it is decided, as a controller does."""
        uid = f"pod-{len(self.admitted)}"
        asked = asking_pod(1)
        asked["metadata"] = {**asked["metadata"], "uid": uid, "name": uid}
        begin = time.monotonic()
        answer = Webhooks("ampere").admit(asked)
        self.slowest_seconds = max(self.slowest_seconds, int(time.monotonic() - begin))
        if answer.status == 200 and answer.is_allowed:
            self.admitted.append(uid)
        else:
            self.undecided += 1


def _hour(number: int) -> Observation:
    start_at = HOUR + timedelta(hours=number)
    pods = (
        pod(f"uid-{index}", last_seen_at=moment(3600 + 307, start_at=start_at))
        for index in range(PODS)
    )
    return observation(
        *pods,
        start_at=start_at,
        end_at=start_at + timedelta(hours=1),
        ticks=ticks(start_at=start_at),
    )

"""A stage for the loop: a simulated cluster, a clock and a pulse that are put forward by hand."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

from metering.protocols.watch import ClusterWatchSource, WatchTarget
from metering.services.allocations.heartbeats import WatchPace
from metering.services.allocations.leading import Leader, Watcher
from metering.services.allocations.leases import Lease, take_lease
from metering.services.allocations.loop import WatchLoop
from simulator.adapters.cluster_watch import SimulatedClusterWatch
from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.scenario import USER_LABEL, Scenario
from tenants.domain.actors import system_actor
from tenants.models import Cluster

MONTH = datetime(2026, 10, 1, tzinfo=UTC)
START = MONTH + timedelta(hours=53)
ACTOR = system_actor("tests.watch")
TARGET = WatchTarget("hopper", user_label=USER_LABEL)
TURNS_MAX = 400


@cache
def scenario() -> Scenario:
    """Return the standard scenario of some days."""
    return demo_scenario(1, MONTH, MONTH + timedelta(days=4))


@dataclass
class Stage:
    """One cluster, and a process that may lead its watch.

    Attributes:
        at: The present moment.
        pulse: Seconds that only grow; put forward with the moment.
        ahead_seconds: How far the moment lies after what the database takes for it.
    """

    cluster: Cluster
    at: datetime = START
    pulse: int = 1_000
    name: str = "one"
    target: WatchTarget = TARGET
    pace: WatchPace = field(default_factory=lambda: WatchPace(quiet_seconds=0, batch_seconds=0))
    history_seconds: int = 0
    watch: ClusterWatchSource | None = None
    ahead_seconds: int = 0
    is_live: bool = False
    """Whether the pulse goes on by itself, so that streams that failed are tried again."""
    started: float = field(default_factory=time.monotonic)

    def watcher(self) -> Watcher:
        """Return a process with a watch of the scenario."""
        watch = self.watch or SimulatedClusterWatch(
            scenario=scenario(), history_seconds=self.history_seconds, clock=lambda: self.at
        )
        return Watcher(
            name=self.name,
            watch=watch,
            actor=ACTOR,
            clock=lambda: self.at,
            pace=self.pace,
            pulse=self._pulse,
            database_clock=lambda: self.at - timedelta(seconds=self.ahead_seconds),
        )

    def _pulse(self) -> int:
        passed = int(time.monotonic() - self.started) if self.is_live else 0
        return self.pulse + passed

    def lead(self, name: str = "") -> Lease:
        """Return the lease."""
        lease = take_lease(
            cluster_id=self.cluster.pk,
            holder=name or self.name,
            lease_seconds=self.pace.lease_seconds,
            actor=ACTOR,
            at=self.at,
        )
        assert lease is not None
        return lease

    def loop(self) -> WatchLoop:
        """Return a loop that leads."""
        leader = Leader(lease=self.lead(), target=self.target, watcher=self.watcher())
        return WatchLoop(leader=leader, cluster_id=self.cluster.pk)

    def tick(self) -> None:
        """Put clock and pulse forward by a second."""
        self.forward(1)

    def forward(self, seconds: int) -> None:
        """Put clock and pulse forward."""
        self.at += timedelta(seconds=seconds)
        self.pulse += seconds


def turn_until(
    loop: WatchLoop, is_done: Callable[[], bool], *, each: Callable[[], None] = lambda: None
) -> None:
    """Take turns until something holds, and do `each` after every one."""
    for _ in range(TURNS_MAX):
        loop.turn()
        each()
        if is_done():
            return
    raise AssertionError(f"not reached within {TURNS_MAX} turns")

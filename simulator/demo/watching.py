"""The demo's watch: a month of Kubernetes watch events, replayed in seconds.

One cluster of the demo has two sources and the other only Prometheus, so that both can be
compared. History is written to the ledger by the same services as a live watch; afterwards
`watch_cluster` continues where it ended.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from metering.models import ClusterWatch, WatchSpan
from metering.protocols.watch import WatchedKind, WatchTarget
from metering.selectors.allocations.watch import cursor_of
from metering.services.allocations.heartbeats import beat
from metering.services.allocations.leases import Lease, release_lease, take_lease
from metering.services.allocations.lists import ledger_events, ledger_list
from simulator.adapters.cluster_watch import SimulatedClusterWatch
from simulator.cluster.demo_tenancy import HOPPER
from simulator.cluster.scenario import Scenario
from tenants.domain.actors import Actor, system_actor
from tenants.models import Cluster

WATCHED: Final = (HOPPER,)
"""Clusters with two sources."""
STEP: Final = timedelta(days=1)
EVENTS_MAX: Final = 500
LEASE_SECONDS: Final = 300
ACTOR: Final = system_actor("demo.watch")
Report = Callable[[datetime], None]


class AlreadyWatchedError(Exception):
    """Raised when another process leads the watch of a cluster."""


def tell_watch(
    scenario: Scenario,
    *,
    slug: str,
    begin_at: datetime,
    until: datetime,
    at: datetime,
    report: Report = lambda _: None,
) -> None:
    """Write a cluster's watch events from a time on to the ledger; resume after an interruption.

    Args:
        scenario: The world.
        slug: A watched cluster of it.
        begin_at: When the watch began.
        until: The end of the replay; not after now.
        at: Now.
        report: Called with the time reached.

    Raises:
        AlreadyWatchedError: Another process leads the watch of this cluster.
    """
    cluster = Cluster.objects.get(slug=slug)
    lease = take_lease(
        cluster_id=cluster.pk,
        holder="demo",
        lease_seconds=LEASE_SECONDS,
        actor=ACTOR,
        at=at,
    )
    if lease is None:
        raise AlreadyWatchedError(f"Another process watches {slug}.")
    history = _History(scenario, cluster=cluster, lease=lease, actor=ACTOR)
    moment = history.begin(begin_at)
    while moment < until:
        moment = min(moment + STEP, until)
        history.go_on_to(moment)
        report(moment)
    release_lease(lease=lease)


class _History:
    """One cluster's history, replayed step by step with a clock that the caller advances."""

    def __init__(self, scenario: Scenario, *, cluster: Cluster, lease: Lease, actor: Actor) -> None:
        self._clock = scenario.begin_at
        self._watch = SimulatedClusterWatch(scenario=scenario, clock=lambda: self._clock)
        self._target = WatchTarget(slug=cluster.slug, user_label=cluster.user_label)
        self._cluster = cluster
        self._lease = lease
        self._actor = actor

    def begin(self, begin_at: datetime) -> datetime:
        """List everything at the begin, or return the time that an earlier replay reached."""
        healthy = ClusterWatch.objects.get(cluster=self._cluster).healthy_at
        if healthy is not None:
            return healthy
        self._clock = begin_at
        for kind in (WatchedKind.NODES, WatchedKind.PODS):
            ledger_list(
                lease=self._lease,
                kind=kind,
                pages=self._watch.list(self._target, kind),
                at=begin_at,
                actor=self._actor,
            )
        beat(lease=self._lease, at=begin_at)
        return begin_at

    def go_on_to(self, moment: datetime) -> None:
        """Replay the events until a time, with a watch that was healthy throughout."""
        self._clock = moment
        # A live watch reports its health every few seconds. Here one report covers the whole step,
        # written before the events, so that they count as prompt.
        newest = WatchSpan.objects.filter(cluster=self._cluster).latest("begin_at")
        WatchSpan.objects.filter(pk=newest.pk).update(until_at=moment)
        ClusterWatch.objects.filter(cluster=self._cluster).update(healthy_at=moment)
        for kind in (WatchedKind.NODES, WatchedKind.PODS):
            self._tell(kind, moment)

    def _tell(self, kind: WatchedKind, moment: datetime) -> None:
        version = cursor_of(self._cluster.pk, kind)
        assert version is not None  # noqa: S101 - It was listed before; narrows the type.
        events = self._watch.watch(
            self._target, kind, resource_version=version, timeout_seconds=LEASE_SECONDS
        )
        while batch := tuple(islice(events, EVENTS_MAX)):
            ledger_events(lease=self._lease, kind=kind, events=batch, at=moment, actor=self._actor)

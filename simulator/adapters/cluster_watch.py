"""The watch of a simulated cluster: its scenario as a list and as events in time order.

It uses no network and never blocks: a stream returns all events until now, by the scenario's own
clock, and ends. With a clock that a test advances, a month is replayed in seconds.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from metering.domain.catalogue.names import DEVICE_NAMES
from metering.domain.catalogue.units import sanitise
from metering.protocols import ContainerKind, ContainerRequest
from metering.protocols.watch import (
    Change,
    ListPage,
    NodeState,
    ObjectState,
    PodState,
    WatchedKind,
    WatchEvent,
    WatchExpiredError,
    WatchTarget,
)
from simulator.cluster.demo_scenario import (
    SCRAPE_INTERVAL_SECONDS,
    demo_scenario,
)
from simulator.cluster.exporters.exporter import GrowingScenario
from simulator.cluster.scenario import (
    USER_LABEL,
    ContainerRole,
    Node,
    Pod,
    Scenario,
    SimulatedCluster,
)
from tenants.domain.errors import SourceUnavailableError

GPU_RESOURCES: Final = re.compile(DEVICE_NAMES)
PAGE_OBJECTS: Final = 500
GRACE: Final = timedelta(seconds=30)
"""Between the request to delete a pod and its deletion time."""
SERVED: Final = frozenset({WatchedKind.PODS, WatchedKind.NODES})
_PER_SECOND: Final = 100_000
"""A version is the second times this, plus the place within the second."""


@dataclass(frozen=True)
class _Moment:
    """One pod's change: its time, its order, and its event."""

    version: int
    at: datetime
    change: Change
    pod: Pod


class SimulatedClusterWatch:
    """The API of a simulated cluster; resource versions are seconds.

    Args:
        seed: Of the standard scenario.
        month_start: Begin of its month, aware, or ISO 8601 text as a setting has it.
        scenario: A scenario of one's own instead; the arguments above are ignored then.
        history_seconds: How old a version may be before it is expired (410 Gone); 0 for any age.
        clock: Returns the present moment, aware UTC.
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        month_start: datetime | str = "2026-10-01T00:00:00+00:00",
        scenario: Scenario | None = None,
        history_seconds: int = 0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare; nothing is made yet."""
        begin = (
            datetime.fromisoformat(month_start) if isinstance(month_start, str) else month_start
        ).astimezone(UTC)

        def make(until: datetime) -> Scenario:
            if scenario is not None:
                return scenario
            return demo_scenario(
                seed, begin, until, scrape_interval_seconds=SCRAPE_INTERVAL_SECONDS
            )

        self._scenario = GrowingScenario(make)
        self._history = timedelta(seconds=history_seconds)
        self._clock = clock
        self._moments: dict[str, tuple[SimulatedCluster, tuple[_Moment, ...]]] = {}

    def serves(self, target: WatchTarget, kind: WatchedKind) -> bool:
        """Whether the scenario has this kind; see `ClusterWatch.serves`."""
        self._cluster(target, self._now())
        return kind in SERVED

    def list(self, target: WatchTarget, kind: WatchedKind) -> Iterator[ListPage]:
        """Yield the present objects; see `ClusterWatch.list`."""
        at = self._now()
        cluster = self._cluster(target, at)
        states: tuple[ObjectState, ...] = ()
        if kind is WatchedKind.PODS:
            states = tuple(self._pods(cluster, at, target.user_label))
        elif kind is WatchedKind.NODES:
            states = tuple(_node_state(node) for node in cluster.nodes)
        version = str(_last_version(at))
        for first in range(0, max(1, len(states)), PAGE_OBJECTS):
            yield ListPage(states[first : first + PAGE_OBJECTS], version)

    def watch(
        self, target: WatchTarget, kind: WatchedKind, *, resource_version: str, timeout_seconds: int
    ) -> Iterator[WatchEvent]:
        """Yield everything that happened from a version until now; see `ClusterWatch.watch`."""
        del timeout_seconds  # It never waits.
        at = self._now()
        since = self._known(resource_version, at)
        cluster = self._cluster(target, at)
        yield WatchEvent(Change.BOOKMARK, resource_version, at)
        if kind is WatchedKind.PODS:
            for moment in self._moments_in(cluster):
                if since < moment.version <= _last_version(at):
                    yield _event(moment, target.user_label)
        yield WatchEvent(Change.BOOKMARK, str(max(since, _last_version(at))), at)

    def _now(self) -> datetime:
        return self._clock().astimezone(UTC).replace(microsecond=0)

    def _known(self, version: str, at: datetime) -> int:
        if not version.isascii() or not version.isdigit():
            raise SourceUnavailableError("This is no version of ours.", reason="http_error")
        if self._history and int(version) < _last_version(at - self._history):
            raise WatchExpiredError(f"too old resource version: {version}")
        return int(version)

    def _cluster(self, target: WatchTarget, at: datetime) -> SimulatedCluster:
        exposition = self._scenario.expositions(at).get(target.slug)
        if exposition is None:
            raise SourceUnavailableError(
                "The simulated scenario has no cluster of this name.", reason="bad_target"
            )
        return exposition.cluster

    def _pods(self, cluster: SimulatedCluster, at: datetime, label: str) -> Iterator[PodState]:
        latest = {moment.pod.uid: moment for moment in self._moments_in(cluster) if moment.at <= at}
        for pod in cluster.objects(at):
            if pod.uid in latest:
                yield _pod_state(pod, at, latest[pod.uid].version, label)

    def _moments_in(self, cluster: SimulatedCluster) -> tuple[_Moment, ...]:
        """Return every change of a cluster's GPU pods, in order; worked out once per growth."""
        known = self._moments.get(cluster.slug)
        if known is None or known[0] is not cluster:
            known = self._moments[cluster.slug] = (cluster, _moments_of(cluster))
        return known[1]


def _moments_of(cluster: SimulatedCluster) -> tuple[_Moment, ...]:
    changes = sorted(
        (
            (at, pod.uid, change, pod)
            for pod in cluster.pods
            if _requests(pod)
            for at, change in _changes(pod)
        ),
        key=lambda one: one[:2],
    )
    moments = []
    second, place = datetime.min.replace(tzinfo=UTC), 0
    for at, _, change, pod in changes:
        second, place = at, place + 1 if at == second else 0
        moments.append(_Moment(int(at.timestamp()) * _PER_SECOND + place, at, change, pod))
    return tuple(moments)


def _changes(pod: Pod) -> Iterator[tuple[datetime, Change]]:
    """Yield when a pod's object changed, each moment once; the last one may be its removal."""
    later = {
        pod.scheduled_at,
        pod.started_at,
        pod.helper_finished_at,
        pod.finished_at,
        pod.rejected_at,
        pod.deletion_requested_at,
    }
    yield pod.created_at, Change.ADDED
    for at in sorted(one for one in later if one is not None):
        if at > pod.created_at and (pod.deleted_at is None or at < pod.deleted_at):
            yield at, Change.MODIFIED
    if pod.deleted_at is not None:
        yield pod.deleted_at, Change.DELETED


def _event(moment: _Moment, label: str) -> WatchEvent:
    return WatchEvent(
        change=moment.change,
        resource_version=str(moment.version),
        received_at=moment.at,
        state=_pod_state(moment.pod, moment.at, moment.version, label),
    )


def _pod_state(pod: Pod, at: datetime, version: int, label: str) -> PodState:
    asked_to_go = _until(pod.deletion_requested_at, at)
    return PodState(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        resource_version=str(version),
        node=pod.node if _until(pod.scheduled_at, at) else "",
        phase=str(pod.phase(at)),
        created_at=pod.created_at,
        reason="UnexpectedAdmissionError" if _until(pod.rejected_at, at) else "",
        requests=_requests(pod),
        scheduled_at=_until(pod.scheduled_at, at),
        started_at=_until(pod.started_at, at),
        finished_at=_until(pod.finished_at, at),
        deletion_at=None if asked_to_go is None else asked_to_go + GRACE,
        owner=pod.owner if label and sanitise(label) == sanitise(USER_LABEL) else "",
        controller=f"{pod.owner_kind}/{pod.owner_name}",
        priority_class=pod.priority_class,
    )


def _until(moment: datetime | None, at: datetime) -> datetime | None:
    return moment if moment is not None and moment <= at else None


def _requests(pod: Pod) -> tuple[ContainerRequest, ...]:
    before = [one for one in pod.containers if one.kind is not ContainerRole.REGULAR]
    regular = [one for one in pod.containers if one.kind is ContainerRole.REGULAR]
    return tuple(
        ContainerRequest(container.name, ContainerKind(container.kind), resource, units, order)
        for order, container in [*enumerate(before), *((None, one) for one in regular)]
        for resource, units in container.requests.items()
        if units and GPU_RESOURCES.fullmatch(resource)
    )


def _node_state(node: Node) -> NodeState:
    return NodeState(
        uid=f"node-{node.name}",
        name=node.name,
        resource_version="1",
        labels=dict(node.labels),
        allocatable={
            name: units for name, units in node.allocatable.items() if GPU_RESOURCES.fullmatch(name)
        },
    )


def _last_version(at: datetime) -> int:
    """Return the version after everything that happens in a second."""
    return int(at.timestamp()) * _PER_SECOND + _PER_SECOND - 1

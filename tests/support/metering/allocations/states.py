"""What an API may have reported: plain builders of states and events, and a watch to ledger them.

Times are reported in seconds from `HOUR`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from metering.models import PodAllocation
from metering.protocols import ContainerKind, ContainerRequest
from metering.protocols.watch import (
    Change,
    ClaimedDevice,
    ClaimState,
    ClassState,
    ListPage,
    NodeState,
    ObjectState,
    PodState,
    SliceState,
    WatchedKind,
    WatchEvent,
)
from metering.services.allocations.heartbeats import beat
from metering.services.allocations.leases import Lease, take_lease
from metering.services.allocations.lists import ledger_events, ledger_list
from metering.services.allocations.states import Ledgered
from tests.support.metering.seen import ACTOR, HOUR, moment

GPU = "nvidia.com/gpu"
DRIVER = "gpu.nvidia.com"
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": "1"}
LEASE_SECONDS = 60


def reported_pod(
    uid: str = "uid-1",
    *,
    units: int = 1,
    resource: str = GPU,
    bound: int | None = 0,
    started: int | None = 20,
    finished: int | None = None,
    deletion: int | None = None,
    **fields: object,
) -> PodState:
    """Return a pod that was bound at the hour's start and runs."""
    defaults: dict[str, object] = {
        "uid": uid,
        "namespace": "team-nlp",
        "name": f"pod-{uid}",
        "resource_version": "1",
        "node": "" if bound is None else "node-1",
        "phase": "Succeeded" if finished is not None else "Running",
        "created_at": moment(-30 if bound is None else bound - 30),
        "requests": (ContainerRequest("main", ContainerKind.REGULAR, resource, units),),
        "scheduled_at": None if bound is None else moment(bound),
        "started_at": None if bound is None or started is None else moment(bound + started),
        "finished_at": None if finished is None else moment(finished),
        "deletion_at": None if deletion is None else moment(deletion),
        "owner": "ada",
        "controller": "Job/train",
        "priority_class": "batch",
        "priority": 10,
    }
    return PodState(**{**defaults, **fields})  # type: ignore[arg-type]


def reported_node(name: str = "node-1", **fields: object) -> NodeState:
    """Return a ready node with eight whole GPUs."""
    defaults: dict[str, object] = {
        "uid": f"uid-of-{name}",
        "name": name,
        "resource_version": "1",
        "labels": H100,
        "allocatable": {GPU: 8},
    }
    return NodeState(**{**defaults, **fields})  # type: ignore[arg-type]


def reported_slice(name: str = "slice-1", **fields: object) -> SliceState:
    """Return a slice that offers one whole H100 and one MIG instance of another."""
    product = "NVIDIA H100 80GB HBM3"
    defaults: dict[str, object] = {
        "uid": f"uid-of-{name}",
        "name": name,
        "resource_version": "1",
        "driver": DRIVER,
        "pool": "node-1",
        "node": "node-1",
        "devices": {
            "gpu-0": {"type": "gpu", "uuid": "GPU-0", "productName": product},
            "gpu-1-mig-1": {"type": "mig", "productName": product, "profile": "1g.10gb"},
        },
    }
    return SliceState(**{**defaults, **fields})  # type: ignore[arg-type]


def reported_claim(
    uid: str = "claim-1",
    *,
    devices: Sequence[str] = ("gpu-0",),
    consumers: Sequence[str] = (),
    device_class: str = DRIVER,
    **fields: object,
) -> ClaimState:
    """Return a claim that holds these devices for these pods."""
    defaults: dict[str, object] = {
        "uid": uid,
        "namespace": "team-nlp",
        "name": f"name-of-{uid}",
        "resource_version": "1",
        "created_at": moment(-60),
        "devices": tuple(ClaimedDevice(device_class, DRIVER, "node-1", name) for name in devices),
        "consumers": tuple((pod, f"pod-{pod}") for pod in consumers),
    }
    return ClaimState(**{**defaults, **fields})  # type: ignore[arg-type]


KINDS = {
    PodState: WatchedKind.PODS,
    NodeState: WatchedKind.NODES,
    ClaimState: WatchedKind.CLAIMS,
    SliceState: WatchedKind.SLICES,
    ClassState: WatchedKind.CLASSES,
}


def event(state: ObjectState, second: int, change: Change = Change.MODIFIED) -> WatchEvent:
    """Return a change that came in so many seconds after the hour's start."""
    return WatchEvent(change, state.resource_version, moment(second), state)


def deleted(state: ObjectState, second: int) -> WatchEvent:
    """Return a deletion."""
    return event(state, second, Change.DELETED)


def pages(states: Sequence[ObjectState], *, version: str = "100", size: int = 2) -> list[ListPage]:
    """Return a list in pages, at least one."""
    parts = [tuple(states[i : i + size]) for i in range(0, len(states), size)] or [()]
    return [ListPage(part, version) for part in parts]


@dataclass
class Watching:
    """A process that leads one cluster's watch; seconds count from the hour's start."""

    lease: Lease

    def list(
        self,
        second: int,
        *states: ObjectState,
        kind: WatchedKind | None = None,
        version: str = "100",
        is_afresh: bool = True,
        is_sure: bool = False,
    ) -> Ledgered:
        """Ledger a complete list of one kind, pods unless set otherwise."""
        reported = kind or (KINDS[type(states[0])] if states else WatchedKind.PODS)
        return ledger_list(
            lease=self.lease,
            kind=reported,
            pages=iter(pages(states, version=version)),
            at=moment(second),
            actor=ACTOR,
            is_afresh=is_afresh,
            is_sure=is_sure,
        )

    def tell(self, *events: WatchEvent) -> Ledgered:
        """Ledger some events of one kind, as they came."""
        state = next(item.state for item in events if item.state is not None)
        return ledger_events(
            lease=self.lease,
            kind=KINDS[type(state)],
            events=events,
            at=events[-1].received_at,
            actor=ACTOR,
        )

    def beat(self, second: int, *, since: int | None = None) -> None:
        """Tell that all is well."""
        listed_at = None if since is None else moment(since)
        beat(lease=self.lease, at=moment(second), since=listed_at)


def lead(cluster_id: UUID, holder: str = "watcher-1") -> Watching:
    """Return a process that leads a cluster's watch from now on."""
    lease = take_lease(
        cluster_id=cluster_id, holder=holder, lease_seconds=LEASE_SECONDS, actor=ACTOR, at=HOUR
    )
    assert lease is not None
    return Watching(lease)


def second_of(at: datetime | None) -> int | None:
    """Return a time in seconds from the hour's start."""
    return None if at is None else int((at - HOUR).total_seconds())


def ends() -> list[tuple[str, int | None, int | None, str, int]]:
    """Return uid, begin, end, kind of end and slack of every row, by uid and resource."""
    return [
        (
            row.pod_uid,
            second_of(row.begin_at),
            second_of(row.end_at),
            row.end_kind,
            row.end_slack_seconds,
        )
        for row in PodAllocation.objects.order_by("pod_uid", "resource")
    ]

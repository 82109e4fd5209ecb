"""Lanes: a lane owns some devices and runs one pod after another on them, for ever.

Because a lane's devices are its own, capacity holds by construction; because each lane draws from
its own stream of random numbers, a later horizon adds pods and changes none.
"""

import itertools
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from simulator.cluster.hardware import TrueShare
from simulator.cluster.scenario import (
    USER_LABEL,
    Container,
    DeviceSlot,
    Pod,
    PodPhase,
)

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet Kubernetes makes name suffixes of."""


class LaneKind(StrEnum):
    """How the pods of a lane run and end."""

    SERVICE = "service"
    STATEFUL = "stateful"
    NOTEBOOK = "notebook"
    BATCH = "batch"
    SHORT = "short"


@dataclass(frozen=True)
class Workload:
    """What a lane may run; `owners` are values of the user label, "" for a pod without it."""

    namespace: str
    base: str
    owners: tuple[str, ...]
    priority_class: str = "gpu-standard"


@dataclass(frozen=True)
class Lane:
    """Devices of one node and what runs on them, one pod after another.

    Attributes:
        containers: Overrides the single container with all requests.
        units: Effective request of each pod.
    """

    name: str
    node: str
    slots: tuple[DeviceSlot, ...]
    share: TrueShare
    kind: LaneKind
    workloads: tuple[Workload, ...]
    units: int = 1
    containers: tuple[Container, ...] = ()


@dataclass(frozen=True)
class _Life:
    """The duration of each phase of a pod, in whole seconds.

    Attributes:
        idle: From the end of the pod before to this one's bind.
        queued: From creation to bind.
        starting: From bind to running.
        running: From running to the end.
        kept: From the end to the object's removal; 0 when it is deleted while running.
    """

    idle: int
    queued: int
    starting: int
    running: int
    kept: int


def random_stream(seed: int, name: str) -> random.Random:
    """Return the stream of random numbers of one lane or incident."""
    return random.Random(f"{seed}/{name}")  # noqa: S311 - A simulation, repeatable by design.


def pods_of(lane: Lane, *, seed: int, begin_at: datetime, until: datetime) -> Iterator[Pod]:
    """Yield a lane's pods created before `until`, oldest first; some began before `begin_at`."""
    stream = random_stream(seed, lane.name)
    free_at = begin_at - timedelta(seconds=stream.randint(*_LEADS[lane.kind]))
    for number in itertools.count():
        pod = _pod(lane, stream, number=number, free_at=free_at)
        if pod.created_at >= until or pod.end_at is None:
            return
        yield pod
        free_at = pod.end_at


def _pod(lane: Lane, stream: random.Random, *, number: int, free_at: datetime) -> Pod:
    life = _LIVES[lane.kind](stream)
    workload = stream.choice(lane.workloads)
    scheduled_at = free_at + timedelta(seconds=life.idle)
    started_at = scheduled_at + timedelta(seconds=life.starting)
    ended_at = started_at + timedelta(seconds=life.running)
    owner = stream.choice(workload.owners)
    pod = Pod(
        uid=str(uuid.UUID(int=stream.getrandbits(128), version=4)),
        namespace=workload.namespace,
        name=_name(lane, workload, stream, number),
        node=lane.node,
        created_at=scheduled_at - timedelta(seconds=life.queued),
        scheduled_at=scheduled_at,
        started_at=started_at,
        finished_at=ended_at,
        deleted_at=ended_at + timedelta(seconds=life.kept),
        end_phase=PodPhase.SUCCEEDED if stream.random() < _SUCCESS else PodPhase.FAILED,
        containers=lane.containers or _containers(lane),
        resource=lane.share.resource,
        labels=pod_labels(workload.base, owner),
        owner=owner,
        owner_kind=_OWNER_KINDS[lane.kind],
        owner_name=workload.base if lane.kind is not LaneKind.SERVICE else f"{workload.base}-rs",
        priority_class=workload.priority_class,
        slots=lane.slots,
        true_units=lane.units if lane.share.size else 0,
        true_size=lane.share.size,
        true_price_group=lane.share.price_group,
        true_sharing_mode=lane.share.sharing_mode,
    )
    return _with_ending(pod, stream, kept=life.kept)


def pod_labels(application: str, owner: str) -> dict[str, str]:
    """Return a pod's raw labels: the application, and the owner where there is one."""
    return {"app": application} | ({USER_LABEL: owner} if owner else {})


def _with_ending(pod: Pod, stream: random.Random, *, kept: int) -> Pod:
    """Settle how a pod ends: deleted while running, or finished, sometimes with an early helper."""
    has_helper = stream.random() < _HELPER_SHARE
    if pod.started_at is None or pod.deleted_at is None:
        return pod
    if not kept:
        grace = timedelta(seconds=stream.randint(2, 30))
        return replace(
            pod,
            finished_at=None,
            end_phase=PodPhase.RUNNING,
            deletion_requested_at=max(pod.started_at, pod.deleted_at - grace),
        )
    if not has_helper:
        return pod
    return replace(
        pod,
        containers=(*pod.containers, Container("warm-cache")),
        helper_finished_at=pod.started_at + timedelta(seconds=20),
    )


def _containers(lane: Lane) -> tuple[Container, ...]:
    name = "server" if lane.kind is LaneKind.SERVICE else "main"
    return (Container(name, requests={lane.share.resource: lane.units}),)


def _name(lane: Lane, workload: Workload, stream: random.Random, number: int) -> str:
    suffix = "".join(stream.choices(_LETTERS, k=5))
    if lane.kind in {LaneKind.STATEFUL, LaneKind.NOTEBOOK}:
        return f"{workload.base}-{lane.name}-0"
    if lane.kind is LaneKind.SERVICE:
        return f"{workload.base}-{lane.name}-{suffix}"
    return f"{workload.base}-{lane.name}-{number}-{suffix}"


def _service(stream: random.Random) -> _Life:
    return _Life(
        idle=stream.randint(1, 20),
        queued=stream.randint(0, 3),
        starting=stream.randint(15, 180),
        running=stream.randint(2 * _DAY, 12 * _DAY),
        kept=0,
    )


def _stateful(stream: random.Random) -> _Life:
    return _Life(
        idle=stream.randint(5, 90),
        queued=stream.randint(0, 3),
        starting=stream.randint(10, 120),
        running=stream.randint(12 * _HOUR, 4 * _DAY),
        kept=0,
    )


def _notebook(stream: random.Random) -> _Life:
    return _Life(
        idle=stream.randint(_HOUR, 8 * _HOUR),
        queued=stream.randint(0, 2),
        starting=stream.randint(5, 60),
        running=stream.randint(6 * _HOUR, 40 * _HOUR),
        kept=0,
    )


def _batch(stream: random.Random) -> _Life:
    return _Life(
        idle=stream.randint(1 * _MINUTE, 90 * _MINUTE),
        queued=stream.randint(1, 40 * _MINUTE),
        starting=stream.randint(10, 150),
        running=stream.randint(1 * _HOUR, 20 * _HOUR),
        kept=_kept(stream),
    )


def _short(stream: random.Random) -> _Life:
    return _Life(
        idle=stream.randint(30, 25 * _MINUTE),
        queued=stream.randint(0, 60),
        starting=stream.randint(2, 30),
        running=int(stream.triangular(60, 100 * _MINUTE, 20 * _MINUTE)),
        kept=_kept(stream),
    )


def _kept(stream: random.Random) -> int:
    """Return how long a finished object stays: minutes as a rule, hours now and then."""
    minutes = stream.randint(5 * _MINUTE, 15 * _MINUTE)
    hours = stream.randint(2 * _HOUR, 10 * _HOUR)
    return hours if stream.random() < _KEPT_HOURS_SHARE else minutes


_SUCCESS: Final = 0.9
_HELPER_SHARE: Final = 0.1
_KEPT_HOURS_SHARE: Final = 0.08
_LIVES: Final[dict[LaneKind, Callable[[random.Random], _Life]]] = {
    LaneKind.SERVICE: _service,
    LaneKind.STATEFUL: _stateful,
    LaneKind.NOTEBOOK: _notebook,
    LaneKind.BATCH: _batch,
    LaneKind.SHORT: _short,
}
_LEADS: Final[dict[LaneKind, tuple[int, int]]] = {
    LaneKind.SERVICE: (1 * _DAY, 4 * _DAY),
    LaneKind.STATEFUL: (1 * _DAY, 3 * _DAY),
    LaneKind.NOTEBOOK: (12 * _HOUR, 2 * _DAY),
    LaneKind.BATCH: (12 * _HOUR, 1 * _DAY),
    LaneKind.SHORT: (6 * _HOUR, 8 * _HOUR),
}
"""How long before the scenario's begin a lane starts: its first pods are in full life then."""
_OWNER_KINDS: Final = {
    LaneKind.SERVICE: "ReplicaSet",
    LaneKind.STATEFUL: "StatefulSet",
    LaneKind.NOTEBOOK: "StatefulSet",
    LaneKind.BATCH: "Job",
    LaneKind.SHORT: "Job",
}

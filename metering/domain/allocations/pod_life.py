"""A pod's life as its API reported it: its requests, its bind, and its end by the best evidence.

An end is known by evidence, the best first: a container's `finishedAt`; the moment an event arrived
while the watch was healthy; a bound, when the pod was found missing. Observations of one pod are
merged: the bind stays as first observed, and a better end replaces a worse one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from metering.domain.catalogue.units import UNKNOWN_UNITS_MAX

LOST_NODE_GRACE: Final = timedelta(seconds=300)
"""How long after its deletion time a pod on a lost node still counts as holding its devices.

The deletion time already includes the pod's grace period. On a live node the kubelet reports when
the containers have ended; on a lost node no component does, and the object may stay for ever. Five
minutes is what Kubernetes itself waits for an unreachable node before it gives up on its pods.
Source: Kubernetes, default toleration of `node.kubernetes.io/unreachable`, 300 s.
"""
ENDED_ON_NODE: Final = frozenset(
    {"Evicted", "DeadlineExceeded", "Preempting", "Terminated", "Shutdown", "NodeLost"}
)
"""Reasons of a failed pod that had been admitted, even when none of its containers ever started.

Every other failure without a container is a refusal by the kubelet, such as
UnexpectedAdmissionError, OutOfcpu or NodeAffinity: the pod never held a device.
Source: Kubernetes, pkg/kubelet/lifecycle and pkg/kubelet/eviction.
"""
TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})
UNITS_STORED_MAX: Final = min(UNKNOWN_UNITS_MAX, 2_147_483_647)
RESOURCE_LENGTH_MAX: Final = 128
"""What a ledger row can hold; more is kept as text beside the pod and raises an exception."""


@dataclass(frozen=True)
class PodSnapshot:
    """One pod as observed in some of its states, in whole seconds.

    Attributes:
        owner: Value of the user label.
        stamped_owner: Value of the annotation that admission writes.
        extended_claim: The ResourceClaim that the scheduler made for its resources; "" for none.
        requests: Raw resource name to effective units, claims as "claim/<name>": 1. An impossible
            request is text.
        bound_at: None while it is not bound.
        finished_at: The exact end; its bind for a pod the kubelet refused.
        alive_at: A time at which it held its devices; None when the watch has no time.
        gone_at: A time at which it no longer held anything; None while it does, as far as observed.
        is_prompt: Whether `gone_at` is the end to the second.
        defects: Which of its fields are invalid.
    """

    uid: str
    namespace: str
    name: str
    node: str
    owner: str
    controller: str
    priority_class: str
    priority: int | None
    requests: Mapping[str, int | str]
    reason: str
    created_at: datetime
    bound_at: datetime | None = None
    started_at: datetime | None = None
    deletion_at: datetime | None = None
    finished_at: datetime | None = None
    alive_at: datetime | None = None
    gone_at: datetime | None = None
    is_prompt: bool = False
    defects: tuple[str, ...] = ()
    stamped_owner: str = ""
    extended_claim: str = ""


def is_refused(*, phase: str, reason: str, has_run: bool) -> bool:
    """Whether the kubelet refused a bound pod, so that it never held what it was bound to."""
    return phase == "Failed" and not has_run and reason not in ENDED_ON_NODE


def believed(resource: str, *, units: int) -> int | str:
    """Return the units of a request, or their text when no ledger row can hold them."""
    is_possible = 0 < units <= UNITS_STORED_MAX and len(resource) <= RESOURCE_LENGTH_MAX
    return units if is_possible else str(units)


def merge_snapshots(snapshots: Iterable[PodSnapshot]) -> tuple[PodSnapshot, ...]:
    """Return one merged observation per pod, in the order of first observation."""
    merged: dict[str, PodSnapshot] = {}
    for snapshot in snapshots:
        known = merged.get(snapshot.uid)
        merged[snapshot.uid] = snapshot if known is None else _merge(known, snapshot)
    return tuple(merged.values())


def _merge(former: PodSnapshot, latter: PodSnapshot) -> PodSnapshot:
    is_bound_first = former.bound_at is not None or latter.bound_at is None
    gone = _better_gone(former, latter)
    return replace(
        former if is_bound_first else latter,
        reason=latter.reason or former.reason,
        started_at=_earliest(former.started_at, latter.started_at),
        deletion_at=_earliest(former.deletion_at, latter.deletion_at),
        finished_at=_latest(former.finished_at, latter.finished_at),
        alive_at=_latest(former.alive_at, latter.alive_at),
        gone_at=gone.gone_at,
        is_prompt=gone.is_prompt,
        defects=latter.defects or former.defects,
    )


def _better_gone(former: PodSnapshot, latter: PodSnapshot) -> PodSnapshot:
    """Return the observation whose end is known better; of two equal ones the earlier end."""
    if former.gone_at is None or latter.gone_at is None:
        return latter if former.gone_at is None else former
    if former.is_prompt != latter.is_prompt:
        return former if former.is_prompt else latter
    return latter if latter.gone_at < former.gone_at else former


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _latest(*moments: datetime | None) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)

"""Sights: what one state of a pod tells the ledger. Nothing is read or written here."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from metering.domain.effective_request import effective_units
from metering.domain.pod_life import (
    CLAIM_PREFIX,
    TERMINAL_PHASES,
    PodSnapshot,
    believed,
    is_refused,
)
from metering.domain.window import whole_second
from metering.protocols import ContainerRequest
from metering.protocols.watch import PodState


def sight_of(
    pod: PodState,
    *,
    told_at: datetime,
    is_deleted: bool = False,
    is_prompt: bool = True,
    is_list: bool = False,
) -> PodSnapshot | None:
    """Return what one state of a pod tells, or None when the pod asks for no device.

    A pod that cannot be read is there all the same, so that it is not taken to have ended.

    Args:
        pod: The state.
        told_at: When a list was taken, or when an event came in.
        is_deleted: Whether the object is gone; its last state may be an old one, so its phase
            proves nothing about whether it ever ran.
        is_prompt: Whether what it tells has happened just now; False for what piled up while the
            watch was away.
        is_list: Whether a list told it: that tells promptly who is there, not when one ended.
    """
    requests = requests_of(pod)
    if not requests and not pod.defects:
        return None
    bound_at = whole_second(pod.scheduled_at) if pod.scheduled_at and pod.node else None
    is_gone = is_deleted or pod.phase in TERMINAL_PHASES
    return PodSnapshot(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        owner=pod.owner,
        controller=pod.controller,
        priority_class=pod.priority_class,
        priority=pod.priority,
        requests=requests,
        reason=pod.reason,
        created_at=whole_second(pod.created_at),
        bound_at=bound_at,
        started_at=pod.started_at,
        deletion_at=pod.deletion_at,
        finished_at=_exact_end(pod, bound_at=bound_at),
        alive_at=whole_second(told_at) if is_prompt and not is_gone else None,
        gone_at=whole_second(told_at) if is_gone else None,
        is_prompt=is_gone and is_prompt and not is_list,
        defects=pod.defects,
    )


def requests_of(pod: PodState) -> Mapping[str, int | str]:
    """Return what a pod asks for: raw resource to effective units, and each of its claims."""
    asks: dict[str, list[ContainerRequest]] = defaultdict(list)
    for ask in pod.requests:
        asks[ask.resource].append(ask)
    units = {resource: effective_units(listed) for resource, listed in sorted(asks.items())}
    told = {name: believed(name, units=count) for name, count in units.items() if count}
    return {**told, **{CLAIM_PREFIX + name: 1 for name in sorted(pod.claims)}}


def _exact_end(pod: PodState, *, bound_at: datetime | None) -> datetime | None:
    if bound_at is None:
        return None
    has_run = pod.started_at is not None or pod.finished_at is not None
    if is_refused(phase=pod.phase, reason=pod.reason, has_run=has_run):
        return bound_at
    return max(bound_at, whole_second(pod.finished_at)) if pod.finished_at else None

"""What goes wrong in the demo, scripted to the second.

A pod pending for ever, one the kubelet refused, and, around a Prometheus outage, one that ends
inside it, one that finishes inside it but is kept, and one that lives wholly inside it. After the
month a preemptible pod, for which no book has a price.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from simulator.cluster.hardware import SLICED_A100, WHOLE_H100, TrueShare
from simulator.cluster.lanes import pod_labels, random_stream
from simulator.cluster.scenario import (
    Container,
    DeviceSlot,
    Outage,
    Pod,
    PodPhase,
)

PENDING_NAME: Final = "waits-for-eight"
REFUSED_NAME: Final = "asks-two-slices"
ENDS_INSIDE_NAME: Final = "ends-in-the-gap"
FINISHES_INSIDE_NAME: Final = "finishes-in-the-gap"
LIVES_INSIDE_NAME: Final = "lives-in-the-gap"
UNPRICED_NAME: Final = "explores-on-spare-gpus"
_PREEMPTIBLE_H100: Final = replace(WHOLE_H100, price_group="H100/whole/burst")


@dataclass(frozen=True)
class _Script:
    """One scripted pod; times are relative to its creation, None for what never happens."""

    name: str
    namespace: str
    owner: str
    share: TrueShare
    created_at: datetime
    node: str = ""
    slots: tuple[DeviceSlot, ...] = ()
    units: int = 1
    scheduled: timedelta | None = None
    started: timedelta | None = None
    finished: timedelta | None = None
    rejected: timedelta | None = None
    deleted: timedelta | None = None
    end_phase: PodPhase = PodPhase.SUCCEEDED
    priority_class: str = "gpu-standard"


def pending_pod(seed: int, month_start: datetime) -> Pod:
    """Return a pod that asks for eight whole GPUs on day 3 and is never bound."""
    script = _Script(
        name=PENDING_NAME,
        namespace="llm-train",
        owner="lukas",
        share=WHOLE_H100,
        created_at=month_start + timedelta(days=2, hours=9, minutes=13, seconds=20),
        units=8,
        end_phase=PodPhase.PENDING,
    )
    return _pod(seed, script)


def refused_pod(seed: int, month_start: datetime, node: str) -> Pod:
    """Return a bound pod that requests two slices of one GPU; the kubelet rejects it."""
    script = _Script(
        name=REFUSED_NAME,
        namespace="courses",
        owner="student-17",
        share=SLICED_A100,
        node=node,
        created_at=month_start + timedelta(days=4, hours=10),
        units=2,
        scheduled=timedelta(seconds=2),
        rejected=timedelta(seconds=3),
        deleted=timedelta(days=2),
        end_phase=PodPhase.FAILED,
    )
    return _pod(seed, script)


def outage_pods(seed: int, outage: Outage, node: str, slot: DeviceSlot) -> Iterator[Pod]:
    """Yield three pods, one after another on one GPU, that an outage hides in part or whole.

    The first is deleted while running, the second lives and is removed inside, the third starts
    inside, finishes inside, and stays as an object for hours. The thirds of the outage are theirs.
    """
    third = (outage.end_at - outage.begin_at) // 3 // timedelta(seconds=1)
    begin = outage.begin_at
    scripts = (
        _Script(
            name=ENDS_INSIDE_NAME,
            namespace="perception",
            owner="piotr",
            share=WHOLE_H100,
            created_at=begin - timedelta(hours=3, seconds=17),
            scheduled=timedelta(seconds=4),
            started=timedelta(seconds=40),
            deleted=timedelta(hours=3, seconds=17 + third // 2),
            end_phase=PodPhase.RUNNING,
        ),
        _Script(
            name=LIVES_INSIDE_NAME,
            namespace="agents",
            owner="dev",
            share=WHOLE_H100,
            created_at=begin + timedelta(seconds=third),
            scheduled=timedelta(seconds=2),
            started=timedelta(seconds=9),
            finished=timedelta(seconds=third // 2),
            deleted=timedelta(seconds=third - 20),
        ),
        _Script(
            name=FINISHES_INSIDE_NAME,
            namespace="robotics",
            owner="yuki",
            share=WHOLE_H100,
            created_at=begin + timedelta(seconds=2 * third),
            scheduled=timedelta(seconds=3),
            started=timedelta(seconds=11),
            finished=timedelta(seconds=third // 2),
            deleted=timedelta(hours=5),
        ),
    )
    for script in scripts:
        yield _pod(seed, _Script(**{**vars(script), "node": node, "slots": (slot,)}))


def unpriced_pod(seed: int, month_start: datetime, node: str, slot: DeviceSlot) -> Pod:
    """Return a preemptible pod of the days after the longest month; it blocks no invoice of it."""
    script = _Script(
        name=UNPRICED_NAME,
        namespace="robotics",
        owner="yuki",
        share=_PREEMPTIBLE_H100,
        node=node,
        slots=(slot,),
        created_at=month_start + timedelta(days=32, hours=9, minutes=13),
        scheduled=timedelta(seconds=3),
        started=timedelta(seconds=21),
        finished=timedelta(hours=3, minutes=30),
        deleted=timedelta(hours=4),
        priority_class="gpu-ledger-burst",
    )
    return _pod(seed, script)


def _pod(seed: int, script: _Script) -> Pod:
    stream = random_stream(seed, f"{script.name}/{script.created_at.isoformat()}")

    def moment(offset: timedelta | None) -> datetime | None:
        return None if offset is None else script.created_at + offset

    share = script.share
    is_deleted_while_running = script.end_phase is PodPhase.RUNNING
    return Pod(
        uid=str(uuid.UUID(int=stream.getrandbits(128), version=4)),
        namespace=script.namespace,
        name=script.name,
        node=script.node,
        created_at=script.created_at,
        scheduled_at=moment(script.scheduled),
        started_at=moment(script.started),
        finished_at=moment(script.finished),
        rejected_at=moment(script.rejected),
        deleted_at=moment(script.deleted),
        deletion_requested_at=moment(script.deleted) if is_deleted_while_running else None,
        end_phase=script.end_phase,
        containers=(Container("main", requests={share.resource: script.units}),),
        resource=share.resource,
        labels=pod_labels(script.name, script.owner),
        owner=script.owner,
        owner_kind="Job",
        owner_name=script.name,
        priority_class=script.priority_class,
        slots=script.slots,
        true_units=script.units,
        true_size=share.size,
        true_price_group=share.price_group,
        true_sharing_mode=share.sharing_mode,
    )

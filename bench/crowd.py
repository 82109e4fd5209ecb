"""A crowd of GPU pods in one hour of one cluster: half on MIG slices, a quarter time-sliced.

Four fifths run through the hour, a tenth ends in it and a tenth begins in it, so that
the bench covers running, ended and new pods. Lanes are not used: their pods run for days.
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from typing import BinaryIO, Final

from simulator.cluster.exporters.openmetrics import HistorySlice
from simulator.cluster.hardware import (
    SEVEN_SMALL,
    SLICED_A100,
    SMALL_H100,
    WHOLE_H100,
    TrueShare,
    mig_node,
    shared_node,
    slots_of,
    whole_node,
)
from simulator.cluster.lanes import pod_labels
from simulator.cluster.scenario import (
    Container,
    DeviceSlot,
    Namespace,
    Node,
    Pod,
    PodPhase,
    Scenario,
    SimulatedCluster,
)

CROWD: Final = "crowd"
VILLAGE: Final = "village"
SCRAPE_SECONDS: Final = 30
"""Prometheus' usual interval for kube-state-metrics."""
NAMESPACES: Final = tuple(f"team-{number:02d}" for number in range(50))
MILLISECONDS: Final = b".347"
"""Scrapes take place at a moment of their own, so real times are hardly ever whole seconds."""
_WHOLE_TIME: Final = re.compile(rb"( \d{10})\n")
_NAMES: Final = uuid.UUID("0d2f41c6-7f0e-4f55-8f0b-5b9b54e7a001")


def crowd(pods: Mapping[str, int], hour: datetime) -> Scenario:
    """Return clusters in which so many pods touch the hour; whole seconds, no chance."""
    return Scenario(
        seed=0,
        begin_at=hour,
        until=hour + timedelta(hours=2),
        organizations=(),
        clusters=tuple(_cluster(slug, count, hour) for slug, count in pods.items()),
    )


def history(hour: datetime) -> HistorySlice:
    """Return the history that the hour's queries can reach."""
    return HistorySlice(hour - timedelta(minutes=5), hour + timedelta(hours=1, minutes=15))


def _cluster(slug: str, pods: int, hour: datetime) -> SimulatedCluster:
    half, quarter = pods // 2, pods // 4
    nodes, places = _places(half, quarter, pods - half - quarter)
    lives = (
        _pod(f"{slug}/{number}", number, node, slot, share, hour)
        for number, (node, slot, share) in enumerate(places)
    )
    return SimulatedCluster(
        slug=slug,
        name=slug,
        nodes=nodes,
        namespaces=tuple(Namespace(name) for name in NAMESPACES),
        pods=tuple(sorted(lives, key=lambda pod: (pod.created_at, pod.uid))),
        offered_resources=(),
        scrape_interval_seconds=SCRAPE_SECONDS,
        scrape_offset_seconds=7,
    )


def _places(
    mig: int, sliced: int, whole: int
) -> tuple[tuple[Node, ...], list[tuple[str, DeviceSlot, TrueShare]]]:
    """Return nodes of eight GPUs each and a slot for every pod."""
    kinds = (
        ("mig", mig, 8 * len(SEVEN_SMALL), SMALL_H100, "1g.10gb"),
        ("sliced", sliced, 8 * 4, SLICED_A100, ""),
        ("whole", whole, 8, WHOLE_H100, ""),
    )
    nodes: list[Node] = []
    places: list[tuple[str, DeviceSlot, TrueShare]] = []
    for kind, wanted, per_node, share, profile in kinds:
        ours = [_node(kind, number) for number in range(-(-wanted // per_node))]
        nodes += ours
        slots = chain.from_iterable(
            ((node.name, slot, share) for slot in slots_of(node, profile)) for node in ours
        )
        places += [place for place, _ in zip(slots, range(wanted), strict=False)]
    return tuple(nodes), places


def _node(kind: str, number: int) -> Node:
    name, address = f"{kind}-{number:03d}", f"10.{number // 200}.{number % 200}.1"
    if kind == "mig":
        return mig_node(name, address=address, geometry=(SEVEN_SMALL,) * 8)
    if kind == "sliced":
        return shared_node(name, address=address, strategy="time-slicing", is_renamed=False, gpus=8)
    return whole_node(name, address=address)


def _pod(
    name: str, number: int, node: str, slot: DeviceSlot, share: TrueShare, hour: datetime
) -> Pod:
    base = f"job-{number // 20}"
    bound = hour - timedelta(hours=2, seconds=number % 7000)
    pod = Pod(
        uid=str(uuid.uuid5(_NAMES, name)),
        namespace=NAMESPACES[number % len(NAMESPACES)],
        name=f"{base}-{number % 20}",
        node=node,
        created_at=bound - timedelta(seconds=3),
        scheduled_at=bound,
        started_at=bound + timedelta(seconds=20),
        finished_at=None,
        deleted_at=None,
        end_phase=PodPhase.RUNNING,
        containers=(Container("main", requests={share.resource: 1}),),
        resource=share.resource,
        labels=pod_labels(base, f"user-{number % 200}"),
        owner=f"user-{number % 200}",
        owner_kind="Job",
        owner_name=base,
        priority_class="gpu-standard",
        slots=(slot,),
        true_units=1,
        true_size=share.size,
        true_price_group=share.price_group,
        true_sharing_mode=share.sharing_mode,
    )
    return _lived(pod, number, hour)


def _lived(pod: Pod, number: int, hour: datetime) -> Pod:
    """Start every tenth pod in the hour, and end every tenth: finished or deleted."""
    moment = hour + timedelta(seconds=60 + number * 37 % 3480)
    if number % 10 == 1:
        return replace(
            pod,
            created_at=moment - timedelta(seconds=3),
            scheduled_at=moment,
            started_at=moment + timedelta(seconds=20),
        )
    if number % 20 == 2:
        return replace(
            pod,
            finished_at=moment,
            deleted_at=moment + timedelta(minutes=8),
            end_phase=PodPhase.SUCCEEDED,
        )
    if number % 20 == 12:
        return replace(pod, deleted_at=moment, deletion_requested_at=moment - timedelta(seconds=9))
    return pod


class MillisecondTimes:
    """A file that gives every sample written to it the milliseconds of a real scrape."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, text: bytes) -> int:
        """Write whole lines."""
        return self._out.write(_WHOLE_TIME.sub(rb"\1" + MILLISECONDS + rb"\n", text))

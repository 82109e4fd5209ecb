"""What each GPU did: which pod its exporter names, how busy it was, how much energy it used.

Everything is a pure function of the scenario and a moment, so that a history made in advance and
a live exposition meet without a step. Quantities are integers: thousandths, milliwatts and
millijoules.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final
from zlib import crc32

from simulator.cluster.exporters.object_series import FOREVER
from simulator.cluster.hardware import (
    COMPUTE_SLICES,
    GPU_RESOURCE,
    H100,
)
from simulator.cluster.scenario import GPU, Node, Pod, SimulatedCluster

_ORIGIN: Final = 1_577_836_800
"""2020-01-01: when every driver was loaded, so that counters depend on no horizon."""
_IDLE_MILLIWATTS: Final = {True: 70_000, False: 55_000}
_FULL_MILLIWATTS: Final = {True: 690_000, False: 395_000}
_WIGGLE: Final = (0, 12, -9, 21, -17, 6, -24, 14)
"""Thousandths by which a busy ratio moves from minute to minute."""
_IDLE_PODS_PERCENT: Final = 12
_SLICES: Final = 7


@dataclass(frozen=True)
class Segment:
    """A stretch [begin, end), in epoch seconds, over which the same pods held a device.

    Attributes:
        pods: Holders, the last bound one last.
        level: Mean busy share in thousandths.
    """

    begin: int
    end: int
    pods: tuple[Pod, ...]
    level: int

    @property
    def named_pod(self) -> Pod | None:
        """Return the pod the exporter names: by default one alone, and none for other resources.

        Source: dcgm-exporter maps nvidia.com/gpu and nvidia.com/mig-* only, last writer wins.
        """
        named = [pod for pod in self.pods if _is_mapped(pod.resource)]
        return named[-1] if named else None


@dataclass(frozen=True)
class DeviceTimeline:
    """One device, or one MIG instance of it, for ever: segments without holes, oldest first."""

    node: Node
    gpu: GPU
    instance_id: str
    profile: str
    segments: tuple[Segment, ...]

    def at(self, second: int) -> Segment:
        """Return the segment a moment lies in."""
        return self.segments[bisect_right(self._begins, second) - 1]

    @cached_property
    def _begins(self) -> tuple[int, ...]:
        return tuple(segment.begin for segment in self.segments)

    def busy(self, second: int) -> int:
        """Return the busy share of a moment in thousandths."""
        return busy_at(self.at(second).level, second)


@dataclass(frozen=True)
class PowerTimeline:
    """A physical GPU's power and energy; `steps` are (begin second, level), oldest first."""

    is_hopper: bool
    steps: tuple[tuple[int, int], ...]
    energies: tuple[int, ...]

    def milliwatts(self, second: int) -> int:
        """Return the power of a moment."""
        return _power(self.steps[self._index(second)][1], is_hopper=self.is_hopper)

    def millijoules(self, second: int) -> int:
        """Return the energy since the driver was loaded."""
        index = self._index(second)
        begin, level = self.steps[index]
        return self.energies[index] + (second - begin) * _power(level, is_hopper=self.is_hopper)

    def _index(self, second: int) -> int:
        return bisect_right(self.steps, (second, FOREVER)) - 1


def device_timelines(cluster: SimulatedCluster) -> tuple[DeviceTimeline, ...]:
    """Return every device of a cluster, instances instead of a partitioned GPU, node by node."""
    held: defaultdict[tuple[str, str], list[Pod]] = defaultdict(list)
    for pod in cluster.pods:
        if pod.truth is not None:
            for key in {(slot.gpu_uuid, slot.instance_id) for slot in pod.slots}:
                held[key].append(pod)
    return tuple(
        DeviceTimeline(node, gpu, instance, profile, _segments(held[gpu.uuid, instance]))
        for node in cluster.nodes
        for gpu in node.gpus
        for instance, profile in (
            [(one.instance_id, one.profile) for one in gpu.instances] or [("", "")]
        )
    )


def power_timelines(timelines: tuple[DeviceTimeline, ...]) -> Mapping[str, PowerTimeline]:
    """Return each physical GPU's power by UUID; instances add up by their compute slices."""
    parts: defaultdict[str, list[DeviceTimeline]] = defaultdict(list)
    for timeline in timelines:
        parts[timeline.gpu.uuid].append(timeline)
    return {uuid: _power_timeline(members) for uuid, members in parts.items()}


def busy_at(level: int, second: int) -> int:
    """Return a level with its wiggle of the minute; idle stays idle."""
    if level == 0:
        return 0
    return min(1000, max(1, level + _WIGGLE[second // 60 % len(_WIGGLE)]))


def pod_level(pod: Pod) -> int:
    """Return how busy a pod keeps what it holds, in thousandths; some keep it idle."""
    draw = crc32(pod.uid.encode())
    if draw % 100 < _IDLE_PODS_PERCENT:
        return draw // 100 % 25
    return 300 + draw // 100 % 650


def _is_mapped(resource: str) -> bool:
    return resource == GPU_RESOURCE or resource.startswith("nvidia.com/mig-")


def _segments(pods: list[Pod]) -> tuple[Segment, ...]:
    """Split time wherever a holder is added or removed."""
    stays = []
    for pod in pods:
        if pod.truth is not None:
            first, last = pod.truth
            end = FOREVER if last is None else int(last.timestamp())
            stays.append((int(first.timestamp()), end, pod))
    stays.sort(key=lambda stay: (stay[0], stay[2].uid))
    cuts = sorted({0, FOREVER} | {mark for begin, end, _ in stays for mark in (begin, end)})
    segments = []
    current: list[tuple[int, int, Pod]] = []
    upcoming = 0
    for begin, end in pairwise(cuts):
        current = [stay for stay in current if stay[1] > begin]
        while upcoming < len(stays) and stays[upcoming][0] == begin:
            current.append(stays[upcoming])
            upcoming += 1
        holders = tuple(pod for _, until, pod in current if until > begin)
        segments.append(Segment(begin, end, holders, _level(holders)))
    return tuple(segments)


def _level(holders: tuple[Pod, ...]) -> int:
    """Return how busy all holders together keep a device."""
    if len(holders) == 1:
        return pod_level(holders[0])
    return min(985, sum(pod_level(pod) for pod in holders) // 2)


def _power_timeline(members: list[DeviceTimeline]) -> PowerTimeline:
    is_hopper = members[0].gpu.model == H100
    changes: defaultdict[int, int] = defaultdict(int)
    for member in members:
        slices = COMPUTE_SLICES.get(member.profile, _SLICES)
        before = 0
        for segment in member.segments:
            weight = segment.level * slices
            changes[max(segment.begin, _ORIGIN)] += weight - before
            before = weight
    steps: list[tuple[int, int]] = []
    energies: list[int] = []
    weight = energy = 0
    for begin in sorted(changes):
        if steps:
            energy += (begin - steps[-1][0]) * _power(steps[-1][1], is_hopper=is_hopper)
        weight += changes[begin]
        steps.append((begin, weight // _SLICES))
        energies.append(energy)
    return PowerTimeline(is_hopper, tuple(steps), tuple(energies))


def _power(level: int, *, is_hopper: bool) -> int:
    idle = _IDLE_MILLIWATTS[is_hopper]
    return idle + (_FULL_MILLIWATTS[is_hopper] - idle) * level // 1000

"""Checking an observation before anything is concluded from it.

A source should refuse what cannot be believed; this is the second barrier, so that a broken answer
becomes a failed attempt and never half a window or a crash inside the transaction.
"""

import itertools
from collections.abc import Iterable
from decimal import Decimal

from metering.protocols import DeviceObservation, Observation, PodObservation
from metering.services.hours import Hour
from tenants.domain.errors import SourceUnavailableError

UID_MAX = 64
NAMESPACE_MAX = 63
NAME_MAX = 253
RESOURCE_MAX = 128
OWNER_MAX = 150
PODS_MAX = 100_000
"""Pods of one cluster in one hour; ten times what a cluster of 5,000 nodes starts."""
ENERGY_MILLIJOULES_MAX = 10**12
"""Of one device in one hour: more than 250 kW."""


def check_observation(observation: Observation, *, hour: Hour) -> None:
    """Refuse an observation that contradicts itself or cannot be stored.

    Raises:
        SourceUnavailableError: Something in it cannot be believed.
        ValueError: It is about another window than asked for, which is a mistake in the source.
    """
    if (observation.start_at, observation.end_at) != (hour.start_at, hour.end_at):
        raise ValueError("the source answered about another window")
    for problem in _problems(observation):
        raise SourceUnavailableError(problem, reason="bad_sample")


def _problems(observation: Observation) -> Iterable[str]:
    yield from _clock_problems(observation)
    yield from _pod_problems(observation)
    for node in observation.nodes:
        if node.covered_seconds < 0 or any(units < 0 for units in node.allocatable.values()):
            yield f"Node {node.node[:NAME_MAX]} offers less than nothing."
    for device in observation.devices:
        if not _is_possible(device):
            yield f"Device {device.uuid[:UID_MAX]} reports what cannot be."


def _clock_problems(observation: Observation) -> Iterable[str]:
    if observation.expected_ticks <= 0:
        yield "No scrapes are expected in the window."
    if any(earlier > later for earlier, later in itertools.pairwise(observation.ticks)):
        yield "The scrapes are out of order."


def _pod_problems(observation: Observation) -> Iterable[str]:
    if len(observation.pods) > PODS_MAX:
        yield f"More than {PODS_MAX} pods were seen."
    if len({pod.uid for pod in observation.pods}) != len(observation.pods):
        yield "A pod's uid was given twice."
    for pod in observation.pods:
        if not _is_storable(pod):
            yield f"A name of pod {pod.uid[:UID_MAX]} is empty or too long."


def _is_storable(pod: PodObservation) -> bool:
    return (
        1 <= len(pod.uid) <= UID_MAX
        and 1 <= len(pod.namespace) <= NAMESPACE_MAX
        and 1 <= len(pod.name) <= NAME_MAX
        and len(pod.node) <= NAME_MAX
        and len(pod.owner) <= OWNER_MAX
        and len(pod.priority_class) <= NAME_MAX
        and all(1 <= len(request.resource) <= RESOURCE_MAX for request in pod.requests)
    )


def _is_possible(device: DeviceObservation) -> bool:
    ratio, energy = device.busy_ratio, device.energy_millijoules
    return (
        (ratio is None or (ratio.is_finite() and Decimal(0) <= ratio <= Decimal(1)))
        and (energy is None or 0 <= energy <= ENERGY_MILLIJOULES_MAX)
        and device.samples >= 0
    )

"""Which observations can be stored: texts and numbers that fit, and pods that are unique."""

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from msgspec import structs

from metering.domain.allocations.pod_life import UNITS_STORED_MAX
from metering.protocols import NodeObservation, Observation, PodObservation
from tenants.domain.errors import SourceUnavailableError

UID_MAX: Final = 64
NAMESPACE_MAX: Final = 63
NAME_MAX: Final = 253
RESOURCE_MAX: Final = 128
OWNER_MAX: Final = 150
PODS_MAX: Final = 100_000
"""Pods of one cluster in one hour; ten times what a cluster of 5,000 nodes starts."""


def checked(observation: Observation, *, start_at: datetime, end_at: datetime) -> Observation:
    """Return an observation that can be stored; a pod or node that cannot gets a defect.

    Raises:
        SourceUnavailableError: It contradicts itself as a whole.
        ValueError: It is about another window than requested, which is a bug in the source.
    """
    if (observation.start_at, observation.end_at) != (start_at, end_at):
        raise ValueError("the source answered about another window")
    for problem in _problems(observation):
        raise SourceUnavailableError(problem, reason="bad_sample")
    return replace(
        observation,
        pods=tuple(pod if _is_storable(pod) else _cut(pod) for pod in observation.pods),
        nodes=tuple(node if _is_offer(node) else _stripped(node) for node in observation.nodes),
    )


def _problems(observation: Observation) -> Iterable[str]:
    if observation.expected_ticks <= 0:
        yield "No scrapes are expected in the window."
    if any(earlier > later for earlier, later in itertools.pairwise(observation.ticks)):
        yield "The scrapes are out of order."
    if len(observation.pods) > PODS_MAX:
        yield f"More than {PODS_MAX} pods were seen."
    if len({pod.uid for pod in observation.pods}) != len(observation.pods):
        yield "A pod's uid was given twice."


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


def _cut(pod: PodObservation) -> PodObservation:
    """Return a pod whose texts can be stored; a uid that cannot is replaced by its digest."""
    is_uid = 1 <= len(pod.uid) <= UID_MAX
    return structs.replace(
        pod,
        uid=pod.uid if is_uid else hashlib.sha256(pod.uid.encode()).hexdigest(),
        namespace=pod.namespace[:NAMESPACE_MAX],
        name=pod.name[:NAME_MAX],
        node=pod.node[:NAME_MAX],
        owner=pod.owner[:OWNER_MAX],
        priority_class=pod.priority_class[:NAME_MAX],
        requests=tuple(
            structs.replace(one, resource=one.resource[:RESOURCE_MAX]) for one in pod.requests
        ),
        defects=(*pod.defects, "One of its names is empty or too long."),
    )


def _is_offer(node: NodeObservation) -> bool:
    return (
        1 <= len(node.node) <= NAME_MAX
        and node.covered_seconds >= 0
        and all(1 <= len(name) <= RESOURCE_MAX for name in node.allocatable)
        and all(0 <= units <= UNITS_STORED_MAX for units in node.allocatable.values())
    )


def _stripped(node: NodeObservation) -> NodeObservation:
    """Return a node that offers only what can be stored."""
    offered = {
        name: units
        for name, units in node.allocatable.items()
        if 1 <= len(name) <= RESOURCE_MAX and 0 <= units <= UNITS_STORED_MAX
    }
    return structs.replace(
        node,
        node=node.node[:NAME_MAX],
        allocatable=offered,
        covered_seconds=max(0, node.covered_seconds),
        defects=(*node.defects, "Its name, or what it offers, cannot be stored."),
    )

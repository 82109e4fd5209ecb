"""What is kept of a divided window between its steps, and how it is packed."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from metering.domain.collection.scrape_coverage import ScrapeCoverage
from metering.protocols import Evidence, NodeObservation, Observation, PodObservation
from metering.protocols.parts import Frame, Settled
from metering.selectors.allocations.watch import WatchCoverage
from metering.services.collection.observing import Basis, Coverage

Packed = TypeVar("Packed")
LEVEL: Final = 1
"""Of zlib: what is packed lives for minutes."""


class Reach(msgspec.Struct, frozen=True):
    """From when to when some targets showed a pod; see `Carried`."""

    targets: tuple[str, ...]
    first_seen_at: datetime
    last_seen_at: datetime


class PartSeen(msgspec.Struct):
    """What the settlement needs of the pods of one part, on the source's clock."""

    uids: list[str]
    reaches: set[Reach]
    traces: bytes
    evidence: tuple[Evidence, ...]


class PartTraces(msgspec.Struct):
    """The traces of a `PartSeen` alone."""

    traces: bytes


class Settlement(msgspec.Struct):
    """What is common to all parts of a window once all were observed.

    Attributes:
        observation: All of it but the pods; None when only the ledger covers the hour.
        settled: What the source says of all pods together.
    """

    observation: Observation | None
    settled: Settled
    scrapes: ScrapeCoverage
    coverage: Coverage | None
    watch: WatchCoverage
    basis: Basis
    has_claims: bool


class _Pods(msgspec.Struct):
    """Pods without the labels of their nodes, and the labels, which pods of a node share."""

    pods: list[PodObservation]
    labels: list[dict[str, str]]
    labels_of: list[int]


def pack_pods(pods: Sequence[PodObservation]) -> bytes:
    """Return pods as they are kept; labels that they share are kept once."""
    positions: dict[int, int] = {}
    for pod in pods:
        positions.setdefault(id(pod.node_labels), len(positions))
    labels = {id(pod.node_labels): dict(pod.node_labels) for pod in pods}
    return pack(
        _Pods(
            pods=[structs.replace(pod, node_labels={}) for pod in pods],
            labels=[labels[key] for key in positions],
            labels_of=[positions[id(pod.node_labels)] for pod in pods],
        )
    )


def unpack_pods(packed: bytes | memoryview) -> Iterator[PodObservation]:
    """Yield the pods that were packed; those of a node share one mapping, as `Sizer` expects."""
    found = unpack(packed, _Pods)
    for pod, position in zip(found.pods, found.labels_of, strict=True):
        yield structs.replace(pod, node_labels=found.labels[position])


class _Apart(msgspec.Struct):
    """What a step of each part reads, and the nodes, which only a few steps read."""

    head: bytes
    nodes: bytes


def pack_frame(frame: Frame) -> bytes:
    """Return a frame as it is kept."""
    seen = frame.observation
    return _pack_apart(replace(frame, observation=replace(seen, nodes=())), seen.nodes)


def unpack_frame(packed: bytes | memoryview, *, with_nodes: bool = False) -> Frame:
    """Return what was packed; without its nodes, unless they are asked for."""
    frame = _unpack_head(packed, Frame)
    if not with_nodes:
        return frame
    return replace(frame, observation=replace(frame.observation, nodes=_unpack_nodes(packed)))


def pack_settlement(settlement: Settlement) -> bytes:
    """Return a settlement as it is kept."""
    seen = settlement.observation
    if seen is None:
        return _pack_apart(settlement, ())
    bare = structs.replace(settlement, observation=replace(seen, nodes=()))
    return _pack_apart(bare, seen.nodes)


def unpack_settlement(packed: bytes | memoryview, *, with_nodes: bool = False) -> Settlement:
    """Return what was packed; without its nodes, unless they are asked for."""
    settlement = _unpack_head(packed, Settlement)
    seen = settlement.observation
    if not with_nodes or seen is None:
        return settlement
    return structs.replace(settlement, observation=replace(seen, nodes=_unpack_nodes(packed)))


def _pack_apart(head: object, nodes: Sequence[NodeObservation]) -> bytes:
    return msgspec.msgpack.encode(_Apart(head=pack(head), nodes=pack(nodes)))


def _unpack_head(packed: bytes | memoryview, kind: type[Packed]) -> Packed:
    return unpack(msgspec.msgpack.decode(packed, type=_Apart).head, kind)


def _unpack_nodes(packed: bytes | memoryview) -> tuple[NodeObservation, ...]:
    return unpack(msgspec.msgpack.decode(packed, type=_Apart).nodes, tuple[NodeObservation, ...])


def pack(value: object) -> bytes:
    """Return a value as it is kept."""
    return zlib.compress(msgspec.msgpack.encode(value), LEVEL)


def unpack(packed: bytes | memoryview, kind: type[Packed]) -> Packed:
    """Return what was packed."""
    return msgspec.msgpack.decode(zlib.decompress(packed), type=kind)

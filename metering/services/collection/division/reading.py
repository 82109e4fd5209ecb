"""Reading an hour of many pods: all of it but the pods, one part after another, and the whole.

A divided window keeps what was read in its parts' rows. An hour that one worker reads in one go, to
recheck it or by a decision, keeps it packed in memory: a hundred thousand pods are some 20 MB.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from msgspec import structs

from metering.domain.collection.parts import Part, parts_of
from metering.domain.collection.windows import MeteringPolicy
from metering.protocols import PodObservation, UsageSource
from metering.protocols.parts import DividingSource, Frame, Settled
from metering.protocols.storable import checked
from metering.services.collection.composed import Hour
from metering.services.collection.division.packing import (
    PartSeen,
    PartTraces,
    Reach,
    Settlement,
    pack,
    pack_frame,
    pack_pods,
    unpack,
    unpack_frame,
    unpack_pods,
)
from metering.services.collection.observing import (
    HourObservation,
    HourPart,
    basis_of,
    has_claims_of,
    hour_coverage,
    observe_hour,
    scrapes_of,
    watch_of,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use

PARTS_MIN: Final = 2
"""A single one would be the whole, which is read by other queries."""


@dataclass(frozen=True)
class PodReader:
    """Who reads, from which source and by which policy."""

    source: DividingSource
    actor: Actor
    policy: MeteringPolicy


def observe_pods(  # noqa: PLR0913 - As `observe_hour`; all are keyword only.
    *,
    hour: Hour,
    pods: int,
    source: UsageSource,
    as_of: datetime,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy,
) -> HourObservation:
    """Query every source about an hour, as `observe_hour` does; many pods in parts.

    Args:
        hour: The hour.
        pods: How many it seems to have.
        source: The source to query; one that does not answer in parts is asked about all at once.
        as_of: The time of all queries.
        actor: The actor of the audit entry for a refused target.
        at: When, UTC.
        policy: How many pods are read at once.

    Raises:
        ValueError: The source returned another hour, which is a bug in it.
    """
    if pods <= policy.pods_undivided_max or not isinstance(source, DividingSource):
        return observe_hour(hour=hour, source=source, as_of=as_of, actor=actor, at=at)
    parts = parts_of(max(PARTS_MIN, -(-pods // policy.part_pods)))
    failure: SourceUnavailableError | None = None
    if hour.asks_a_source:
        by = PodReader(source, actor, policy)
        try:
            with audited_use(slug=hour.target.slug, actor=actor, at=at):
                return _observed(hour, parts=parts, by=by, as_of=as_of)
        except SourceUnavailableError as error:
            failure = error
    unobserved = unobserved_hour(hour, as_of=as_of, failure=failure)
    return replace(unobserved, parts=tuple(HourPart(part) for part in parts))


def _observed(
    hour: Hour, *, parts: Sequence[Part], by: PodReader, as_of: datetime
) -> HourObservation:
    frame = pack_frame(read_frame(hour, by=by, as_of=as_of))
    read = _read_parts(hour, frame=unpack_frame(frame), parts=parts, by=by, as_of=as_of)
    found = [seen for seen, _ in read]
    settlement = settlement_of(hour, frame=frame, parts=found, by=by, as_of=as_of)
    settled = settlement.settled
    return replace(
        observed_in_parts(hour, settlement=settlement, as_of=as_of),
        parts=tuple(
            HourPart(
                part,
                read=partial(_settled, packed, settled=settled),
                read_uids=partial(_settled_uids, seen, settled=settled),
            )
            for part, (seen, packed) in zip(parts, read, strict=True)
        ),
    )


def _read_parts(
    hour: Hour, *, frame: Frame, parts: Sequence[Part], by: PodReader, as_of: datetime
) -> list[tuple[bytes, bytes]]:
    return [read_part(hour, frame=frame, part=part, by=by, as_of=as_of) for part in parts]


def _settled(packed: bytes, *, settled: Settled) -> tuple[PodObservation, ...]:
    return settled_pods(unpack_pods(packed), settled=settled)


def _settled_uids(part: bytes, *, settled: Settled) -> list[str]:
    return [uid for uid in uids_of(part) if uid not in settled.left_out]


def read_frame(hour: Hour, *, by: PodReader, as_of: datetime, clock_skew_seconds: int = 0) -> Frame:
    """Return all of an hour's observation but the pods; call it where a refusal is audited.

    Raises:
        SourceUnavailableError: The source did not answer, or not usably.
    """
    frame = by.source.observe_frame(
        hour.target,
        start_at=hour.start_at,
        end_at=hour.end_at,
        as_of=as_of,
        clock_skew_seconds=clock_skew_seconds,
    )
    seen = checked(frame.observation, start_at=hour.start_at, end_at=hour.end_at)
    return replace(frame, observation=seen)


def read_part(
    hour: Hour, *, frame: Frame, part: Part, by: PodReader, as_of: datetime
) -> tuple[bytes, bytes]:
    """Return a packed `PartSeen` of the pods of a part, and the pods as they are kept.

    Call it where a refusal is audited.

    Raises:
        SourceUnavailableError: The source did not answer, or not usably.
    """
    seen = by.source.observe_part(hour.target, frame=frame, as_of=as_of, part=part)
    # The nodes of the frame were checked with it.
    observation = replace(frame.observation, pods=seen.pods, nodes=())
    pods = checked(observation, start_at=hour.start_at, end_at=hour.end_at).pods
    found = PartSeen(
        uids=[pod.uid for pod in pods],
        reaches={Reach(pod.targets, pod.first_seen_at, pod.last_seen_at) for pod in pods},
        traces=seen.traces,
        evidence=seen.evidence,
    )
    return pack(found), pack_pods(pods)


def settlement_of(
    hour: Hour, *, frame: bytes, parts: Sequence[bytes], by: PodReader, as_of: datetime
) -> Settlement:
    """Return what all parts of an hour show together; call it where a refusal is audited.

    Traces are unpacked alone, and the nodes after them: both of 100,000 pods are much.

    Args:
        hour: The hour.
        frame: Packed, as `read_frame` returned it.
        parts: The `PartSeen` of each, packed.
        by: Who reads.
        as_of: The time of all queries.

    Raises:
        SourceUnavailableError: They contradict each other.
    """
    traces = (unpack(part, PartTraces).traces for part in parts)
    settled = by.source.settle(hour.target, frame=unpack_frame(frame), traces=traces)
    return _settlement(hour, settled=settled, packed=frame, parts=parts, by=by, as_of=as_of)


def _settlement(
    hour: Hour,
    *,
    settled: Settled,
    packed: bytes,
    parts: Sequence[bytes],
    by: PodReader,
    as_of: datetime,
) -> Settlement:
    skew = settled.clock_skew_seconds
    frame = (
        read_frame(hour, by=by, as_of=as_of, clock_skew_seconds=skew)
        if skew
        else unpack_frame(packed, with_nodes=True)
    )
    seen = frame.observation
    evidence, reaches = list(seen.evidence), set[Reach]()
    for part in parts:
        found = unpack(part, PartSeen)
        evidence += found.evidence
        reaches |= {_on_api_clock(reach, skew) for reach in found.reaches}
    scrapes = scrapes_of(seen, carried=reaches)
    coverage = hour_coverage(seen, scrapes=scrapes, hour=hour)
    observed = replace(
        unobserved_hour(hour, as_of=as_of, failure=None),
        observation=seen,
        scrapes=scrapes,
        coverage=coverage,
    )
    return Settlement(
        observation=replace(seen, evidence=tuple(evidence)),
        settled=settled,
        scrapes=scrapes,
        coverage=coverage,
        watch=observed.watch,
        basis=basis_of(observed, policy=by.policy),
        has_claims=observed.has_claims,
    )


def uids_of(part: bytes) -> list[str]:
    """Return the uids of the pods of a packed `PartSeen`."""
    return unpack(part, PartSeen).uids


def unobserved_hour(
    hour: Hour, *, as_of: datetime, failure: SourceUnavailableError | None
) -> HourObservation:
    """Return an hour of which no source but the watch reported anything."""
    return HourObservation(
        hour=hour,
        as_of=as_of,
        scrapes=scrapes_of(None),
        failure=failure,
        watch=watch_of(hour, until_at=as_of),
        has_claims=has_claims_of(hour),
    )


def observed_in_parts(hour: Hour, *, settlement: Settlement, as_of: datetime) -> HourObservation:
    """Return an hour as all parts observed it, without its pods."""
    seen = settlement.observation
    return HourObservation(
        hour=hour,
        as_of=seen.as_of if seen else as_of,
        observation=seen,
        scrapes=settlement.scrapes,
        coverage=settlement.coverage,
        watch=settlement.watch,
        has_claims=settlement.has_claims,
    )


def settled_pods(pods: Iterable[PodObservation], *, settled: Settled) -> tuple[PodObservation, ...]:
    """Return a part's pods as all parts together show them."""
    kept = (pod for pod in pods if pod.uid not in settled.left_out)
    return tuple(_settled_pod(pod, settled=settled) for pod in kept)


def _settled_pod(pod: PodObservation, *, settled: Settled) -> PodObservation:
    skew = timedelta(seconds=settled.clock_skew_seconds)
    defects = settled.defects.get(pod.uid, ())
    if not skew and not defects:
        return pod
    terminal = pod.terminal_seen_at
    return structs.replace(
        pod,
        first_seen_at=pod.first_seen_at - skew,
        last_seen_at=pod.last_seen_at - skew,
        terminal_seen_at=None if terminal is None else terminal - skew,
        defects=tuple(sorted({*pod.defects, *defects})),
    )


def _on_api_clock(reach: Reach, skew_seconds: int) -> Reach:
    skew = timedelta(seconds=skew_seconds)
    return Reach(reach.targets, reach.first_seen_at - skew, reach.last_seen_at - skew)

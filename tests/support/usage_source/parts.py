"""A window observed in parts and put together again, to be compared with one observed at once."""

from dataclasses import replace
from datetime import datetime
from functools import partial

from metering.domain.collection.parts import parts_of
from metering.protocols import ClusterTarget, Observation
from metering.protocols.parts import DividingSource, Frame
from metering.services.collection.division.packing import (
    pack,
    pack_pods,
    unpack,
    unpack_pods,
)
from metering.services.collection.division.reading import settled_pods


def observe_in_parts(
    source: DividingSource,
    target: ClusterTarget,
    *,
    start_at: datetime,
    end_at: datetime,
    as_of: datetime,
    parts: int,
) -> Observation:
    """Return what all parts of a window show, as it is kept between them, without evidence."""
    ask = partial(source.observe_frame, target, start_at=start_at, end_at=end_at, as_of=as_of)
    frame = unpack(pack(ask()), Frame)
    observed = [
        source.observe_part(target, frame=frame, as_of=as_of, part=part) for part in parts_of(parts)
    ]
    settled = source.settle(target, frame=frame, traces=[one.traces for one in observed])
    skew = settled.clock_skew_seconds
    if skew:
        frame = ask(clock_skew_seconds=skew)
    pods = [
        pod
        for one in observed
        for pod in settled_pods(unpack_pods(pack_pods(one.pods)), settled=settled)
    ]
    ordered = tuple(sorted(pods, key=lambda one: one.uid))
    return replace(frame.observation, pods=ordered, evidence=())

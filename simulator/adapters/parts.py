"""Answers in parts of a source that knows a window as a whole."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from metering.domain.collection.parts import Part
from metering.protocols import ClusterTarget, UsageSource
from metering.protocols.parts import Frame, PartObservation, Settled


class AnswersInParts(UsageSource):
    """Divides what `observe` returns; see `DividingSource`."""

    def observe_frame(
        self,
        target: ClusterTarget,
        *,
        start_at: datetime,
        end_at: datetime,
        as_of: datetime,
        clock_skew_seconds: int = 0,
    ) -> Frame:
        """Return all but the pods; see `DividingSource.observe_frame`."""
        del clock_skew_seconds  # A simulated clock is right.
        seen = self.observe(target, start_at=start_at, end_at=end_at, as_of=as_of)
        return Frame(replace(seen, pods=()))

    def observe_part(
        self, target: ClusterTarget, *, frame: Frame, as_of: datetime, part: Part
    ) -> PartObservation:
        """Return some pods; see `DividingSource.observe_part`."""
        hour = frame.observation
        seen = self.observe(target, start_at=hour.start_at, end_at=hour.end_at, as_of=as_of)
        return PartObservation(tuple(pod for pod in seen.pods if part.holds(pod.uid)))

    def settle(self, target: ClusterTarget, *, frame: Frame, traces: Iterable[bytes]) -> Settled:
        """Return that nothing is to be put right; see `DividingSource.settle`."""
        del target, frame, traces
        return Settled()

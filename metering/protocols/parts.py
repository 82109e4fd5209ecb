"""A source that can be asked about a part of a cluster's pods at a time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from metering.domain.collection.parts import Part
from metering.protocols import ClusterTarget, Evidence, Observation, PodObservation


@dataclass(frozen=True)
class Frame:
    """All that a source saw of a window but its pods.

    Attributes:
        traces: What the source needs of it to judge all parts together; it alone reads this.
    """

    observation: Observation
    traces: bytes = b""


@dataclass(frozen=True)
class PartObservation:
    """What a source saw of the pods of one part.

    Attributes:
        pods: As in an observation, on the source's clock.
        traces: As in a frame.
    """

    pods: tuple[PodObservation, ...]
    evidence: tuple[Evidence, ...] = ()
    traces: bytes = b""


@dataclass(frozen=True)
class Settled:
    """What only the pods of all parts together show.

    Attributes:
        clock_skew_seconds: As in an observation.
        defects: By uid, further sentences on a pod.
        left_out: Uids of pods that another one is known better as.
    """

    clock_skew_seconds: int = 0
    defects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()


@runtime_checkable
class DividingSource(Protocol):
    """A source of usage that answers in parts. Implementations: Prometheus, simulated.

    All questions about one window have one time. A source that does not answer in parts is asked
    about a window as a whole, however large it is.
    """

    def count_pods(self, target: ClusterTarget, *, as_of: datetime) -> int:
        """Return how many pods ask for a GPU at a time.

        Raises:
            SourceUnavailableError: As `UsageSource.observe` does.
        """
        ...

    def observe_frame(
        self,
        target: ClusterTarget,
        *,
        start_at: datetime,
        end_at: datetime,
        as_of: datetime,
        clock_skew_seconds: int = 0,
    ) -> Frame:
        """Return all of an observation but its pods, as if its clock were ahead by so much.

        Raises:
            SourceUnavailableError: As `UsageSource.observe` does.
        """
        ...

    def observe_part(
        self, target: ClusterTarget, *, frame: Frame, as_of: datetime, part: Part
    ) -> PartObservation:
        """Return the pods of one part, seen around the window of a frame.

        Args:
            target: The cluster.
            frame: The rest of the observation, without any skew.
            as_of: The time that the frame was asked with.
            part: The part.

        Raises:
            SourceUnavailableError: As `UsageSource.observe` does.
        """
        ...

    def settle(self, target: ClusterTarget, *, frame: Frame, traces: Iterable[bytes]) -> Settled:
        """Return what the parts of a window show together.

        Raises:
            SourceUnavailableError: They contradict each other, as `UsageSource.observe` does.
        """
        ...

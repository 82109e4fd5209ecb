"""Readings: how each watched kind is being read, and when it is tried again after a failure."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from metering.protocols.watch import WatchedKind, WatchEvent, WatchExpiredError
from metering.services.allocations.heartbeats import outage_wait_seconds, wait_seconds
from metering.services.allocations.streams import Stream
from tenants.domain.errors import SourceUnavailableError

KINDS: Final = (
    WatchedKind.CLASSES,
    WatchedKind.NODES,
    WatchedKind.SLICES,
    WatchedKind.PODS,
    WatchedKind.CLAIMS,
)
"""In the order in which they are written: each finds what it points at."""
WITHOUT_TIMES: Final = frozenset({WatchedKind.CLASSES})
"""What only gives names: no hour is less covered while it cannot be read."""
ALWAYS_SERVED: Final = frozenset({WatchedKind.PODS, WatchedKind.NODES})
"""A server without these is none; one without device claims is only old."""
OUTAGE_REASONS: Final = frozenset({"unreachable", "truncated", "server_error"})
"""An API server that is away or starts: what is asked of it meanwhile costs it nothing."""
EXPIRED: Final = "expired"
ANSWER_SECONDS_MAX: Final = 1
"""How long a list waits for the streams opened with it: their versions may have expired too."""
WatchError = SourceUnavailableError | WatchExpiredError


@dataclass
class KindReading:
    """How one kind is being read.

    Attributes:
        failures: In a row, without those of an outage.
        outages: Failures in a row because the server was away.
        is_fresh: Whether its version comes from a list, and nothing was read since.
        whole_since: From when on nothing was lost, as a list showed; None once a heartbeat has it.
        is_whole: Whether nothing is known to be missing: it was read to its end, or is open long
            enough.
    """

    kind: WatchedKind
    version: str | None
    relist_at: int
    stream: Stream | None = None
    asked_at: int = 0
    opened_at: int | None = None
    ended_at: int | None = None
    pending: list[WatchEvent] = field(default_factory=list)
    pending_since: int = 0
    has_reported: bool = False
    failures: int = 0
    outages: int = 0
    start_at: int = 0
    is_served: bool = True
    is_fresh: bool = False
    whole_since: datetime | None = None
    is_whole: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the server has accepted the stream's version."""
        return self.stream is not None and self.opened_at is not None

    def is_due(self, now: int) -> bool:
        """Whether a stream is to be opened, after a list if there is no version."""
        return self.stream is None and now >= self.start_at

    def is_asking(self, now: int) -> bool:
        """Whether a stream was opened just now, and the server has not answered."""
        is_unanswered = self.stream is not None and self.opened_at is None
        return is_unanswered and now - self.asked_at <= ANSWER_SECONDS_MAX

    def note_progress(self) -> None:
        """Begin to count failures anew."""
        self.failures = self.outages = 0
        self.is_fresh = False

    def note_failure(self, error: WatchError, *, seed: str) -> tuple[str, int]:
        """Count a failure; return its reason, and how many seconds to wait.

        A version that expired is listed at once. If what was just listed expires, waits double, so
        that a server that cannot serve a watch is not made to list for ever.

        Args:
            error: What went wrong.
            seed: What spreads the waits: of a cluster, so that its kinds are read together.
        """
        reason = error.reason if isinstance(error, SourceUnavailableError) else EXPIRED
        self.is_whole = False
        if reason in {EXPIRED, "not_served"}:
            self.version = None
        if reason == EXPIRED and not self.is_fresh:
            return reason, 0
        asked = getattr(error, "retry_after_seconds", 0)
        if reason in OUTAGE_REASONS:
            self.outages += 1
            return reason, max(outage_wait_seconds(failures=self.outages, seed=seed), asked)
        self.failures += 1
        return reason, wait_seconds(failures=self.failures, seed=seed, asked=asked)

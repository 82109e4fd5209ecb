"""Pace: how often a watch tells, writes, lists again and tries again."""

import hashlib
import time
from dataclasses import dataclass
from typing import Final

WAIT_SECONDS_MAX: Final = 60
WAIT_DOUBLINGS_MAX: Final = 6
JITTER_PERCENT: Final = 50
RENEWALS_PER_LEASE: Final = 3
GAP_SECONDS_MAX: Final = 2
"""A stream that follows the one before within this tells everything as good as at once."""


@dataclass(frozen=True)
class WatchPace:
    """The times a watch keeps.

    Attributes:
        heartbeat_seconds: Between two heartbeats while everything is alive and written.
        lease_seconds: How long a lease lasts without being renewed; it is renewed thrice as often.
        relist_seconds: Between two full lists of a kind, which repair what may have drifted.
        stream_seconds: How long one stream may last; it is resumed then.
        doubt_seconds: How long most of what is open has to be missing in lists before they are
            believed.
        drain_seconds: How long a stream is read on for what a list already shows.
        quiet_seconds: A stream that was opened so long ago, and of which nothing waits to be
            written, has caught up: servers send what was missed at once.
        batch_events_max: Events written in one transaction.
        batch_seconds: How long an event waits for others to be written with it.
        reopen_seconds: Least time between the starts of two streams of a kind.
    """

    heartbeat_seconds: int = 10
    lease_seconds: int = 30
    relist_seconds: int = 600
    stream_seconds: int = 300
    doubt_seconds: int = 60
    drain_seconds: int = 3
    quiet_seconds: int = 2
    batch_events_max: int = 500
    batch_seconds: int = 1
    reopen_seconds: int = 1


def whole_pulse() -> int:
    """Return whole seconds that only ever grow."""
    return int(time.monotonic())


def wait_seconds(*, failures: int, seed: str, asked: int = 0) -> int:
    """Return how long to wait after failures in a row: doubling, bounded, spread by the seed.

    Args:
        failures: At least 1.
        seed: What spreads several streams; the same seed waits the same time.
        asked: The least the server asks for, in seconds.
    """
    base = min(1 << min(failures - 1, WAIT_DOUBLINGS_MAX), WAIT_SECONDS_MAX)
    digest = hashlib.sha256(f"{seed}/{failures}".encode()).digest()
    spread = int.from_bytes(digest[:4], "big") % (JITTER_PERCENT + 1)
    return max(base + base * spread // 100, asked)

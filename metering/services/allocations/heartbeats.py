"""Heartbeats: how often a watch reports that it is healthy, by which clock, and what went wrong."""

import hashlib
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from metering.domain.allocations.timeline import HEALTHY_FOR
from metering.domain.collection.crashpoints import crashpoint
from metering.models import ClusterWatch
from metering.services.allocations.ends import end_on_lost_nodes
from metering.services.allocations.leases import Lease, require_lease

# Extend the newest span unless the watch was silent for too long, or a list began a new one.
_GO_ON = """
UPDATE metering_watchspan s SET until_at = GREATEST(s.until_at, %(at)s)
 WHERE s.id = (SELECT id FROM metering_watchspan WHERE cluster_id = %(cluster_id)s
                ORDER BY begin_at DESC LIMIT 1)
   AND s.until_at >= %(at)s - %(healthy_for)s
   AND NOT EXISTS (SELECT FROM metering_watchcursor c
     WHERE c.cluster_id = %(cluster_id)s AND c.is_afresh)
"""
# A heartbeat older than a list does not cover it: a clock may be set back.
_BEGIN = """
INSERT INTO metering_watchspan (cluster_id, begin_at, until_at, is_resumed)
SELECT %(cluster_id)s, LEAST(%(since)s, %(at)s), %(at)s,
       NOT EXISTS (SELECT FROM metering_watchcursor c
         WHERE c.cluster_id = %(cluster_id)s AND c.is_afresh)
 WHERE NOT EXISTS (SELECT FROM metering_watchcursor c
   WHERE c.cluster_id = %(cluster_id)s AND c.is_afresh AND c.listed_at > %(at)s)
    ON CONFLICT DO NOTHING
"""
_TOLD = """
UPDATE metering_watchcursor SET is_afresh = false
 WHERE cluster_id = %(cluster_id)s AND is_afresh AND listed_at <= %(at)s
"""
_HEALTHY = """
UPDATE metering_clusterwatch SET healthy_at = GREATEST(healthy_at, %(at)s), last_error = ''
 WHERE cluster_id = %(cluster_id)s
"""


def beat(*, lease: Lease, at: datetime, since: datetime | None = None) -> None:
    """Record that every stream is alive, has caught up, and that all its events are written.

    Call it every `HEARTBEAT_SECONDS`. After a stream broke, call it again only once it has caught
    up: a bookmark arrived, or no event arrived for a while. A deletion that arrives before that is
    treated as part of the gap, and its end is bounded by the last heartbeat.

    The caller does not decide whether events were lost since the last heartbeat: the cursor of a
    kind that was listed anew records it, and then a span begins that is not resumed.

    Args:
        lease: The watch's.
        at: Now, by the clock of the process.
        since: When the last list that was read anew since the last heartbeat was answered: a new
            span begins there, because the streams continue from that list; None without one.

    Raises:
        LeaseLostError: Another process leads the watch; nothing was written.
    """
    given: dict[str, Any] = {
        "cluster_id": lease.cluster_id,
        "at": at,
        "since": since or at,
        "healthy_for": HEALTHY_FOR,
    }
    with transaction.atomic():
        require_lease(lease)
        with connection.cursor() as cursor:
            cursor.execute(_GO_ON, given)
            if not cursor.rowcount:
                cursor.execute(_BEGIN, given)
                cursor.execute(_TOLD, given)
            cursor.execute(_HEALTHY, given)
        end_on_lost_nodes(lease.cluster_id, at=at)
        crashpoint("watch.beat.before_commit")
    crashpoint("watch.beat.after_commit")


CLOCK_AHEAD_MAX: Final = timedelta(seconds=5)
"""Clocks synchronized by NTP differ by less than a second; five allow for a slow statement.

It is less than a heartbeat, so no span reaches a heartbeat too far.
"""


class ClockAheadError(Exception):
    """Raised when the clock of a process is ahead of the database's; nothing was written."""


def refuse_future(moment: datetime, *, database_at: datetime) -> None:
    """Refuse a moment that the database's clock has not come to.

    Raises:
        ClockAheadError: It is more than `CLOCK_AHEAD_MAX` ahead.
    """
    ahead = moment - database_at
    if ahead > CLOCK_AHEAD_MAX:
        seconds = int(ahead.total_seconds())
        raise ClockAheadError(
            f"The clock of the watching process is {seconds} s ahead of the database's;"
            " it does not watch until that is put right."
        )


WAIT_SECONDS_MAX: Final = 60
WAIT_DOUBLINGS_MAX: Final = 6
JITTER_PERCENT: Final = 50
RENEWALS_PER_LEASE: Final = 3
GAP_SECONDS_MAX: Final = 2
"""A stream that starts within this time after the previous one delivers its events promptly."""


@dataclass(frozen=True)
class WatchPace:
    """The times a watch keeps.

    Attributes:
        heartbeat_seconds: Between two heartbeats while everything is alive and written.
        lease_seconds: How long a lease lasts without being renewed; it is renewed thrice as often.
        relist_seconds: Between two full lists of a kind, which repair what may have drifted.
        stream_seconds: How long one stream may last; it is resumed then.
        doubt_seconds: How long most of what is open has to be missing in lists before they are
            accepted.
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
    suspicion_seconds: int = 60
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
        asked: The minimum the server requests, in seconds.
    """
    base = min(1 << min(failures - 1, WAIT_DOUBLINGS_MAX), WAIT_SECONDS_MAX)
    spread = _drawn(failures, seed) % (JITTER_PERCENT + 1)
    return max(base + base * spread // 100, asked)


OUTAGE_WAIT_SECONDS_MAX: Final = 2
"""Once the server is back, the watch is blind for no longer than this and a list's answer."""
OUTAGE_TRIES_MAX: Final = 400
"""Some ten minutes, in which a control plane is upgraded; after that waits double."""


def outage_wait_seconds(*, failures: int, seed: str) -> int:
    """Return how long to wait after failures in a row while an API server is away.

    Args:
        failures: At least 1.
        seed: What spreads several clusters; the same seed waits the same time.
    """
    if failures > OUTAGE_TRIES_MAX:
        return wait_seconds(failures=failures - OUTAGE_TRIES_MAX, seed=seed)
    return 1 + _drawn(failures, seed) % OUTAGE_WAIT_SECONDS_MAX


def _drawn(failures: int, seed: str) -> int:
    digest = hashlib.sha256(f"{seed}/{failures}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


# The judge is the database's clock, as for leases.
_IDLE = """
UPDATE metering_clusterwatch SET last_error = %s
 WHERE cluster_id = %s AND COALESCE(lease_until <= clock_timestamp(), true)
"""
TEXT_MAX: Final = 500


def note_trouble(*, lease: Lease, text: str) -> None:
    """Store the error while this lease is valid; otherwise leave that to the leader."""
    ClusterWatch.objects.filter(
        pk=lease.cluster_id, lease_owner=lease.holder, fence=lease.fence
    ).update(last_error=text[:TEXT_MAX])


def note_idle_trouble(*, cluster_id: UUID, text: str) -> None:
    """Keep why a process does not lead, unless another one does."""
    with connection.cursor() as cursor:
        cursor.execute(_IDLE, [text[:TEXT_MAX], cluster_id])

"""The loop of one cluster's watch: it takes the lease, lists, streams, writes and begins again.

One thread writes. It lists each kind that has no stored version, streams from there on, and writes
heartbeats only while every stream is open, has caught up, and is written.
"""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog
from django.db import InterfaceError, OperationalError, connection

from metering.domain.errors import LeaseLostError
from metering.protocols.watch import Change, WatchedKind, WatchEvent, WatchExpiredError, WatchTarget
from metering.selectors.allocations.watch import cursor_of
from metering.services.allocations.heartbeats import (
    GAP_SECONDS_MAX,
    RENEWALS_PER_LEASE,
    ClockAheadError,
    note_idle_trouble,
    wait_seconds,
)
from metering.services.allocations.leading import Leader, StoppedError, Watcher
from metering.services.allocations.leases import release_lease, take_lease
from metering.services.allocations.streams import Ended, Stream, StreamQueue
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use

logger = structlog.get_logger(__name__)

KINDS: Final = (WatchedKind.NODES, WatchedKind.SLICES, WatchedKind.PODS, WatchedKind.CLAIMS)
"""In the order in which they are listed: each finds what it points at."""
ALWAYS_SERVED: Final = frozenset({WatchedKind.PODS, WatchedKind.NODES})
"""A server without these is none; one without device claims is only old."""
STREAM_SECONDS_MIN: Final = 5
TURN: Final = timedelta(milliseconds=200)
"""How long an iteration waits for events; also how soon a stop is noticed."""
NOTHING: Final = timedelta(0)
ROUNDS_MAX: Final = 50
"""Full queues written before a heartbeat; a stream that is faster for ever has not caught up."""


@dataclass
class _KindReading:
    """How one kind is being read."""

    kind: WatchedKind
    version: str | None
    relist_at: int
    stream: Stream | None = None
    opened_at: int | None = None
    ended_at: int | None = None
    pending: list[WatchEvent] = field(default_factory=list)
    pending_since: int = 0
    has_reported: bool = False
    failures: int = 0
    start_at: int = 0
    is_served: bool = True
    is_whole: bool = False
    """Whether nothing is known to be missing: it was read to its end, or is open long enough."""


class WatchLoop:
    """Everything of one cluster between taking its lease and giving it back."""

    def __init__(self, *, leader: Leader, cluster_id: UUID) -> None:
        """Find the stored version of each kind; no request is sent yet."""
        self._leader = leader
        self._watcher = leader.watcher
        self._pace = leader.watcher.pace
        self._cluster_id = cluster_id
        self._queue = StreamQueue()
        now = self._watcher.pulse()
        self._beat_at = now
        self._readings = {
            kind: _KindReading(kind, cursor_of(cluster_id, kind), now + self._pace.relist_seconds)
            for kind in KINDS
        }

    def turn(self) -> None:
        """Start due streams, take arrived events, write full batches, and write a heartbeat.

        Raises:
            LeaseLostError: Another process leads.
            ClockAheadError: The process' clock is wrong.
            StoppedError: The process is to end.
        """
        self._leader.renew()
        for reading in self._readings.values():
            if reading.stream is None and self._watcher.pulse() >= reading.start_at:
                self._start(reading)
        self._take(wait=TURN)
        for reading in self._readings.values():
            if self._is_ripe(reading):
                self._write(reading)
        self._beat_if_due()

    def read_once(self) -> None:
        """Bring every kind up to now, and write a heartbeat.

        Raises:
            SourceUnavailableError: The API cannot be queried.
        """
        for reading in self._readings.values():
            if not self._serves(reading):
                continue
            try:
                if reading.version is not None:
                    reading.version = self._leader.drain(reading.kind, reading.version)
                    continue
            except WatchExpiredError:
                reading.version = None
            self._list(reading)
        self._leader.beat(at=self._watcher.moment())

    def finish(self) -> None:
        """Write what has come already."""
        self._take(wait=NOTHING)
        self._write_all()

    def abandon(self) -> None:
        """Want nothing of any stream any more."""
        for reading in self._readings.values():
            if reading.stream is not None:
                reading.stream.abandon()

    def _start(self, reading: _KindReading) -> None:
        """Open a stream, after a list where one is due; what cannot be had is tried again later."""
        try:
            if not self._serves(reading):
                return
            if reading.version is None:
                self._list(reading)
            elif self._watcher.pulse() >= reading.relist_at:
                reading.version = self._leader.read_list_again(
                    reading.kind, reading.version, follows=not reading.failures
                )
                self._listed(reading)
        except (SourceUnavailableError, WatchExpiredError) as error:
            # What was read before the fault is written, so it is not requested again.
            reading.version = reading.version and cursor_of(self._cluster_id, reading.kind)
            self._fail(reading, error)
            return
        now = self._watcher.pulse()
        left = max(STREAM_SECONDS_MIN, int(reading.relist_at - now))
        reading.start_at = now + self._pace.reopen_seconds
        reading.opened_at, reading.has_reported = None, False
        assert reading.version is not None  # noqa: S101 - Listed above; narrows the type.
        reading.stream = Stream(
            watch=self._watcher.watch,
            target=self._leader.target,
            kind=reading.kind,
            resource_version=reading.version,
            timeout_seconds=min(self._pace.stream_seconds, left),
            queue=self._queue,
        )
        reading.stream.start()

    def _serves(self, reading: _KindReading) -> bool:
        """Whether the server knows a kind; if not, it is checked again with each list."""
        if reading.version is None:
            reading.is_served = self._watcher.watch.serves(self._leader.target, reading.kind)
        if not reading.is_served and reading.kind in ALWAYS_SERVED:
            raise SourceUnavailableError(
                f"The server does not know {reading.kind}.", reason="not_served"
            )
        if not reading.is_served:
            reading.start_at = self._watcher.pulse() + self._pace.relist_seconds
        return reading.is_served

    def _list(self, reading: _KindReading) -> None:
        """List a kind without a stored version: earlier changes were not observed."""
        reading.version = self._leader.read_list(reading.kind)
        self._listed(reading)

    def _listed(self, reading: _KindReading) -> None:
        reading.failures = 0
        reading.relist_at = self._watcher.pulse() + self._pace.relist_seconds

    def _take(self, *, wait: timedelta) -> bool:
        """Take what has come, and return whether that was anything."""
        items = self._queue.take(wait=wait)
        for stream, item in items:
            reading = self._readings[stream.kind]
            if reading.stream is not stream:
                continue
            if isinstance(item, Ended):
                self._end(reading, item)
            else:
                self._hold(reading, item)
        return bool(items)

    def _hold(self, reading: _KindReading, event: WatchEvent) -> None:
        """Keep an event until its batch is written; of bookmarks in a row only the last counts."""
        now = self._watcher.pulse()
        if reading.opened_at is None:
            reading.opened_at = now
            return
        reading.failures, reading.has_reported = 0, True
        former = reading.ended_at
        if former is not None and reading.opened_at - former <= GAP_SECONDS_MAX:
            event = replace(event, is_prompt=True)
        if not reading.pending:
            reading.pending_since = now
        elif event.change is Change.BOOKMARK and reading.pending[-1].change is Change.BOOKMARK:
            reading.pending.pop()
        reading.pending.append(event)
        if len(reading.pending) >= self._pace.batch_events_max:
            self._write(reading)

    def _end(self, reading: _KindReading, ended: Ended) -> None:
        """Write the last events of a stream, then handle its end."""
        self._write(reading)
        reading.stream, reading.ended_at = None, self._watcher.pulse()
        error = ended.error
        if error is None and not reading.has_reported and not self._is_old(reading):
            # A stream that ends at once proves nothing.
            error = SourceUnavailableError("The stream ended at once.", reason="empty_stream")
        if _is_idle(error) and reading.opened_at is not None:
            # Old servers send no bookmark while nothing happens, so silence proves nothing: asking
            # again does. Its possible backlog is not treated as prompt.
            reading.ended_at = None
        elif error is None:
            reading.is_whole = True
        elif isinstance(error, SourceUnavailableError | WatchExpiredError):
            self._fail(reading, error)
        else:
            raise error

    def _fail(
        self, reading: _KindReading, error: SourceUnavailableError | WatchExpiredError
    ) -> None:
        reading.failures += 1
        reading.is_whole = False
        reason = "expired" if isinstance(error, WatchExpiredError) else error.reason
        if reason in {"expired", "not_served"}:
            reading.version = None
        slug = self._leader.target.slug
        pause = wait_seconds(
            failures=reading.failures,
            seed=f"{slug}/{reading.kind}",
            asked=getattr(error, "retry_after_seconds", 0),
        )
        reading.start_at = self._watcher.pulse() + pause
        self._leader.note(f"{reading.kind}: {error}", error)
        logger.warning(
            "metering.watch.stream_failed",
            cluster=slug,
            kind=reading.kind,
            reason=reason,
            failures=reading.failures,
            pause_seconds=pause,
        )

    def _is_ripe(self, reading: _KindReading) -> bool:
        age = self._watcher.pulse() - reading.pending_since
        return bool(reading.pending) and age >= self._pace.batch_seconds

    def _write(self, reading: _KindReading) -> None:
        if not reading.pending:
            return
        events, reading.pending = reading.pending, []
        self._leader.write(reading.kind, events)
        reading.version = events[-1].resource_version

    def _write_all(self) -> None:
        for reading in self._readings.values():
            self._write(reading)

    def _beat_if_due(self) -> None:
        """Write a heartbeat, once every event that had arrived by then is written."""
        if self._watcher.pulse() < self._beat_at:
            return
        at = self._watcher.moment()
        for _ in range(ROUNDS_MAX):
            if not self._take(wait=NOTHING):
                break
        else:
            return
        self._write_all()
        if not all(self._is_well(reading) for reading in self._readings.values()):
            return
        self._leader.beat(at=at)
        self._beat_at = self._watcher.pulse() + self._pace.heartbeat_seconds

    def _is_well(self, reading: _KindReading) -> bool:
        """Whether a kind is read without a gap: it caught up, or ended and is due to continue."""
        if not reading.is_served:
            return True
        if reading.stream is not None and self._is_old(reading):
            reading.is_whole = True
        return reading.is_whole

    def _is_old(self, reading: _KindReading) -> bool:
        """Whether a stream has been open long enough to have delivered the missed events."""
        if reading.opened_at is None:
            return False
        return self._watcher.pulse() - reading.opened_at >= self._pace.quiet_seconds


def _is_idle(error: Exception | None) -> bool:
    return isinstance(error, SourceUnavailableError) and error.reason == "stalled"


def keep_watching(*, cluster_id: UUID, target: WatchTarget, watcher: Watcher) -> None:
    """Watch a cluster, or wait to lead its watch, until the watcher is stopped.

    An error of one cluster is logged and retried; it never ends the others.
    """
    failures = 0
    while not watcher.stop.is_set():
        pause = watcher.pace.lease_seconds // RENEWALS_PER_LEASE
        try:
            if watch_cluster(cluster_id=cluster_id, target=target, watcher=watcher):
                failures = 0
        except LeaseLostError:
            logger.warning("metering.watch.lease_lost", cluster=target.slug)
        except ClockAheadError as error:
            failures += 1
            pause = wait_seconds(failures=failures, seed=target.slug)
            note_idle_trouble(cluster_id=cluster_id, text=str(error))
            logger.error(  # noqa: TRY400 - The traceback would add nothing.
                "metering.watch.clock_ahead", cluster=target.slug, reason=str(error)
            )
        except (OperationalError, InterfaceError) as error:
            failures += 1
            connection.close()
            pause = wait_seconds(failures=failures, seed=target.slug)
            logger.warning(
                "metering.watch.database_unavailable", cluster=target.slug, reason=str(error)
            )
        except Exception:  # One cluster's fault is not the others'.
            failures += 1
            pause = wait_seconds(failures=failures, seed=target.slug)
            logger.exception("metering.watch.failed", cluster=target.slug)
        watcher.stop.wait(pause)


def watch_cluster(
    *, cluster_id: UUID, target: WatchTarget, watcher: Watcher, is_once: bool = False
) -> bool:
    """Lead a cluster's watch until stopped; return False when another process leads it.

    Args:
        cluster_id: The cluster.
        target: The same, as its API is reached.
        watcher: The watching process.
        is_once: Read every kind up to now and return.

    Raises:
        LeaseLostError: The lease was lost; nothing was written after that.
        ClockAheadError: The process' clock is wrong; it does not lead.
        SourceUnavailableError: With `is_once`, the API cannot be queried.
    """
    lease = take_lease(
        cluster_id=cluster_id,
        holder=watcher.name,
        lease_seconds=watcher.pace.lease_seconds,
        actor=watcher.actor,
        at=watcher.moment(),
    )
    if lease is None:
        return False
    logger.info("metering.watch.leading", cluster=target.slug, fence=lease.fence)
    loop = WatchLoop(
        leader=Leader(lease=lease, target=target, watcher=watcher), cluster_id=cluster_id
    )
    try:
        if is_once:
            with audited_use(slug=target.slug, actor=watcher.actor, at=watcher.clock()):
                loop.read_once()
        while not (is_once or watcher.stop.is_set()):
            loop.turn()
        loop.finish()
    except ClockAheadError:
        # A process whose clock is right may lead at once; it continues from the stored versions.
        release_lease(lease=lease)
        raise
    except StoppedError:
        logger.info("metering.watch.list_interrupted", cluster=target.slug)
    finally:
        loop.abandon()
    release_lease(lease=lease)
    logger.info("metering.watch.stopped", cluster=target.slug)
    return True

"""The loop of one cluster's watch: it lists, streams, writes and begins again.

One thread writes. It lists each kind that has no stored version, streams from there on, and writes
heartbeats only while every stream is open, has caught up, and is written.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from metering.protocols.watch import Change, WatchEvent, WatchExpiredError
from metering.selectors.allocations.watch import cursor_of
from metering.services.allocations.heartbeats import GAP_SECONDS_MAX
from metering.services.allocations.leading import Leader
from metering.services.allocations.readings import (
    ALWAYS_SERVED,
    ANSWER_SECONDS_MAX,
    KINDS,
    OUTAGE_REASONS,
    WITHOUT_TIMES,
    KindReading,
    WatchError,
)
from metering.services.allocations.streams import (
    Ended,
    KindNotServedError,
    ListFetch,
    Stream,
    StreamQueue,
)
from tenants.domain.errors import SourceUnavailableError

logger = structlog.get_logger(__name__)

STREAM_SECONDS_MIN: Final = 5
TURN: Final = timedelta(milliseconds=200)
"""How long an iteration waits for events; also how soon a stop is noticed."""
NOTHING: Final = timedelta(0)
ROUNDS_MAX: Final = 50
"""Full queues written before a heartbeat; a stream that is faster for ever has not caught up."""


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
        self._beat_at = self._retry_at = now
        self._flowed_at: datetime | None = None
        self._readings = {
            kind: KindReading(kind, cursor_of(cluster_id, kind), now + self._pace.relist_seconds)
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
        self._start_due()
        self._take(wait=TURN)
        for reading in self._readings.values():
            if self._is_ripe(reading):
                self._write(reading)
        self._note_flow()
        self._beat_if_due()

    def read_once(self) -> None:
        """Bring every kind up to now, and write a heartbeat.

        Raises:
            SourceUnavailableError: The API cannot be queried.
        """
        for reading in self._readings.values():
            try:
                self._read_up(reading)
            except SourceUnavailableError as error:
                if reading.kind not in WITHOUT_TIMES:
                    raise
                self._fail(reading, error)
        self._leader.beat(at=self._watcher.moment())

    def _read_up(self, reading: KindReading) -> None:
        """Bring one kind up to now."""
        if reading.version is not None:
            try:
                reading.version = self._leader.drain(reading.kind, reading.version)
            except WatchExpiredError:
                reading.version = None
        if reading.version is None:
            self._read_list(reading, self._fetch([reading])[0])

    def finish(self) -> None:
        """Write what has come already."""
        self._take(wait=NOTHING)
        self._write_all()

    def abandon(self) -> None:
        """Want nothing of any stream any more."""
        for reading in self._readings.values():
            if reading.stream is not None:
                reading.stream.abandon()

    def _start_due(self) -> None:
        """Open the streams that are due; list what has no version, all such kinds side by side."""
        now = self._watcher.pulse()
        readings = self._readings.values()
        for reading in readings:
            if reading.version is not None and reading.is_due(now):
                self._resume(reading, reading.version)
        unlisted = [each for each in readings if each.version is None and each.is_due(now)]
        # What is asked now may have expired too: it is then listed with the others, in order.
        is_early = all(now - each.start_at <= ANSWER_SECONDS_MAX for each in unlisted)
        if unlisted and not (is_early and any(each.is_asking(now) for each in readings)):
            self._list(unlisted)

    def _resume(self, reading: KindReading, version: str) -> None:
        """Open a stream from a version, after another full list where one is due."""
        if self._watcher.pulse() >= reading.relist_at:
            try:
                version = self._leader.read_list_again(
                    reading.kind, version, follows=not (reading.failures or reading.outages)
                )
            except (SourceUnavailableError, WatchExpiredError) as error:
                # What was read before the fault is written, so it is not requested again.
                reading.version = cursor_of(self._cluster_id, reading.kind)
                self._fail(reading, error)
                return
            self._set_listed(reading, version)
        self._open(reading, version)

    def _open(self, reading: KindReading, version: str) -> None:
        now = self._watcher.pulse()
        left = max(STREAM_SECONDS_MIN, int(reading.relist_at - now))
        reading.start_at, reading.asked_at = now + self._pace.reopen_seconds, now
        reading.opened_at, reading.has_reported = None, False
        reading.stream = Stream(
            watch=self._watcher.watch,
            target=self._leader.target,
            kind=reading.kind,
            resource_version=version,
            timeout_seconds=min(self._pace.stream_seconds, left),
            queue=self._queue,
        )
        reading.stream.start()

    def _list(self, readings: Sequence[KindReading]) -> None:
        """List kinds without a stored version, and open their streams.

        They are fetched side by side, and written in their order.
        """
        fetches = self._fetch(readings)
        try:
            for reading, fetch in zip(readings, fetches, strict=True):
                try:
                    version = self._read_list(reading, fetch)
                except (SourceUnavailableError, WatchExpiredError) as error:
                    self._fail(reading, error)
                    continue
                if version is not None:
                    self._open(reading, version)
        finally:
            for fetch in fetches:
                fetch.abandon()

    def _fetch(self, readings: Sequence[KindReading]) -> list[ListFetch]:
        at = self._watcher.moment()
        return [self._leader.fetch_list(reading.kind, at=at) for reading in readings]

    def _read_list(self, reading: KindReading, fetch: ListFetch) -> str | None:
        """Write a list: earlier changes were not observed; None where the kind is not served.

        Such a kind is checked again with each list.
        """
        reading.is_fresh = True
        try:
            version = self._leader.read_list(fetch)
        except KindNotServedError as error:
            if reading.kind in ALWAYS_SERVED:
                raise SourceUnavailableError(str(error), reason="not_served") from error
            reading.is_served = False
            reading.start_at = self._watcher.pulse() + self._pace.relist_seconds
            return None
        reading.is_served, reading.whole_since = True, fetch.answered_at
        self._set_listed(reading, version)
        return version

    def _set_listed(self, reading: KindReading, version: str) -> None:
        reading.version = version
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

    def _hold(self, reading: KindReading, event: WatchEvent) -> None:
        """Keep an event until its batch is written; of bookmarks in a row only the last counts."""
        now = self._watcher.pulse()
        if reading.opened_at is None:
            reading.opened_at = now
            return
        reading.note_progress()
        reading.has_reported = True
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

    def _end(self, reading: KindReading, ended: Ended) -> None:
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

    def _fail(self, reading: KindReading, error: WatchError) -> None:
        """Count a failure and set when the kind is tried again.

        While the server is away all kinds are tried at the same times, so that they come back
        together.
        """
        self._beat_last_flow()
        slug, now = self._leader.target.slug, self._watcher.pulse()
        reason, pause = reading.note_failure(error, seed=slug)
        if reason in OUTAGE_REASONS:
            self._retry_at = self._retry_at if self._retry_at > now else now + pause
            pause = max(self._retry_at - now, getattr(error, "retry_after_seconds", 0))
        elif not pause:
            self._retry_now(now)
        reading.start_at = now + pause
        self._leader.note(f"{reading.kind}: {error}", error)
        failures = reading.failures + reading.outages
        if pause and failures.bit_count() > 1:
            # An outage of minutes would fill the log.
            return
        logger.warning(
            "metering.watch.stream_failed",
            cluster=slug,
            kind=reading.kind,
            reason=reason,
            failures=failures,
            pause_seconds=pause,
        )

    def _retry_now(self, now: int) -> None:
        """Try again what failed while the server was away: it has answered."""
        self._retry_at = now
        for reading in self._readings.values():
            if reading.outages:
                reading.start_at = min(reading.start_at, now)

    def _is_ripe(self, reading: KindReading) -> bool:
        age = self._watcher.pulse() - reading.pending_since
        return bool(reading.pending) and age >= self._pace.batch_seconds

    def _write(self, reading: KindReading) -> None:
        if not reading.pending:
            return
        events, reading.pending = reading.pending, []
        self._leader.write(reading.kind, events)
        reading.version = events[-1].resource_version

    def _write_all(self) -> None:
        for reading in self._readings.values():
            self._write(reading)

    def _note_flow(self) -> None:
        """Remember until when every stream was open and everything that had arrived was taken."""
        at = self._watcher.clock()
        is_flowing = all(
            self._is_well(reading)
            and (reading.is_open or not reading.is_served or reading.kind in WITHOUT_TIMES)
            for reading in self._readings.values()
        )
        if is_flowing and self._queue.is_empty():
            self._flowed_at = at

    def _beat_last_flow(self) -> None:
        """Write the heartbeat of the last moment before a stream broke."""
        at, self._flowed_at = self._flowed_at, None
        if at is None:
            return
        self._watcher.moment()
        self._write_all()
        self._leader.beat(at=at)

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
        readings = self._readings.values()
        if not all(self._is_well(reading) for reading in readings):
            return
        timed = (reading for reading in readings if reading.kind not in WITHOUT_TIMES)
        listed = [reading.whole_since for reading in timed if reading.whole_since is not None]
        self._leader.beat(at=at, since=max(listed, default=None))
        for reading in readings:
            reading.whole_since = None
        self._beat_at = self._watcher.pulse() + self._pace.heartbeat_seconds

    def _is_well(self, reading: KindReading) -> bool:
        """Whether a kind is read without a gap: it caught up, or ended and is due to continue."""
        if not reading.is_served or reading.kind in WITHOUT_TIMES:
            return True
        if reading.is_open and self._is_old(reading):
            reading.is_whole = True
            reading.note_progress()
        return reading.is_whole

    def _is_old(self, reading: KindReading) -> bool:
        """Whether a stream has been open long enough to have delivered the missed events."""
        if reading.opened_at is None:
            return False
        return self._watcher.pulse() - reading.opened_at >= self._pace.quiet_seconds


def _is_idle(error: Exception | None) -> bool:
    return isinstance(error, SourceUnavailableError) and error.reason == "stalled"

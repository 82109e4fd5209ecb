"""Leading: what the holder of a cluster's lease may do, one step at a time.

Everything here writes in the thread that calls it, and stops at once when the lease is lost.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event

from metering.domain.errors import LeaseLostError
from metering.protocols.watch import (
    ClusterWatchSource,
    ListPage,
    WatchedKind,
    WatchEvent,
    WatchTarget,
)
from metering.services.allocations.batches import ImplausibleListError
from metering.services.allocations.heartbeats import (
    GAP_SECONDS_MAX,
    RENEWALS_PER_LEASE,
    WatchPace,
    beat,
    note_trouble,
    refuse_future,
    whole_pulse,
)
from metering.services.allocations.leases import Lease, renew_lease
from metering.services.allocations.lists import ledger_events, ledger_list
from metering.services.allocations.streams import ListFetch
from tenants.domain.actors import Actor
from tenants.selectors.clock import database_now
from tenants.services.audit import note_refused_use


class StoppedError(Exception):
    """Raised during a list when the process is stopped; nothing was written."""


@dataclass(frozen=True)
class Watcher:
    """The watching process, its clocks and its intervals.

    Attributes:
        name: Unique to the process.
        clock: Returns the present moment, aware UTC; call `now`, which checks it.
        pulse: Returns monotonic seconds.
        stop: Set when the process is to end.
        database_clock: Returns the present moment by the database.
    """

    name: str
    watch: ClusterWatchSource
    actor: Actor
    clock: Callable[[], datetime]
    pace: WatchPace = field(default_factory=WatchPace)
    pulse: Callable[[], int] = whole_pulse
    stop: Event = field(default_factory=Event)
    database_clock: Callable[[], datetime] = database_now

    def moment(self) -> datetime:
        """Return the present moment.

        Raises:
            ClockAheadError: The database's clock has not come to it.
        """
        at = self.clock()
        refuse_future(at, database_at=self.database_clock())
        return at


class Leader:
    """The holder of one cluster's lease."""

    def __init__(self, *, lease: Lease, target: WatchTarget, watcher: Watcher) -> None:
        """Begin with a fresh lease."""
        self.target = target
        self.watcher = watcher
        self._lease = lease
        self._suspected_at: dict[WatchedKind, int] = {}
        self._renew_at = watcher.pulse() + watcher.pace.lease_seconds // RENEWALS_PER_LEASE

    def renew(self) -> None:
        """Renew the lease when a third of it is over.

        Raises:
            LeaseLostError: Another process leads, or the lease expired.
        """
        if self.watcher.pulse() < self._renew_at:
            return
        seconds = self.watcher.pace.lease_seconds
        if not renew_lease(lease=self._lease, lease_seconds=seconds):
            raise LeaseLostError("Another process leads the watch of this cluster.")
        self._renew_at = self.watcher.pulse() + seconds // RENEWALS_PER_LEASE

    def beat(self, *, at: datetime, since: datetime | None = None) -> None:
        """Write a heartbeat; see `heartbeats.beat`."""
        beat(lease=self._lease, at=at, since=since)

    def note(self, text: str, error: Exception) -> None:
        """Keep what went wrong; a credential or address that is refused is audited."""
        note_trouble(lease=self._lease, text=text)
        note_refused_use(
            slug=self.target.slug, error=error, actor=self.watcher.actor, at=self.watcher.clock()
        )

    def write(self, kind: WatchedKind, events: list[WatchEvent]) -> None:
        """Write events, with the version they end at."""
        ledger_events(
            lease=self._lease,
            kind=kind,
            events=events,
            at=self.watcher.moment(),
            actor=self.watcher.actor,
        )

    def fetch_list(self, kind: WatchedKind, *, at: datetime) -> ListFetch:
        """Request a consistent list in a thread of its own; `read_list` writes it."""
        watcher = self.watcher
        fetch = ListFetch(
            watch=watcher.watch, target=self.target, kind=kind, at=at, clock=watcher.clock
        )
        fetch.start()
        return fetch

    def read_list(self, fetch: ListFetch) -> str:
        """Write a consistent list, and return the version to continue from.

        Raises:
            StoppedError: The process is to end.
            ImplausibleListError: Most of what is open is missing, for the first time.
            KindNotServedError: The server does not know the kind.
            SourceUnavailableError: The list cannot be had.
            WatchExpiredError: It broke off half-way.
        """
        try:
            pages = fetch.pages(check=self._check)
            return self._write_list(fetch.kind, pages, at=fetch.at, is_afresh=True)
        finally:
            fetch.abandon()

    def read_list_again(self, kind: WatchedKind, version: str, *, follows: bool) -> str:
        """Write a list without losing what happened since a version; return where to continue.

        The list is taken first and written last: in between, the stream is read up to the moment of
        the list. So a pod created and deleted in that time is in the ledger with its own times. A
        pod that is then open in the ledger but not in the list lost an event.

        Args:
            kind: What is listed.
            version: The last version that was read.
            follows: Whether the stream before ended just now, so that all since then is prompt.

        Raises:
            StoppedError: The process is to end.
            SourceUnavailableError: The list or the stream cannot be had.
            WatchExpiredError: The version is too old.
        """
        at, since = self.watcher.moment(), self.watcher.pulse()
        pages = list(self._renewed(self.watcher.watch.list(self.target, kind)))
        was_short = follows and self.watcher.pulse() - since <= GAP_SECONDS_MAX
        reached = self._drain(kind, version, until=pages[0].resource_version, was_short=was_short)
        moved = (replace(page, resource_version=reached) for page in pages)
        return self._write_list(kind, moved, at=at, is_afresh=False)

    def drain(self, kind: WatchedKind, version: str) -> str:
        """Write what happened since a version, until the stream ends, and return where it ended."""
        return self._drain(kind, version, until="")

    def _write_list(
        self, kind: WatchedKind, pages: Iterator[ListPage], *, at: datetime, is_afresh: bool
    ) -> str:
        now = self.watcher.pulse()
        suspected_at = self._suspected_at.get(kind, now)
        try:
            ledgered = ledger_list(
                lease=self._lease,
                kind=kind,
                pages=pages,
                at=at,
                actor=self.watcher.actor,
                is_afresh=is_afresh,
                is_sure=now - suspected_at >= self.watcher.pace.suspicion_seconds,
            )
        except ImplausibleListError:
            # Until a list is accepted no heartbeat is written, because the kind counts as broken.
            self._suspected_at[kind] = suspected_at
            raise
        self._suspected_at.pop(kind, None)
        return ledgered.resource_version

    def _drain(
        self, kind: WatchedKind, version: str, *, until: str, was_short: bool = False
    ) -> str:
        """Write the events up to a version; later events are delivered again.

        A server without more events ends the stream before that version: then reading continues
        from the stream's own last version, so no event is lost.

        Args:
            kind: What is read.
            version: Where reading stopped.
            until: Where to stop; "" for the end of the stream.
            was_short: Whether the previous stream had just ended, so that all events are prompt.
        """
        pending: list[WatchEvent] = []
        for event in self.watcher.watch.watch(
            self.target,
            kind,
            resource_version=version,
            timeout_seconds=self.watcher.pace.drain_seconds,
        ):
            self.renew()
            if is_beyond(event.resource_version, until):
                version = until
                break
            pending.append(replace(event, is_prompt=event.is_prompt or was_short))
            version = event.resource_version
            if len(pending) >= self.watcher.pace.batch_events_max:
                self.write(kind, pending)
                pending = []
            if version == until:
                break
        if pending:
            self.write(kind, pending)
        return version

    def _renewed(self, pages: Iterator[ListPage]) -> Iterator[ListPage]:
        for page in pages:
            self._check()
            yield page

    def _check(self) -> None:
        """Renew the lease, unless the process is to end."""
        if self.watcher.stop.is_set():
            raise StoppedError
        self.renew()


def is_beyond(version: str, until: str) -> bool:
    """Whether a version is newer than another; False where that is unknown.

    Versions of one kind may be compared as numbers. Source: Kubernetes, KEP-5504.
    """
    return _is_number(version) and _is_number(until) and int(version) > int(until)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()

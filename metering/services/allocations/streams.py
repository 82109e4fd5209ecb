"""Streams and lists: each is read in its own thread and written by one consumer.

Readers use no database. While the consumer is slow the queues fill, and the readers and the server
wait, so memory stays constant.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from queue import Empty, Full, Queue
from typing import Final

from metering.protocols.watch import (
    ClusterWatchSource,
    ListPage,
    WatchedKind,
    WatchEvent,
    WatchTarget,
)

QUEUE_EVENTS_MAX: Final = 2_000
"""Some 4 MB of pods; at 1,000 events a second two seconds of a slow database."""
_PUT_SECONDS: Final = 0.5
"""How soon a reader that waits for space in the queue notices that it was abandoned."""
LIST_PAGES_MAX: Final = 8
"""Pages of one list that wait to be written: some 8 MB of pods."""
_PAGE_SECONDS: Final = 0.5
"""How often the consumer of a list that waits for its next page checks its lease and a stop."""


@dataclass(frozen=True)
class Ended:
    """A stream's last item: it ended by itself, or broke with an error."""

    error: Exception | None = None


class Stream:
    """One watch of one kind. Events after `abandon` are discarded.

    Args:
        watch: The cluster's API.
        target: The cluster.
        kind: What is watched.
        resource_version: Where it continues.
        timeout_seconds: How long the server may keep it open.
        queue: Where its events go, each with its stream.
    """

    def __init__(
        self,
        *,
        watch: ClusterWatchSource,
        target: WatchTarget,
        kind: WatchedKind,
        resource_version: str,
        timeout_seconds: int,
        queue: "StreamQueue",
    ) -> None:
        """Prepare; `start` opens it."""
        self.kind = kind
        self._watch = watch
        self._target = target
        self._resource_version = resource_version
        self._timeout_seconds = timeout_seconds
        self._queue = queue
        self._is_abandoned = threading.Event()
        self._thread = threading.Thread(
            target=self._read, name=f"watch-{target.slug}-{kind}", daemon=True
        )

    def start(self) -> None:
        """Open it in its thread, which never keeps the process from ending."""
        self._thread.start()

    def abandon(self) -> None:
        """Discard all further events; its thread ends with the next one."""
        self._is_abandoned.set()

    def _read(self) -> None:
        error: Exception | None = None
        try:
            for event in self._watch.watch(
                self._target,
                self.kind,
                resource_version=self._resource_version,
                timeout_seconds=self._timeout_seconds,
            ):
                if not self._put(event):
                    return
        except Exception as failure:  # noqa: BLE001 - Passed on: the reader of the queue handles it.
            error = failure
        self._put(Ended(error))

    def _put(self, item: WatchEvent | Ended) -> bool:
        while not self._is_abandoned.is_set():
            try:
                self._queue.put((self, item))
            except Full:
                continue
            return True
        return False


class StreamQueue:
    """The events of all streams of a cluster, in order of arrival."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._items: Queue[tuple[Stream, WatchEvent | Ended]] = Queue(QUEUE_EVENTS_MAX)

    def put(self, item: tuple[Stream, WatchEvent | Ended]) -> None:
        """Add an item, or raise Full when no space is free within the timeout."""
        self._items.put(item, timeout=_PUT_SECONDS)

    def is_empty(self) -> bool:
        """Whether everything that has arrived was taken."""
        return self._items.empty()

    def take(self, *, wait: timedelta) -> list[tuple[Stream, WatchEvent | Ended]]:
        """Return everything that is there, waiting for the first thing at most so long."""
        found: list[tuple[Stream, WatchEvent | Ended]] = []
        try:
            if wait:
                found.append(self._items.get(timeout=wait.total_seconds()))
            while len(found) < QUEUE_EVENTS_MAX:
                found.append(self._items.get_nowait())
        except Empty:
            pass
        return found


class KindNotServedError(Exception):
    """Raised for a list of a kind that the server does not know."""


class ListFetch:
    """A list of one kind, fetched in its own thread; its pages wait until they are written.

    Args:
        watch: The cluster's API.
        target: The cluster.
        kind: What is listed.
        at: When it is requested.
        clock: Returns the present moment, aware UTC.

    Attributes:
        answered_at: When its first page had come: nothing that happened later is missing in the
            list and the stream that continues from it. None before that.
    """

    def __init__(
        self,
        *,
        watch: ClusterWatchSource,
        target: WatchTarget,
        kind: WatchedKind,
        at: datetime,
        clock: Callable[[], datetime],
    ) -> None:
        """Prepare; `start` sends the request."""
        self.kind = kind
        self.at = at
        self.answered_at: datetime | None = None
        self._watch = watch
        self._target = target
        self._clock = clock
        self._items: Queue[ListPage | Ended] = Queue(LIST_PAGES_MAX)
        self._is_abandoned = threading.Event()
        self._thread = threading.Thread(
            target=self._read, name=f"list-{target.slug}-{kind}", daemon=True
        )

    def start(self) -> None:
        """Send the request in its thread, which never keeps the process from ending."""
        self._thread.start()

    def abandon(self) -> None:
        """Discard all further pages; its thread ends with the next one."""
        self._is_abandoned.set()

    def pages(self, *, check: Callable[[], None]) -> Iterator[ListPage]:
        """Yield the pages as they come.

        Args:
            check: Called before each page and while there is none; what it raises ends the list.

        Raises:
            KindNotServedError: The server does not know the kind.
            SourceUnavailableError: The list cannot be had.
            WatchExpiredError: It broke off half-way.
        """
        while True:
            check()
            try:
                item = self._items.get(timeout=_PAGE_SECONDS)
            except Empty:
                continue
            if not isinstance(item, Ended):
                yield item
            elif item.error is not None:
                raise item.error
            else:
                return

    def _read(self) -> None:
        error: Exception | None = None
        try:
            if not self._watch.serves(self._target, self.kind):
                raise KindNotServedError(f"The server does not know {self.kind}.")  # noqa: TRY301
            for page in self._watch.list(self._target, self.kind):
                self.answered_at = self.answered_at or self._clock()
                if not self._put(page):
                    return
        except Exception as failure:  # noqa: BLE001 - Passed on to the consumer.
            error = failure
        self._put(Ended(error))

    def _put(self, item: ListPage | Ended) -> bool:
        while not self._is_abandoned.is_set():
            try:
                self._items.put(item, timeout=_PUT_SECONDS)
            except Full:
                continue
            return True
        return False

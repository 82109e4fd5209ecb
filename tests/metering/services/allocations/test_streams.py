"""Streams: read in threads, bounded in memory, unwanted when abandoned."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from metering.protocols.watch import Change, ListPage, WatchedKind, WatchEvent, WatchTarget
from metering.services.allocations.streams import (
    LIST_PAGES_MAX,
    QUEUE_EVENTS_MAX,
    Ended,
    KindNotServedError,
    ListFetch,
    Stream,
    StreamQueue,
)
from simulator.adapters.cluster_watch import SimulatedClusterWatch
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.allocations.stage import MONTH, scenario

END = MONTH + timedelta(days=4)
BEGIN_VERSION = str(int(MONTH.timestamp()) * 100_000)


def stream(queue: StreamQueue, *, slug: str = "hopper", version: str = BEGIN_VERSION) -> Stream:
    return Stream(
        watch=SimulatedClusterWatch(scenario=scenario(), clock=lambda: END),
        target=WatchTarget(slug),
        kind=WatchedKind.PODS,
        resource_version=version,
        timeout_seconds=60,
        queue=queue,
    )


def drained(queue: StreamQueue) -> list[WatchEvent | Ended]:
    """Return everything up to the end of a stream."""
    found: list[WatchEvent | Ended] = []
    while not found or not isinstance(found[-1], Ended):
        found += [item for _, item in queue.take(wait=timedelta(seconds=5))]
    return found


def test_a_stream_shows_its_events_in_order_and_then_that_it_ended() -> None:
    queue = StreamQueue()

    stream(queue).start()

    *events, last = drained(queue)
    versions = [int(one.resource_version) for one in events if isinstance(one, WatchEvent)]
    assert versions == sorted(versions)
    assert len(versions) > 500
    assert last == Ended(None)


def test_a_stream_that_breaks_shows_why() -> None:
    queue = StreamQueue()

    stream(queue, slug="nowhere").start()

    (last,) = drained(queue)
    assert isinstance(last, Ended)
    assert isinstance(last.error, SourceUnavailableError)
    assert last.error.reason == "bad_target"


def test_nothing_there_is_an_empty_answer_at_once() -> None:
    assert StreamQueue().take(wait=timedelta(0)) == []
    assert StreamQueue().take(wait=timedelta(milliseconds=10)) == []


def test_a_full_queue_makes_the_reader_wait_until_it_is_unwanted() -> None:
    queue = StreamQueue()
    filler = stream(queue)
    bookmark = WatchEvent(Change.BOOKMARK, "1", END)
    for _ in range(QUEUE_EVENTS_MAX):
        queue.put((filler, bookmark))
    waiting = stream(queue)
    waiting.start()
    (thread,) = [one for one in threading.enumerate() if one.name == "watch-hopper-pods"]

    waiting.abandon()
    thread.join(timeout=5)

    assert not thread.is_alive()
    assert {reported for reported, _ in queue.take(wait=timedelta(0))} == {filler}


class EndlessList(SimulatedClusterWatch):
    """A list of more pages than anything holds, which counts those it was asked for."""

    pages = 0

    def list(self, target: WatchTarget, kind: WatchedKind) -> Iterator[ListPage]:
        del target, kind
        while True:
            self.pages += 1
            yield ListPage((), "1")


def fetch(watch: SimulatedClusterWatch, kind: WatchedKind = WatchedKind.PODS) -> ListFetch:
    made = ListFetch(
        watch=watch, target=WatchTarget("hopper"), kind=kind, at=MONTH, clock=lambda: END
    )
    made.start()
    return made


def test_a_list_is_read_ahead_to_a_bound_and_no_further_once_abandoned() -> None:
    watch = EndlessList(scenario=scenario(), clock=lambda: END)
    made = fetch(watch)
    while watch.pages <= LIST_PAGES_MAX:
        time.sleep(0.001)

    pages = made.pages(check=lambda: None)
    first = next(pages)
    made.abandon()
    wait_for_thread("list-hopper-pods")

    assert (first, made.answered_at) == (ListPage((), "1"), END)
    assert watch.pages <= LIST_PAGES_MAX + 2


def test_a_list_of_a_kind_that_is_not_served_says_so() -> None:
    watch = SimulatedClusterWatch(scenario=scenario(), clock=lambda: END)

    with pytest.raises(KindNotServedError):
        list(fetch(watch, WatchedKind.CLAIMS).pages(check=lambda: None))


def test_what_the_check_raises_ends_a_list() -> None:
    class EndedError(Exception):
        pass

    def refuse() -> None:
        raise EndedError

    made = fetch(SimulatedClusterWatch(scenario=scenario(), clock=lambda: END))

    with pytest.raises(EndedError):
        next(made.pages(check=refuse))


def wait_for_thread(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(5)
            assert not thread.is_alive()

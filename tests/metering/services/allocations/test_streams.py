"""Streams: read in threads, bounded in memory, unwanted when abandoned."""

import threading
from datetime import timedelta

from metering.protocols.watch import Change, WatchedKind, WatchEvent, WatchTarget
from metering.services.allocations.streams import QUEUE_EVENTS_MAX, Ended, Stream, StreamQueue
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

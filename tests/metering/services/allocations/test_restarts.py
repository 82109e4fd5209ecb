"""Restarts of an API server: how long the watch is blind, and what it asks of the server."""

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from django.conf import settings

from metering.domain.allocations.timeline import blind_stretches, seconds_between
from metering.models import ClusterWatch, WatchCursor, WatchSpan
from metering.protocols.watch import (
    Change,
    ListPage,
    WatchedKind,
    WatchEvent,
    WatchExpiredError,
    WatchTarget,
)
from metering.services.allocations import loop as loops
from metering.services.allocations.loop import WatchLoop
from simulator.adapters.cluster_watch import SimulatedClusterWatch
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tests.support.metering.allocations.stage import START, Stage, scenario

DOWN_SECONDS = 35
BEYOND_SECONDS_MAX = 3
SERVED = {WatchedKind.PODS, WatchedKind.NODES}


@dataclass
class RestartingServer:
    """A server whose streams stay open until it stops, and which then knows no old version."""

    stage: Stage
    is_down: bool = False
    starts: int = 1
    open_streams: int = 0
    expires_always: bool = False
    asked: list[tuple[int, str, WatchedKind]] = field(default_factory=list)
    side_by_side: threading.Barrier | None = None

    def __post_init__(self) -> None:  # noqa: D105 - Says what the class says.
        self._lock = threading.Lock()
        self._inner = SimulatedClusterWatch(scenario=scenario(), clock=lambda: self.stage.at)

    def stop(self) -> None:
        self.is_down = True
        while self.open_streams:
            time.sleep(0.001)

    def start(self) -> None:
        self.starts += 1
        self.is_down = False

    def serves(self, target: WatchTarget, kind: WatchedKind) -> bool:
        self._refuse_while_down("serves", kind)
        return self._inner.serves(target, kind)

    def list(self, target: WatchTarget, kind: WatchedKind) -> Iterator[ListPage]:
        self._refuse_while_down("list", kind)
        if self.side_by_side is not None:
            self.side_by_side.wait(timeout=10)
        for page in self._inner.list(target, kind):
            yield ListPage(page.states, f"{self.starts}")

    def watch(
        self, target: WatchTarget, kind: WatchedKind, *, resource_version: str, timeout_seconds: int
    ) -> Iterator[WatchEvent]:
        del target, timeout_seconds
        self._refuse_while_down("watch", kind)
        if self.expires_always or resource_version != f"{self.starts}":
            raise WatchExpiredError("too old resource version")
        with self._lock:
            self.open_streams += 1
        yield WatchEvent(Change.BOOKMARK, resource_version, self.stage.at)
        while not self.is_down:
            time.sleep(0.001)
        with self._lock:
            self.open_streams -= 1
        raise SourceUnavailableError("It broke off.", reason="truncated")

    def _refuse_while_down(self, verb: str, kind: WatchedKind) -> None:
        self.asked.append((self.stage.pulse, verb, kind))
        if self.is_down:
            raise SourceUnavailableError("Connection refused.", reason="unreachable")


@pytest.fixture
def stage(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(loops, "TURN", timedelta(milliseconds=5))
    return Stage(cluster)


@pytest.fixture
def server(stage: Stage) -> Iterator[RestartingServer]:
    made = RestartingServer(stage)
    stage.watch = made
    yield made
    made.stop()


def settle(loop: WatchLoop, server: RestartingServer) -> None:
    """Take turns until everything that was asked is answered, at the same moment."""
    loop.turn()
    while _asking() > server.open_streams:
        loop.turn()
    loop.turn()


def _asking() -> int:
    return sum(thread.name.startswith("watch-hopper") for thread in threading.enumerate())


def run(stage: Stage, loop: WatchLoop, server: RestartingServer, *, seconds: int) -> None:
    for _ in range(seconds):
        settle(loop, server)
        stage.tick()
    settle(loop, server)


def restart(stage: Stage, server: RestartingServer, *, down: int = DOWN_SECONDS) -> datetime:
    """Watch for a while, restart the server, watch again; return when it was back."""
    loop = stage.loop()
    run(stage, loop, server, seconds=27)
    server.stop()
    run(stage, loop, server, seconds=down)
    back_at = stage.at
    server.start()
    run(stage, loop, server, seconds=20)
    loop.abandon()
    return back_at


@pytest.mark.parametrize("down", [DOWN_SECONDS, 41, 90])
def test_after_a_restart_the_watch_is_blind_for_seconds_only(
    stage: Stage, server: RestartingServer, down: int
) -> None:
    back_at = restart(stage, server, down=down)

    before, after = WatchSpan.objects.all()
    assert before.until_at >= back_at - timedelta(seconds=down + 1)
    assert after.begin_at <= back_at + timedelta(seconds=BEYOND_SECONDS_MAX)
    assert after.until_at >= back_at + timedelta(seconds=10)
    assert not after.is_resumed
    (blind,) = blind_stretches([before, after], begin_at=START, end_at=after.until_at)
    blind_seconds = seconds_between(blind.begin_at, blind.end_at)
    assert down <= blind_seconds <= down + BEYOND_SECONDS_MAX
    assert blind_seconds < settings.HOLE_SECONDS_MAX
    assert ClusterWatch.objects.get().last_error == ""


def test_kinds_that_expired_are_fetched_side_by_side_and_written_in_their_order(
    stage: Stage, server: RestartingServer, caplog: pytest.LogCaptureFixture
) -> None:
    loop = stage.loop()
    run(stage, loop, server, seconds=5)
    server.stop()
    run(stage, loop, server, seconds=3)
    # No list is answered before all are requested.
    server.side_by_side = threading.Barrier(len(SERVED))
    caplog.clear()
    caplog.set_level(logging.INFO)
    server.start()
    run(stage, loop, server, seconds=3)
    loop.abandon()

    listed = [text for text in caplog.messages if "metering.watch.listed" in text]
    assert ["nodes" in text for text in listed] == [True, False]
    assert set(WatchCursor.objects.values_list("resource_version", flat=True)) == {"2"}


def test_while_the_server_is_away_all_kinds_are_tried_together_every_second_or_two(
    stage: Stage, server: RestartingServer
) -> None:
    restart(stage, server)

    down_from = 1_000 + 27
    tried = [
        (at, kind) for at, verb, kind in server.asked if down_from <= at < down_from + DOWN_SECONDS
    ]
    moments = sorted({at for at, _ in tried})
    assert {kind for _, kind in tried} == SERVED
    assert len(tried) == len(SERVED) * len(moments)
    gaps = {later - sooner for sooner, later in pairwise(moments)}
    assert gaps <= {1, 2}


def test_a_server_that_cannot_serve_a_watch_is_not_made_to_list_for_ever(
    stage: Stage, server: RestartingServer
) -> None:
    server.expires_always = True
    loop = stage.loop()

    run(stage, loop, server, seconds=120)
    loop.abandon()

    lists = [at for at, verb, kind in server.asked if (verb, kind) == ("list", WatchedKind.PODS)]
    assert 3 <= len(lists) <= 8
    assert not WatchSpan.objects.exists()

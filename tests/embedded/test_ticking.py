"""Worker, beat and Valkey together: whatever is lost in between, the tick comes again."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from embedded.ports import free_port
from embedded.programs import Program, wait_until
from embedded.supervisor import PlainService, Supervisor
from embedded.valkey import EmbeddedValkey

APP = "tests.support.embedded.ticking"
SOON_SECONDS = 40


class Bench:
    """A broker, one worker and two beats on one folder."""

    def __init__(self, state: Path, supervisor: Supervisor) -> None:
        """Start them all."""
        self.folder = state / "ticks"
        self.folder.mkdir()
        self.state = state
        self.supervisor = supervisor
        self.valkey = EmbeddedValkey(
            state / "valkey", port=free_port(), log=state / "log" / "valkey.log", mark=state
        )
        supervisor.start(self.valkey)
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        self.celery("worker", "worker", "-c", "1", *quiet)
        for name in ("beat-1", "beat-2"):
            self.celery(name, "beat", "-s", str(state / name), "--pidfile=")

    def celery(self, name: str, *arguments: str) -> None:
        """Start one part of Celery."""
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings.test",
            "REDIS_URL": self.valkey.url(),
            "TICK_FOLDER": str(self.folder),
        }
        program = Program(
            name=name,
            command=(sys.executable, "-W", "ignore", "-m", "celery", "-A", APP, *arguments),
            log=self.state / "log" / f"{name}.log",
            state=self.state,
            environment=environment,
            cwd=Path.cwd(),
        )
        self.supervisor.start(PlainService(program))

    def ticks_again(self) -> bool:
        """Whether two more seconds are marked from now on."""
        seen = {path.name for path in self.folder.iterdir()}
        return wait_until(
            lambda: len({path.name for path in self.folder.iterdir()} - seen) >= 2,
            timeout_seconds=SOON_SECONDS,
        )


@pytest.fixture
def bench(state: Path) -> Iterator[Bench]:
    """Give a ticking bench."""
    with Supervisor(state) as supervisor:
        yield Bench(state, supervisor)


@pytest.mark.soak
def test_the_tick_comes_again_after_every_loss(bench: Bench) -> None:
    assert bench.ticks_again()

    with redis.Redis.from_url(bench.valkey.url()) as client:
        client.flushall()
    assert bench.ticks_again(), "after FLUSHALL"

    for name in ("beat-1", "worker", "valkey"):
        os.kill(bench.supervisor.pids()[name], signal.SIGKILL)
        assert bench.ticks_again(), f"after the end of {name}"

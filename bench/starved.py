"""A worker with a tenth of its CPU: does it keep working at that rate and catch up alone.

18 hours of a simulated cluster are due, eight times: in half of them the worker runs as it likes,
in the others it is stopped for nine tenths of each second by SIGSTOP and SIGCONT. They alternate so
that what grows with the tables, or changes with the machine, weighs the same on both sides. Two
beats publish all the while. What counts is the hours sealed by a processor second of the worker,
starved against unhindered, and how many messages ever wait. An hour that was leased twice would be
work thrown away. The kinds of work that run by the clock have a worker of their own: the longer it
lasts, the more of them there is.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

import redis

from bench.harness import (
    ROOT,
    Bound,
    Figure,
    invariant,
    ledger_database,
    measurement,
    ratio,
    scaled,
)

WINDOWS: Final = scaled(18)
WARM_WINDOWS: Final = 6
SHARE: Final = Decimal("0.1")
PULSE_SECONDS: Final = Decimal(1)
CHECKS_MAX: Final = 20
USEFUL_MIN: Final = Decimal("0.9")
PATIENCE_SECONDS: Final = 1_800
POLL_SECONDS: Final = 0.25
SCRAPE_SECONDS: Final = 120
CELERY: Final = ("-m", "celery", "-A", "config")
QUIET: Final = ("--without-gossip", "--without-mingle", "--loglevel", "WARNING")


@dataclass(frozen=True)
class Metered:
    """Resources used by metering all due hours."""

    processor_seconds: Decimal
    wall_seconds: Decimal
    waiting_max: int
    windows: int

    @property
    def windows_per_processor_second(self) -> Decimal:
        """Return the useful work."""
        return self.windows / self.processor_seconds

    def __add__(self, other: "Metered") -> "Metered":
        """Return the sum of both."""
        return Metered(
            self.processor_seconds + other.processor_seconds,
            self.wall_seconds + other.wall_seconds,
            max(self.waiting_max, other.waiting_max),
            self.windows + other.windows,
        )


def run() -> Iterator[Figure]:
    """Meter as many hours unhindered and starved."""
    from embedded.valkey import EmbeddedValkey  # noqa: PLC0415 - Starts servers.

    with tempfile.TemporaryDirectory(prefix="gpu-ledger-starved-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        valkey = EmbeddedValkey(folder / "valkey")
        valkey.start()
        stack.callback(valkey.stop)
        begin = datetime.now(UTC) - timedelta(days=9)
        os.environ["USAGE_SOURCE"] = "simulated"
        os.environ["USAGE_SOURCE_OPTIONS"] = json.dumps(
            {"month_start": begin.replace(minute=0, second=0, microsecond=0).isoformat()}
        )
        stack.enter_context(ledger_database())
        os.environ["REDIS_URL"] = valkey.url()
        worker = _start(
            stack, folder, "worker", "-n", "one@%h", "-Q", "metering", "-c", "1", *QUIET
        )
        _start(stack, folder, "worker", "-n", "two@%h", "-Q", "celery", "-c", "1", *QUIET)
        for number in (1, 2):
            _start(stack, folder, "beat", "-s", str(folder / f"beat-{number}"), "--pidfile=")
        yield from _measure(worker, redis.Redis.from_url(valkey.url()))


def _measure(worker: "subprocess.Popen[bytes]", client: redis.Redis) -> Iterator[Figure]:
    from config.celery import app  # noqa: PLC0415 - Django is set up by now.
    from metering.models import MeteringWindow  # noqa: PLC0415 - As above.

    totals: dict[Callable[[int], None], Metered] = {}
    _meter(worker, client, slug="ampere", hours=WARM_WINDOWS, pulse=_run_freely)
    # The same cluster, each time from so many hours earlier.
    for number, pulse in enumerate(PULSES, start=1):
        took = _meter(worker, client, slug="hopper", hours=number * WINDOWS, pulse=pulse)
        totals[pulse] = totals[pulse] + took if pulse in totals else took
    unhindered, starved = totals[_run_freely], totals[_starve]
    for name, one in (("unhindered", unhindered), ("starved", starved)):
        rate = one.windows_per_processor_second
        yield measurement(f"starved.{name}_windows_per_processor_second", rate, "1/s")
    share = starved.processor_seconds / starved.wall_seconds
    yield measurement("starved.processor_share", share, "x")
    useful = starved.windows_per_processor_second / unhindered.windows_per_processor_second
    yield ratio("starved.useful_work", useful, Bound.AT_LEAST, USEFUL_MIN)
    kinds = len(app.conf.beat_schedule) + 2
    waiting = starved.waiting_max
    yield invariant("starved.messages_waiting", waiting, "messages", kinds, Bound.AT_MOST)
    again = MeteringWindow.objects.exclude(fence=1).count()
    yield invariant("starved.leased_again", again, "windows", 0)


def _meter(
    worker: "subprocess.Popen[bytes]",
    client: redis.Redis,
    *,
    slug: str,
    hours: int,
    pulse: Callable[[int], None],
) -> Metered:
    """Have a cluster metered from so many hours ago, and wait until all are sealed."""
    from config.celery import QUEUES  # noqa: PLC0415 - Django is set up by now.
    from metering.models import MeteringWindow  # noqa: PLC0415 - As above.

    _meter_from(slug, hours=hours)
    before = MeteringWindow.objects.count()
    begin, used, waiting = time.monotonic_ns(), _processor_seconds(worker.pid), 0
    unsealed = MeteringWindow.objects.exclude(state="sealed")
    _wake()
    while MeteringWindow.objects.filter(cluster__slug=slug).count() < hours or unsealed.exists():
        assert worker.poll() is None, "The worker has ended."
        passed = time.monotonic_ns() - begin
        assert passed < PATIENCE_SECONDS * 1_000_000_000, f"{unsealed.count()} hours are left."
        pulse(worker.pid)
        waiting = max(waiting, sum(client.llen(queue) for queue in QUEUES if queue != "short"))
    os.killpg(worker.pid, signal.SIGCONT)
    quota_cap = Decimal(time.monotonic_ns() - begin) / 1_000_000_000
    windows = MeteringWindow.objects.count() - before
    return Metered(_processor_seconds(worker.pid) - used, quota_cap, waiting, windows)


def _run_freely(_: int) -> None:
    time.sleep(POLL_SECONDS)


def _starve(group: int) -> None:
    """Let a process group use a tenth of a second of CPU time, and stop it for the rest.

    It has up to a second for that: beside other processes it would get far less than a tenth.
    """
    used = _processor_seconds(group)
    os.killpg(group, signal.SIGCONT)
    for _ in range(CHECKS_MAX):
        time.sleep(float(PULSE_SECONDS / CHECKS_MAX))
        if _processor_seconds(group) - used >= PULSE_SECONDS * SHARE:
            break
    os.killpg(group, signal.SIGSTOP)
    time.sleep(float(PULSE_SECONDS * (1 - SHARE)))


PULSES: Final = (_run_freely, _starve, _starve, _run_freely) * 2


def _processor_seconds(group: int) -> Decimal:
    """Return the CPU time of all running processes of a group."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text("utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return Decimal(ticks) / os.sysconf("SC_CLK_TCK")


def _wake() -> None:
    from django.conf import settings  # noqa: PLC0415 - Django is set up by now.

    from tenants.services.wakeups import wake  # noqa: PLC0415 - As above.

    settings.REDIS_URL = os.environ["REDIS_URL"]
    wake("metering.tick_windows")


def _meter_from(slug: str, *, hours: int) -> None:
    """Make so many hours of a cluster due, which is registered at its first."""
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.
    from tenants.models import Cluster  # noqa: PLC0415 - As above.
    from tenants.services.clusters import register_cluster  # noqa: PLC0415 - As above.

    now = datetime.now(UTC)
    latest = (now - timedelta(minutes=16)).replace(minute=0, second=0, microsecond=0)
    metered_from = latest - timedelta(hours=hours)
    if Cluster.objects.filter(slug=slug).update(metered_from=metered_from):
        return
    register_cluster(
        slug=slug,
        name=slug,
        metered_from=metered_from,
        prometheus_url="http://127.0.0.1:9",
        selector_label="cluster",
        selector_value=slug,
        scrape_interval_seconds=SCRAPE_SECONDS,
        actor=system_actor("bench"),
        at=now,
    )


def _start(stack: ExitStack, folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """Start one Celery process in its own process group, which ends with the bench."""
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *CELERY, *arguments],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def end() -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    stack.callback(end)
    return process

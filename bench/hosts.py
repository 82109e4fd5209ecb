"""Workers on several hosts and one backlog: two of them, and three that have a quarter of a core.

The backlog of each run is six hours of twelve clusters of 4,000 pods each, for 50 organizations: as
heavy as those of `bench bill`, from one real Prometheus. A worker is one of Celery with a single
process, as on a host of its own, over Valkey and PostgreSQL; it meters hours and accrues their
charges. Device figures are not asked for.

Two workers are held against what one leaves of the cores: the CPU seconds of the run of one worker,
of all programs, divided by cores and by the time that two workers take. What holds a worker to a
quarter of a core holds the worker alone: PostgreSQL and Prometheus have the rest of the machine.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import redis

from bench.bill_stage import HOURS, PODS, START, make_projects, register, start_prometheus
from bench.core_share import held_to
from bench.harness import (
    ROOT,
    Bound,
    Figure,
    cpu_seconds,
    invariant,
    ledger_database,
    measurement,
    ratio,
    scaled,
)
from embedded.programs import Program, start_program, stop_program, wait_until
from embedded.valkey import EmbeddedValkey

TENANTS: Final = scaled(50)
CLUSTERS: Final = scaled(12, least=3)
"""Six hours of one are leased together: two workers, and three, share them without a rest."""
WINDOWS: Final = CLUSTERS * HOURS
POINTS: Final = WINDOWS * PODS
QUARTER: Final = Decimal("0.25")
RUNS: Final = (
    ("one_worker", 1, None),
    ("two_workers", 2, None),
    ("one_quarter_host", 1, QUARTER),
    ("three_quarter_hosts", 3, QUARTER),
)
OF_ALLOWED_MIN: Final = "0.9"
THREE_TO_ONE_MIN: Final = "2.6"
POLL_SECONDS: Final = 0.2
ACCRUAL_SECONDS: Final = 5
START_SECONDS_MAX: Final = 60
PATIENCE_SECONDS: Final = 1_800


@dataclass(frozen=True)
class Ran:
    """A backlog that was metered: its time, and the CPU seconds by program."""

    seconds: Decimal
    cpu: Mapping[str, Decimal]

    @property
    def rate(self) -> Decimal:
        """Return pod-hours a second."""
        return POINTS / self.seconds

    @property
    def cpu_in_all(self) -> Decimal:
        """Return the CPU seconds of all programs."""
        return sum(self.cpu.values(), Decimal(0))


class Site:
    """The servers, and the workers that are started for a run.

    Args:
        folder: For logs.
        url: Of Prometheus.
        servers: Process ids of servers by name.
    """

    def __init__(self, folder: Path, url: str, servers: Mapping[str, int]) -> None:
        """Make the organizations."""
        self._folder = folder
        self._url = url
        self._servers = servers
        self._projects = make_projects("hosts", TENANTS)

    def run(self, name: str, *, workers: int, share: Decimal | None = None) -> Ran:
        """Have a new backlog metered and charged by so many workers.

        Args:
            name: Of the run.
            workers: How many.
            share: Of a core that each is held to; None for none.
        """
        clusters = [self._register(f"{name}-{number}") for number in range(CLUSTERS)]
        self._forget_messages()
        with ExitStack() as stack:
            started = [
                stack.enter_context(self._worker(f"{name}-worker-{number}"))
                for number in range(workers)
            ]
            if share is not None:
                means = {stack.enter_context(held_to(pid, share)) for pid in started}
                print(f"# {name}: held to {share} of a core by {', '.join(means)}", flush=True)
            begin, used = time.monotonic_ns(), self._cpu(started)
            _await_charges(clusters)
            seconds = Decimal(time.monotonic_ns() - begin) / 1_000_000_000
            cpu = {program: now - used[program] for program, now in self._cpu(started).items()}
        return Ran(seconds, cpu)

    def _register(self, slug: str) -> Any:  # noqa: ANN401 - A Cluster.
        """Register a cluster whose first hours are due, and no others."""
        from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.
        from tenants.services.clusters import update_cluster  # noqa: PLC0415

        cluster = register(slug, self._url, projects=self._projects, namespaces=TENANTS)
        until = {"metered_until": START + timedelta(hours=HOURS)}
        update_cluster(cluster=cluster, changes=until, actor=system_actor("bench"), at=START)
        return cluster

    def _forget_messages(self) -> None:
        """Let no wake-up of a registration begin the run."""
        from tenants.services.wakeups import PUBLISHER  # noqa: PLC0415 - Django is set up by now.

        PUBLISHER.wait()
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            client.flushall()

    @contextmanager
    def _worker(self, name: str) -> Iterator[int]:
        """Give the process group of a worker that takes wake-ups; it is ended afterwards."""
        program = Program(
            name=name,
            command=(
                *(sys.executable, "-m", "celery", "-A", "config", "worker", "-n", f"{name}@%h"),
                *("-Q", "celery,metering", "-c", "1", "--loglevel", "INFO"),
                *("--without-gossip", "--without-mingle"),
            ),
            log=self._folder / f"{name}.log",
            state=self._folder,
            environment={**os.environ, "LOG_LEVEL": "INFO"},
            cwd=ROOT,
        )
        process = start_program(program)
        try:
            assert wait_until(
                lambda: b"ready." in program.log.read_bytes(), timeout_seconds=START_SECONDS_MAX
            ), program.log.read_text("utf-8")
            yield process.pid
        finally:
            stop_program(process, program)

    def _cpu(self, workers: Sequence[int]) -> dict[str, Decimal]:
        used = {name: cpu_seconds(pid) for name, pid in self._servers.items()}
        return {"workers": sum(map(cpu_seconds, workers), Decimal(0)), **used}


def run() -> Iterator[Figure]:
    """Yield the figures of several hosts."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-")))
        folder.chmod(0o755)
        valkey = EmbeddedValkey(folder / "valkey")
        valkey.start()
        stack.callback(valkey.stop)
        postgres = stack.enter_context(ledger_database())
        from django.conf import settings  # noqa: PLC0415 - They are read once PostgreSQL is there.

        os.environ["REDIS_URL"] = settings.REDIS_URL = valkey.url()
        prometheus = start_prometheus(folder, namespaces=TENANTS)
        stack.callback(prometheus.stop)
        processes = {
            "postgres": postgres.process,
            "prometheus": prometheus.process,
            "valkey": valkey.process,
        }
        pids = {name: one.pid for name, one in processes.items() if one is not None}
        yield from _measure(Site(folder, prometheus.url(), pids))


def _measure(site: Site) -> Iterator[Figure]:
    site.run("warm", workers=2)
    runs: dict[str, Ran] = {}
    for name, workers, share in RUNS:
        ran = runs[name] = site.run(name.replace("_", "-"), workers=workers, share=share)
        yield measurement(f"hosts.pod_hours_per_second_{name}", ran.rate, "1/s")
        for program, seconds in ran.cpu.items():
            yield measurement(f"hosts.{program}_cpu_{name}", seconds * 1000 / POINTS, "ms/pod-hour")
    cores = len(os.sched_getaffinity(0))
    one, two, quarter, quarters = runs.values()
    yield measurement("hosts.two_workers_to_one", two.rate / one.rate, "x")
    of_allowed = one.cpu_in_all / (cores * two.seconds)
    yield ratio("hosts.two_workers_to_allowed", of_allowed, Bound.AT_LEAST, OF_ALLOWED_MIN)
    three = quarters.rate / quarter.rate
    yield ratio("hosts.three_quarter_hosts_to_one", three, Bound.AT_LEAST, THREE_TO_ONE_MIN)
    yield from _invariants()


def _invariants() -> Iterator[Figure]:
    from django.db.models import Sum  # noqa: PLC0415 - Django is set up by now.

    from billing.models import Charge  # noqa: PLC0415
    from metering.models import MeteringWindow, UsageRecord  # noqa: PLC0415

    again = MeteringWindow.objects.exclude(fence=1).count()
    yield invariant("hosts.leased_again", again, "windows", 0)
    sums = {
        rows.aggregate(total=Sum("unit_seconds"))["total"]
        for rows in (UsageRecord.objects.all(), Charge.objects.all())
    }
    yield invariant("hosts.not_charged", len(sums) - 1, "", 0)


def _await_charges(clusters: Sequence[Any]) -> None:
    """Wake the workers until every hour of some clusters is sealed and charged."""
    from billing.selectors.pending import pending_windows  # noqa: PLC0415 - Django is set up.
    from metering.models import MeteringWindow  # noqa: PLC0415
    from tenants.services.wakeups import wake  # noqa: PLC0415

    sealed = MeteringWindow.objects.filter(cluster__in=clusters, state="sealed")
    wake("metering.tick_windows")
    begin = time.monotonic()
    accrued_at = begin
    while (left := WINDOWS - sealed.count()) or pending_windows(limit=1):
        now = time.monotonic()
        assert now - begin < PATIENCE_SECONDS, f"{left} of {WINDOWS} hours are not sealed."
        # Beat does it each minute, for which the end of a run cannot wait.
        if not left or now - accrued_at > ACCRUAL_SECONDS:
            wake("billing.tick_accrual")
            accrued_at = now
        time.sleep(POLL_SECONDS)

"""Workers on several hosts and one backlog: two of them, and three that have a quarter of a core.

A backlog is four to six hours of each of several clusters of 4,000 pods, for 50 organizations: as
heavy as those of `bench bill`, from one real Prometheus. Where all have as many, workers that begin
together ask it at the same moments, over and over, and compute at the same moments. A worker is one
of Celery with a single process, as on a host of its own, over Valkey and PostgreSQL; it meters
hours and accrues their charges. Device figures are not asked for. An autovacuum would be counted
with whichever run it meets: it is off, and the tables are vacuumed between the runs.

Two workers are held against what one leaves of the cores: the CPU seconds of the run of one worker,
of all programs, divided by the CPU seconds that two workers have: cores multiplied by their time,
but for what programs that have nothing to do with the run took meanwhile. What holds a worker to a
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
from bench.billing_stage import execute
from bench.core_share import held_to
from bench.harness import (
    ROOT,
    Bound,
    Figure,
    cpu_seconds,
    invariant,
    ledger_database,
    measured,
    measurement,
    others_cpu_seconds,
    ratio,
    scaled,
    stop_autovacuum,
)
from embedded.programs import Program, start_program, stop_program, wait_until
from embedded.valkey import EmbeddedValkey

TENANTS: Final = scaled(50)
CLUSTERS: Final = scaled(24, least=4)
"""The hours of one are leased together. At the end a worker may wait for another: with so many,
for a small part of the time."""
QUARTER: Final = Decimal("0.25")
WARM_CLUSTERS: Final = CLUSTERS // 4
RUNS: Final = (
    ("one_worker", 1, None),
    ("two_workers", 2, None),
    ("one_quarter_host", 1, QUARTER),
    ("three_quarter_hosts", 3, QUARTER),
)
OF_ALLOWED_MIN: Final = "0.9"
USED_MIN: Final = "0.85"
"""Of the cores that two workers had: their rate is as high a share of what cores and CPU allow."""
THREE_TO_ONE_MIN: Final = "2.6"
POLL_SECONDS: Final = 0.2
ACCRUAL_SECONDS: Final = 5
START_SECONDS_MAX: Final = 60
PATIENCE_SECONDS: Final = 1_800


@dataclass(frozen=True)
class Ran:
    """A backlog that was metered.

    Attributes:
        points: Its pod-hours.
        seconds: Its time.
        cpu: CPU seconds by program.
        others_cpu: CPU seconds of programs that have nothing to do with it.
    """

    points: int
    seconds: Decimal
    cpu: Mapping[str, Decimal]
    others_cpu: Decimal

    @property
    def rate(self) -> Decimal:
        """Return pod-hours a second."""
        return self.points / self.seconds

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

    def run(self, name: str, *, workers: int, clusters: int, share: Decimal | None = None) -> Ran:
        """Have a new backlog metered and charged by so many workers.

        Args:
            name: Of the run.
            workers: How many.
            clusters: How many the backlog has.
            share: Of a core that each worker is held to; None for none.
        """
        hours = {f"{name}-{number}": HOURS - number % 3 for number in range(clusters)}
        registered = [self._register(slug, hours=due) for slug, due in hours.items()]
        self._forget_messages()
        execute("VACUUM ANALYZE", connection_name="owner")
        with ExitStack() as stack:
            started = [
                stack.enter_context(self._worker(f"{name}-worker-{number}"))
                for number in range(workers)
            ]
            if share is not None:
                means = {stack.enter_context(held_to(pid, share)) for pid in started}
                print(f"# {name}: held to {share} of a core by {', '.join(means)}", flush=True)
            pids = (*started, *self._servers.values())
            used, others = self._cpu(started), others_cpu_seconds(pids)
            with measured() as watch:
                _await_charges(registered, due=sum(hours.values()))
            others = max(others_cpu_seconds(pids) - others, Decimal(0))
            cpu = {program: now - used[program] for program, now in self._cpu(started).items()}
        return Ran(sum(hours.values()) * PODS, watch.seconds, cpu, others)

    def _register(self, slug: str, *, hours: int) -> Any:  # noqa: ANN401 - A Cluster.
        """Register a cluster whose first hours are due, and no others."""
        from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.
        from tenants.services.clusters import update_cluster  # noqa: PLC0415

        cluster = register(slug, self._url, projects=self._projects, namespaces=TENANTS)
        until = {"metered_until": START + timedelta(hours=hours)}
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
        stop_autovacuum(postgres)
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
    site.run("warm", workers=2, clusters=WARM_CLUSTERS)
    runs: dict[str, Ran] = {}
    for name, workers, share in RUNS:
        ran = runs[name] = site.run(
            name.replace("_", "-"), workers=workers, clusters=CLUSTERS, share=share
        )
        yield measurement(f"hosts.pod_hours_per_second_{name}", ran.rate, "1/s")
        for program, seconds in ran.cpu.items():
            milliseconds = seconds * 1000 / ran.points
            yield measurement(f"hosts.{program}_cpu_{name}", milliseconds, "ms/pod-hour")
        yield measurement(f"hosts.others_cpu_{name}", ran.others_cpu / ran.seconds, "cores")
    cores = len(os.sched_getaffinity(0))
    one, two, quarter, quarters = runs.values()
    yield measurement("hosts.two_workers_to_one", two.rate / one.rate, "x")
    had = cores * two.seconds - two.others_cpu
    yield ratio(
        "hosts.two_workers_to_allowed", one.cpu_in_all / had, Bound.AT_LEAST, OF_ALLOWED_MIN
    )
    yield ratio("hosts.two_workers_used", two.cpu_in_all / had, Bound.AT_LEAST, USED_MIN)
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


def _await_charges(clusters: Sequence[Any], *, due: int) -> None:
    """Wake the workers until every hour of some clusters is sealed and charged."""
    from billing.selectors.pending import pending_windows  # noqa: PLC0415 - Django is set up.
    from metering.models import MeteringWindow  # noqa: PLC0415
    from tenants.services.wakeups import wake  # noqa: PLC0415

    sealed = MeteringWindow.objects.filter(cluster__in=clusters, state="sealed")
    wake("metering.tick_windows")
    begin = time.monotonic()
    accrued_at = begin
    while (left := due - sealed.count()) or pending_windows(limit=1):
        now = time.monotonic()
        assert now - begin < PATIENCE_SECONDS, f"{left} of {due} hours are not sealed."
        # Beat does it each minute, for which the end of a run cannot wait.
        if not left or now - accrued_at > ACCRUAL_SECONDS:
            wake("billing.tick_accrual")
            accrued_at = now
        time.sleep(POLL_SECONDS)

"""Workers on several hosts and one backlog: two of them, and three that have a quarter of a core.

A backlog is four to six hours of each of several clusters of 4,000 pods, for 50 organizations: as
heavy as those of `bench bill`, from a real Prometheus. Where all have as many, workers that begin
together ask it at the same moments, over and over, and compute at the same moments. A worker is one
of Celery with a single process, as on a host of its own, over Valkey and PostgreSQL; it meters
hours and accrues their charges. Device figures are not asked for. An autovacuum would be counted
with whichever run it meets: it is off, and the tables are vacuumed between the runs.

Several workers are held against what one leaves of the cores: the CPU seconds of the run of one
worker, of all programs, divided by the CPU seconds that several workers have: cores multiplied by
their time, but for what programs that have nothing to do with the run took meanwhile.

A host of a site has a worker and the Prometheus of the site's clusters, which no other worker
serves; both are held together to a quarter of a core, and three of them are to do 2.6 times what
one does.
Where three workers of a quarter of a core each take any cluster, the one Prometheus and PostgreSQL
need more for them than two cores have left: they are held against what cores allow.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
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
from embedded.prometheus import EmbeddedPrometheus
from embedded.valkey import EmbeddedValkey


@dataclass(frozen=True)
class Plan:
    """What runs, and what it is given to do.

    Attributes:
        name: Of the run.
        workers: How many.
        clusters: How many the backlog has.
        share: Of a core that each host is held to; None for none.
        is_apart: Whether each host is a site: a worker with clusters and a Prometheus of its own.
    """

    name: str
    workers: int
    clusters: int
    share: Decimal | None = None
    is_apart: bool = False


TENANTS: Final = scaled(50)
CLUSTERS: Final = scaled(24, least=4)
"""The hours of one are leased together. At the end a worker may wait for another: with so many,
for a small part of the time."""
QUARTER: Final = Decimal("0.25")
WARM: Final = Plan("warm", workers=2, clusters=CLUSTERS // 4)
ONE: Final = Plan("one_worker", workers=1, clusters=CLUSTERS)
TWO: Final = Plan("two_workers", workers=2, clusters=CLUSTERS)
ONE_WORKER: Final = Plan("one_quarter_worker", workers=1, clusters=CLUSTERS // 2, share=QUARTER)
THREE_WORKERS: Final = replace(ONE_WORKER, name="three_quarter_workers", workers=3)
SITES: Final = 3
ONE_SITE: Final = Plan(
    "one_quarter_host", workers=1, clusters=SITES * 3, share=QUARTER, is_apart=True
)
THREE_SITES: Final = replace(ONE_SITE, name="three_quarter_hosts", workers=SITES)
OF_ALLOWED_MIN: Final = "0.9"
USED_MIN: Final = "0.85"
"""Of the cores that two workers had: their rate is as high a share of what cores and CPU allow."""
THREE_WORKERS_OF_ALLOWED_MIN: Final = "0.7"
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
        prometheus: Servers with the same history.
        servers: Process ids of the other servers by name.
    """

    def __init__(
        self, folder: Path, prometheus: Sequence[EmbeddedPrometheus], servers: Mapping[str, int]
    ) -> None:
        """Make the organizations."""
        self._folder = folder
        self._urls = [server.url() for server in prometheus]
        self._prometheus = [server.process.pid for server in prometheus if server.process]
        self._servers = servers
        self._projects = make_projects("hosts", TENANTS)

    def run(self, plan: Plan) -> Ran:
        """Have a new backlog metered and charged."""
        name = plan.name.replace("_", "-")
        # Each site has the same work: a cluster of six, of five and of four hours.
        turns = plan.workers if plan.is_apart else 1
        due = [HOURS - number // turns % 3 for number in range(plan.clusters)]
        slugs = [f"{name}-{number}" for number in range(plan.clusters)]
        registered = [
            self._register(slug, self._urls[number % turns], hours=hours)
            for number, (slug, hours) in enumerate(zip(slugs, due, strict=True))
        ]
        self._forget_messages()
        execute("VACUUM ANALYZE", connection_name="owner")
        dedicated = slugs if plan.is_apart else []
        with ExitStack() as stack:
            started = [
                stack.enter_context(
                    self._worker(
                        f"{name}-worker-{number}",
                        dedicated=dedicated,
                        own=dedicated[number :: plan.workers],
                    )
                )
                for number in range(plan.workers)
            ]
            if plan.share is not None:
                beside = self._prometheus if plan.is_apart else []
                hosts = [[pid, *beside[number : number + 1]] for number, pid in enumerate(started)]
                means = {stack.enter_context(held_to(host, plan.share)) for host in hosts}
                print(f"# {name}: held to {plan.share} of a core by {', '.join(means)}", flush=True)
            pids = (*started, *self._prometheus, *self._servers.values())
            used, others = self._cpu(started), others_cpu_seconds(pids)
            with measured() as watch:
                _await_charges(registered, due=sum(due))
            others = max(others_cpu_seconds(pids) - others, Decimal(0))
            cpu = {program: now - used[program] for program, now in self._cpu(started).items()}
        return Ran(sum(due) * PODS, watch.seconds, cpu, others)

    def _register(self, slug: str, url: str, *, hours: int) -> Any:  # noqa: ANN401 - A Cluster.
        """Register a cluster whose first hours are due, and no others."""
        from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.
        from tenants.services.clusters import update_cluster  # noqa: PLC0415

        cluster = register(slug, url, projects=self._projects, namespaces=TENANTS)
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
    def _worker(self, name: str, *, dedicated: Sequence[str], own: Sequence[str]) -> Iterator[int]:
        """Give the process group of a worker that takes wake-ups; it is ended afterwards.

        Args:
            name: Of the worker.
            dedicated: Clusters that have workers of their own.
            own: Those of them that are this one's.
        """
        queues = ",".join(("celery", "metering", *(f"metering.{slug}" for slug in own)))
        program = Program(
            name=name,
            command=(
                *(sys.executable, "-m", "celery", "-A", "config", "worker", "-n", f"{name}@%h"),
                *("-Q", queues, "-c", "1", "--loglevel", "INFO"),
                *("--without-gossip", "--without-mingle"),
            ),
            log=self._folder / f"{name}.log",
            state=self._folder,
            environment={
                **os.environ,
                "LOG_LEVEL": "INFO",
                "DEDICATED_CLUSTERS": ",".join(dedicated),
            },
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
        groups = {"workers": workers, "prometheus": self._prometheus}
        return used | {
            name: sum(map(cpu_seconds, pids), Decimal(0)) for name, pids in groups.items()
        }


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
        prometheus = []
        for number in range(SITES):
            prometheus.append(start_prometheus(folder / str(number), namespaces=TENANTS))
            stack.callback(prometheus[-1].stop)
        processes = {"postgres": postgres.process, "valkey": valkey.process}
        pids = {name: one.pid for name, one in processes.items() if one is not None}
        yield from _measure(Site(folder, prometheus, pids))


def _measure(site: Site) -> Iterator[Figure]:
    site.run(WARM)
    runs: dict[Plan, Ran] = {}
    for plan in (ONE, TWO, ONE_WORKER, THREE_WORKERS, ONE_SITE, THREE_SITES):
        ran = runs[plan] = site.run(plan)
        yield measurement(f"hosts.pod_hours_per_second_{plan.name}", ran.rate, "1/s")
        for program, seconds in ran.cpu.items():
            milliseconds = seconds * 1000 / ran.points
            yield measurement(f"hosts.{program}_cpu_{plan.name}", milliseconds, "ms/pod-hour")
        yield measurement(f"hosts.others_cpu_{plan.name}", ran.others_cpu / ran.seconds, "cores")
    cores = len(os.sched_getaffinity(0))
    one, two = runs[ONE], runs[TWO]
    yield measurement("hosts.two_workers_to_one", two.rate / one.rate, "x")
    had = cores * two.seconds - two.others_cpu
    yield ratio(
        "hosts.two_workers_to_allowed", one.cpu_in_all / had, Bound.AT_LEAST, OF_ALLOWED_MIN
    )
    yield ratio("hosts.two_workers_used", two.cpu_in_all / had, Bound.AT_LEAST, USED_MIN)
    one, three = runs[ONE_WORKER], runs[THREE_WORKERS]
    yield measurement("hosts.three_quarter_workers_to_one", three.rate / one.rate, "x")
    had = cores * three.seconds - three.others_cpu
    # Three times one is the most, whatever the cores.
    share = max(one.cpu_in_all / had, three.rate / one.rate / THREE_WORKERS.workers)
    name = "hosts.three_quarter_workers_to_allowed"
    yield ratio(name, share, Bound.AT_LEAST, THREE_WORKERS_OF_ALLOWED_MIN)
    to_one = runs[THREE_SITES].rate / runs[ONE_SITE].rate
    yield ratio("hosts.three_quarter_hosts_to_one", to_one, Bound.AT_LEAST, THREE_TO_ONE_MIN)
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

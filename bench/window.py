"""One hour of ten thousand GPU pods with a real Prometheus: our time, memory and SQL statements.

Half of the pods hold MIG slices and a quarter time-sliced GPUs, scraped every 30 s, with DCGM's
series of every device. Our own time is the whole window without the waiting for Prometheus' socket:
parsing, computing, writing. It is compared with the time Prometheus takes for a fixed set of
queries when the client discards the response, and with a plain COPY of the same rows. A separate
process meters the window, so that its peak memory is measured alone.
"""

import multiprocessing
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from bench.crowd import CROWD, NAMESPACES, SCRAPE_SECONDS, VILLAGE, MillisecondTimes, crowd, history
from bench.harness import (
    ROOT,
    Bound,
    Figure,
    cpu_seconds,
    invariant,
    ledger_database,
    measured,
    measurement,
    peak_mib,
    ratio,
    scaled,
)
from bench.plain import BILL, ask_plainly, copy_plainly, fixed_queries
from embedded.prometheus import EmbeddedPrometheus

HOUR: Final = datetime(2026, 10, 1, 10, tzinfo=UTC)
AT: Final = HOUR + timedelta(hours=1, minutes=20)
PODS: Final = {CROWD: scaled(10_000), VILLAGE: 100}
MEMORY_MIB_MAX: Final = 300
OWN_TO_PROMETHEUS_MAX: Final = 1
CPU_TO_PROMETHEUS_MAX: Final = "0.42"
QUERIES_MAX: Final = 6


@dataclass(frozen=True)
class Metered:
    """Resources used by metering one window: seconds, and MiB of the process' peak so far."""

    records: int
    statements: int
    quota_cap: Decimal
    waited: Decimal
    cpu: Decimal
    """Of this process alone; beside `own` it shows how busy the machine was with other things."""
    peak_mib: Decimal
    queries: int

    @property
    def own(self) -> Decimal:
        """Return the time that was not spent waiting for Prometheus."""
        return self.quota_cap - self.waited


def run() -> Iterator[Figure]:
    """Yield the figures of one large window."""
    with ledger_database(), tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder:
        Path(folder).chmod(0o755)
        server, seconds = _prometheus(Path(folder))
        try:
            yield measurement("window.history_import", seconds, "s")
            assert server.process is not None, "the server was started"
            yield from _measure(server.url(), pid=server.process.pid)
        finally:
            server.stop()


def _measure(url: str, *, pid: int) -> Iterator[Figure]:
    _tenants(url)
    first, again, few, many = _metered_elsewhere()
    assert first.records == again.records == PODS[CROWD], first.records
    cpu = cpu_seconds(pid)
    prometheus = min(ask_plainly(url, fixed_queries(CROWD, HOUR, BILL)) for _ in range(2))
    prometheus_cpu = (cpu_seconds(pid) - cpu) / 2
    copied, rows = copy_plainly(CROWD)
    assert rows == PODS[CROWD], rows
    yield invariant("window.queries", first.queries, "queries", QUERIES_MAX, Bound.AT_MOST)
    yield measurement("window.prometheus", prometheus, "s")
    yield measurement("window.prometheus_cpu", prometheus_cpu, "s")
    yield measurement("window.plain_copy", copied, "s")
    for name, taken in (("first_time", first), ("second_time", again)):
        yield measurement(f"window.{name}_own", taken.own, "s")
        yield measurement(f"window.{name}_cpu", taken.cpu, "s")
        yield ratio(
            f"window.{name}_to_prometheus",
            taken.own / prometheus,
            Bound.AT_MOST,
            OWN_TO_PROMETHEUS_MAX,
        )
        # What else runs on the machine stretches this one less.
        yield ratio(
            f"window.{name}_cpu_to_prometheus_cpu",
            taken.cpu / prometheus_cpu,
            Bound.AT_MOST,
            CPU_TO_PROMETHEUS_MAX,
        )
        yield measurement(f"window.{name}_to_plain_copy", taken.own / copied, "x")
    yield invariant("window.peak_memory", again.peak_mib, "MiB", MEMORY_MIB_MAX, Bound.AT_MOST)
    yield invariant(
        "window.statements_more_than_of_100_pods",
        many.statements - few.statements,
        "statements",
        0,
        Bound.AT_MOST,
    )


def _metered_elsewhere() -> tuple[Metered, ...]:
    """Meter in a new process: the large cluster twice by the clock, then both counting statements.

    Counting makes Django spell every statement out, so it has runs of its own.
    """
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_meter_all, args=(theirs,))
    process.start()
    theirs.close()
    found: tuple[Metered, ...] = ours.recv()
    process.join()
    return found


def _meter_all(pipe: Connection) -> None:
    import django  # noqa: PLC0415 - This is a process of its own.

    django.setup()
    from config.celery import calm_collector  # noqa: PLC0415 - Settings come first.
    from metering.adapters import usage_source  # noqa: PLC0415
    from metering.models import MeteringWindow  # noqa: PLC0415
    from metering.services.collection.windows import open_due_windows  # noqa: PLC0415

    source = usage_source(
        {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
    )
    open_due_windows(at=AT)
    calm_collector()
    taken = []
    for slug, is_counted in (
        (VILLAGE, False),
        (CROWD, False),
        (CROWD, False),
        (VILLAGE, True),
        (CROWD, True),
    ):
        MeteringWindow.objects.exclude(cluster__slug=slug).update(not_before=AT.replace(year=2099))
        MeteringWindow.objects.filter(cluster__slug=slug).update(state="open", not_before=AT)
        taken.append(_meter(source, slug, is_counted=is_counted))
    # The first one, of the small cluster, only warmed everything up.
    pipe.send(tuple(taken[1:]))


def _meter(source: Any, slug: str, *, is_counted: bool) -> Metered:  # noqa: ANN401 - A UsageSource.
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    from metering.models import MeteringWindow, UsageRecord  # noqa: PLC0415
    from metering.services.collection.collecting import collect_window  # noqa: PLC0415
    from metering.services.collection.windows import claim_windows  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    actor = system_actor("bench")
    (claimed,) = claim_windows(worker="bench", limit=1, at=AT)
    assert claimed.target.slug == slug, claimed.target.slug
    counting: AbstractContextManager[Any] = (
        CaptureQueriesContext(connection) if is_counted else nullcontext([])
    )
    cpu = time.process_time_ns()
    with counting as captured, _waiting() as waited, measured() as watch:
        collect_window(claimed=claimed, source=source, actor=actor, at=AT)
    window = MeteringWindow.objects.get(pk=claimed.id)
    return Metered(
        records=UsageRecord.objects.filter(window=window).count(),
        statements=len(captured),
        quota_cap=watch.seconds,
        waited=Decimal(sum(waited)) / 1_000_000_000,
        cpu=Decimal(time.process_time_ns() - cpu) / 1_000_000_000,
        peak_mib=peak_mib(),
        queries=len(window.evidence),
    )


@contextmanager
def _waiting() -> Iterator[list[int]]:
    """Collect the nanoseconds that Python's sockets kept this process; libpq has its own."""
    waited: list[int] = []
    readinto = socket.SocketIO.readinto

    def timed(self: socket.SocketIO, buffer: Any) -> int | None:  # noqa: ANN401 - As inherited.
        begin = time.perf_counter_ns()
        try:
            return readinto(self, buffer)
        finally:
            waited.append(time.perf_counter_ns() - begin)

    socket.SocketIO.readinto = timed  # type: ignore[assignment, method-assign]
    try:
        yield waited
    finally:
        socket.SocketIO.readinto = readinto  # type: ignore[method-assign]


def _prometheus(folder: Path) -> tuple[EmbeddedPrometheus, Decimal]:
    """Return a server that holds both clusters' hour, and the seconds the import took."""
    from embedded.prometheus_programs import find_prometheus  # noqa: PLC0415 - Fetches.
    from simulator.cluster.exporters.openmetrics import HistoryWriter  # noqa: PLC0415

    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        raise SystemExit(f"This bench needs Prometheus: {programs.reason}")
    server = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    with measured() as watch:
        writer = HistoryWriter(crowd(PODS, HOUR))
        text = folder / "history.txt"
        with text.open("wb") as out:
            writer.write(history(HOUR), cast("BinaryIO", MillisecondTimes(out)))
        server.import_openmetrics(text, name="crowd")
        text.unlink()
    server.start()
    return server, watch.seconds


def _tenants(prometheus_url: str) -> None:
    """Make five organizations, and both clusters with every namespace bound."""
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - Django is set up by now.
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    by = {"actor": system_actor("bench"), "at": HOUR}
    projects = []
    for number in range(5):
        slug = f"bench-{number}"
        owner = create_organization(slug=slug, name=slug, billing_currency="EUR", **by)  # type: ignore[arg-type]
        projects.append(create_project(organization=owner, slug=slug, name=slug, **by))  # type: ignore[arg-type]
    for slug in (CROWD, VILLAGE):
        cluster = register_cluster(
            slug=slug,
            name=slug,
            metered_from=HOUR,
            prometheus_url=prometheus_url,
            selector_label="cluster",
            selector_value=slug,
            scrape_interval_seconds=SCRAPE_SECONDS,
            user_label="billing_example_com_user",
            **by,  # type: ignore[arg-type]
        )
        for number, namespace in enumerate(NAMESPACES):
            bind_namespace(
                cluster=cluster,
                namespace=namespace,
                project=projects[number % len(projects)],
                valid_from=HOUR,
                **by,  # type: ignore[arg-type]
            )

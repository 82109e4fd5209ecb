"""One hour of 10,000, 30,000 and 100,000 GPUs, metered in parts by one worker process each.

From the claim through the division, all parts and the settlement to the step that finishes and
seals the hour. The time of a pod must not grow with the window, nor the statements of a step, and
the process's peak of memory stays below what a worker is given. A bill's metrics at a scrape of a
minute, with one device a node.
"""

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from bench.harness import (
    Bound,
    Figure,
    cpu_seconds,
    invariant,
    ledger_database,
    measured,
    measurement,
    peak_mib,
    process_seconds,
    ratio,
    scaled,
)
from bench.pod_history import PodCluster, register, served
from metering.domain.collection.windows import DEFAULT_POLICY

HOUR: Final = datetime(2026, 10, 1, 10, tzinfo=UTC)
AT: Final = HOUR + timedelta(hours=1, minutes=20)
SIZES: Final = (scaled(10_000), scaled(30_000), scaled(100_000))
WARM: Final = 100
"""GPUs of a cluster that a process meters first, so that no figure holds what is done once."""
POLICY: Final = replace(
    DEFAULT_POLICY,
    pods_undivided_max=scaled(DEFAULT_POLICY.pods_undivided_max),
    part_pods=scaled(DEFAULT_POLICY.part_pods),
)
SLOWER_MAX: Final = "1"
"""Seconds of a pod of the largest window to those of the smallest."""
MEMORY_MIB_MAX: Final = 300


@dataclass(frozen=True)
class Metered:
    """What metering one window took.

    Attributes:
        statements: Of each step, in their order.
        python: CPU seconds of the worker process.
        postgres: CPU seconds, of the server's processes.
        prometheus: CPU seconds.
        peak_mib: Of the worker process.
    """

    records: int
    statements: Sequence[int]
    seconds: Decimal
    python: Decimal
    peak_mib: Decimal
    postgres: Decimal = Decimal(0)
    prometheus: Decimal = Decimal(0)

    @property
    def cpu(self) -> Decimal:
        """Return the CPU seconds of all three."""
        return self.python + self.postgres + self.prometheus

    @property
    def parts(self) -> int:
        """Return the parts: each is observed and posted, beside three steps of the window."""
        return (len(self.statements) - 3) // 2

    @property
    def largest_steps(self) -> dict[str, int]:
        """Return the most statements of each kind of step."""
        divide, *steps, finish = self.statements
        observed, (settle, *posted) = steps[: self.parts], steps[self.parts :]
        return {
            "divide": divide,
            "observe": max(observed),
            "settle": settle,
            "post": max(posted),
            "finish": finish,
        }

    def milliseconds(self, seconds: Decimal) -> Decimal:
        """Return milliseconds of a pod."""
        return seconds * 1000 / self.records


def run() -> Iterator[Figure]:
    """Yield the figures of divided windows."""
    with ledger_database() as database, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        Path(folder).chmod(0o755)
        clusters = {gpus: _cluster(gpus) for gpus in (WARM, *SIZES)}
        with served(Path(folder), list(clusters.values())) as (server, seconds):
            yield measurement("window_parts.history_import", seconds, "s")
            for gpus in SIZES:
                register(clusters[WARM], slug=_warm(gpus), url=server.url())
                register(clusters[gpus], url=server.url())
            assert database.process is not None, "the server was started"
            assert server.process is not None, "the server was started"
            pids = database.process.pid, server.process.pid
            taken = {gpus: _metered_elsewhere(gpus, pids=pids) for gpus in SIZES}
            recheck_seconds, peak, corrections = _rechecked_elsewhere(SIZES[-1])
        for gpus, one in taken.items():
            expected = len(clusters[gpus].lifetimes())
            yield invariant(f"window_parts.records_{gpus}", one.records, "records", expected)
            yield from _of_size(gpus, one)
        yield from _compared(taken[SIZES[0]], taken[SIZES[-1]])
        yield measurement(f"window_parts.recheck_{SIZES[-1]}", recheck_seconds, "s")
        yield invariant("window_parts.recheck_corrections", corrections, "", 0)
        yield invariant(
            "window_parts.recheck_peak_memory", peak, "MiB", MEMORY_MIB_MAX, Bound.AT_MOST
        )


def _warm(gpus: int) -> str:
    """Return the cluster that a process meters before the one it is measured with."""
    return f"warm-{gpus}"


def _cluster(gpus: int) -> PodCluster:
    return PodCluster(
        slug=f"gpus-{gpus}",
        begin=HOUR,
        hours=1,
        gpus=gpus,
        pod_seconds=1800,
        facts_every=8,
        devices=1,
    )


def _of_size(gpus: int, taken: Metered) -> Iterator[Figure]:
    yield measurement(f"window_parts.parts_{gpus}", taken.parts, "parts")
    yield measurement(f"window_parts.seconds_{gpus}", taken.seconds, "s")
    for name, seconds in (
        ("wall", taken.seconds),
        ("python", taken.python),
        ("postgres", taken.postgres),
        ("prometheus", taken.prometheus),
    ):
        yield measurement(f"window_parts.{name}_{gpus}", taken.milliseconds(seconds), "ms/pod")
    yield invariant(
        f"window_parts.peak_memory_{gpus}", taken.peak_mib, "MiB", MEMORY_MIB_MAX, Bound.AT_MOST
    )


def _compared(small: Metered, large: Metered) -> Iterator[Figure]:
    """Yield how a pod of the largest window compares with one of the smallest."""
    for name, few, many in (
        ("time", small.seconds, large.seconds),
        ("cpu", small.cpu, large.cpu),
    ):
        share = large.milliseconds(many) / small.milliseconds(few)
        yield ratio(f"window_parts.{name}_of_a_pod", share, Bound.AT_MOST, SLOWER_MAX)
    few_steps, many_steps = small.largest_steps, large.largest_steps
    for kind, statements in many_steps.items():
        yield measurement(f"window_parts.statements_{kind}", statements, "statements")
    yield invariant(
        "window_parts.statements_more_than_of_a_small_window",
        sum(max(0, many_steps[kind] - few_steps[kind]) for kind in many_steps),
        "statements",
        0,
    )


def _metered_elsewhere(gpus: int, *, pids: tuple[int, int]) -> Metered:
    """Meter one window in a new process, so that its peak of memory is measured alone."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_meter_all, args=(theirs, gpus))
    process.start()
    theirs.close()
    ours.recv()  # It is warm.
    begin = [cpu_seconds(pid) for pid in pids]
    ours.send("meter")
    taken: Metered = ours.recv()
    postgres, prometheus = (
        cpu_seconds(pid) - former for pid, former in zip(pids, begin, strict=True)
    )
    process.join()
    return replace(taken, postgres=postgres, prometheus=prometheus)


def _rechecked_elsewhere(gpus: int) -> tuple[Decimal, Decimal, int]:
    """Recheck a sealed window in a new process; return its seconds, its peak and corrections."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_recheck, args=(theirs, gpus))
    process.start()
    theirs.close()
    seconds, peak, corrections = ours.recv()
    process.join()
    return seconds, peak, corrections


def _recheck(pipe: "Connection[tuple[Decimal, Decimal, int], object]", gpus: int) -> None:
    import django  # noqa: PLC0415 - This is a process of its own.

    django.setup()
    from config.celery import calm_collector  # noqa: PLC0415 - Settings come first.
    from metering.domain.corrections.correction import RecheckReason  # noqa: PLC0415
    from metering.models import MeteringWindow  # noqa: PLC0415
    from metering.services.corrections.rechecking import recheck_next  # noqa: PLC0415
    from metering.services.corrections.rechecks import ask_recheck  # noqa: PLC0415

    calm_collector()
    worker = _worker(_cluster(gpus).slug)
    window = MeteringWindow.objects.get(cluster__slug=_cluster(gpus).slug)
    ask_recheck(window_id=window.pk, reason=RecheckReason.PERSON, actor=worker.actor, at=AT)
    with measured() as watch:
        done = recheck_next(worker=worker, at=AT)
    assert done is not None, "the recheck is due"
    assert done.done == 1, done
    pipe.send((watch.seconds, peak_mib(), done.corrections))


def _meter_all(pipe: "Connection[object, object]", gpus: int) -> None:
    import django  # noqa: PLC0415 - This is a process of its own.

    django.setup()
    from config.celery import calm_collector  # noqa: PLC0415 - Settings come first.
    from metering.services.collection.windows import open_due_windows  # noqa: PLC0415

    open_due_windows(at=AT)
    calm_collector()
    _meter(_warm(gpus))
    pipe.send("warm")
    pipe.recv()
    pipe.send(_meter(_cluster(gpus).slug))


def _worker(slug: str) -> Any:  # noqa: ANN401 - A Worker; Django is not set up at the import.
    from metering.adapters import usage_source  # noqa: PLC0415 - Django is set up by now.
    from metering.services.collection.sweeping import Worker  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.models import Cluster  # noqa: PLC0415

    return Worker(
        name="bench",
        source=usage_source(
            {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
        ),
        actor=system_actor("bench"),
        policy=POLICY,
        clusters=[Cluster.objects.get(slug=slug).pk],
    )


def _meter(slug: str) -> Metered:
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    from metering.models import MeteringWindow, UsageRecord  # noqa: PLC0415
    from metering.services.collection.sweeping import meter_next  # noqa: PLC0415

    worker, counts = _worker(slug), [0]

    def count(execute: Callable[..., object], *values: object) -> object:
        counts[-1] += 1
        return execute(*values)

    begin = process_seconds()
    with connection.execute_wrapper(count), measured() as watch:
        while meter_next(worker=worker, at=AT) is not None:
            counts.append(0)
    python = process_seconds() - begin
    window = MeteringWindow.objects.get(cluster__slug=slug)
    assert window.state == "sealed", (window.state, window.last_error, counts)
    return Metered(
        records=UsageRecord.objects.filter(window=window).count(),
        statements=counts[:-1],
        seconds=watch.seconds,
        python=python,
        peak_mib=peak_mib(),
    )

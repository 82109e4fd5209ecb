"""A day of 5,000 GPUs that is due at once: 24 windows at the rate of six, by one worker process.

Six hours are observed together, so a day takes four requests as large as that of six hours. The
rate is that of windows collected and sealed, and the peak of memory that of the whole worker.
"""

import multiprocessing
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from bench.harness import (
    Bound,
    Figure,
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

START: Final = datetime(2026, 10, 5, tzinfo=UTC)
HOURS: Final = {"warm": 1, "few": 6, "many": 24}
"""Hours that are due of each cluster; all read one history."""
AT: Final = START + timedelta(hours=HOURS["many"], minutes=20)
GPUS: Final = scaled(5_000)
RATE_MIN: Final = "0.9"
MEMORY_MIB_MAX: Final = 300
HISTORY: Final = PodCluster(
    slug="day",
    begin=START,
    hours=HOURS["many"],
    gpus=GPUS,
    pod_seconds=7200,
    facts_every=8,
    devices=1,
)


@dataclass(frozen=True)
class Metered:
    """What metering the hours of one cluster took; the peak is that of the process so far."""

    windows: int
    records: int
    seconds: Decimal
    cpu: Decimal
    peak_mib: Decimal

    @property
    def rate(self) -> Decimal:
        """Return windows a second."""
        return self.windows / self.seconds


def run() -> Iterator[Figure]:
    """Yield the figures of a backlog."""
    with ledger_database(), tempfile.TemporaryDirectory(prefix="bench-") as folder:
        Path(folder).chmod(0o755)
        with served(Path(folder), [HISTORY]) as (server, seconds):
            yield measurement("window_backlog.history_import", seconds, "s")
            for slug in HOURS:
                register(HISTORY, slug=slug, url=server.url())
            few, many = _metered_elsewhere()
    for taken in (few, many):
        hours = taken.windows
        yield measurement(f"window_backlog.seconds_{hours}", taken.seconds, "s")
        yield measurement(f"window_backlog.windows_per_second_{hours}", taken.rate, "1/s")
        of_hour = taken.cpu * 1000 / taken.records
        yield measurement(f"window_backlog.python_{hours}", of_hour, "ms/pod-hour")
        expected = GPUS * hours
        yield invariant(f"window_backlog.records_{hours}", taken.records, "records", expected)
    yield ratio("window_backlog.rate_of_24_to_6", many.rate / few.rate, Bound.AT_LEAST, RATE_MIN)
    yield invariant(
        "window_backlog.peak_memory", many.peak_mib, "MiB", MEMORY_MIB_MAX, Bound.AT_MOST
    )


def _metered_elsewhere() -> tuple[Metered, Metered]:
    """Meter all clusters in a new process, so that its peak of memory is measured alone."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=_meter_all, args=(theirs,))
    process.start()
    theirs.close()
    few, many = ours.recv()
    process.join()
    return few, many


def _meter_all(pipe: "Connection[tuple[Metered, ...], object]") -> None:
    import django  # noqa: PLC0415 - This is a process of its own.

    django.setup()
    from config.celery import calm_collector  # noqa: PLC0415 - Settings come first.

    calm_collector()
    # The first one only warms everything up.
    pipe.send(tuple(_meter(slug) for slug in HOURS)[1:])


def _meter(slug: str) -> Metered:
    from metering.adapters import usage_source  # noqa: PLC0415 - Django is set up by now.
    from metering.models import MeteringWindow, UsageRecord  # noqa: PLC0415
    from metering.services.collection.sweeping import Worker, meter_due  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.models import Cluster  # noqa: PLC0415

    Cluster.objects.exclude(slug=slug).update(state="closed")
    Cluster.objects.filter(slug=slug).update(state="active")
    worker = Worker(
        name="bench",
        source=usage_source(
            {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
        ),
        actor=system_actor("bench"),
    )
    begin = process_seconds()
    with measured() as watch:
        meter_due(worker=worker, at=START + timedelta(hours=HOURS[slug], minutes=20))
    cpu = process_seconds() - begin
    windows = MeteringWindow.objects.filter(cluster__slug=slug)
    assert not (left := windows.exclude(state="sealed").values_list("last_error")), left
    return Metered(
        windows=windows.count(),
        records=UsageRecord.objects.filter(window__cluster__slug=slug).count(),
        seconds=watch.seconds,
        cpu=cpu,
        peak_mib=peak_mib(),
    )

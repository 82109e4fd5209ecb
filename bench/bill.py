"""Six hours of 4,000 pods from a real Prometheus to their charges: CPU of a rated pod-hour.

A pod-hour is opened, collected, sealed and charged; device figures are work of its own and are left
out. The same pods are metered for 50 organizations and for 1,000, each with a project, in turns: a
machine that slows down meanwhile slows both down. The CPU is of this process, of PostgreSQL's
processes and of Prometheus, as the kernel counts it. An autovacuum would be counted with whichever
run it meets: it is off, and a vacuum measured apart.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final, Self

from bench.bill_stage import (
    HOURS,
    PODS,
    SELECTOR,
    START,
    make_projects,
    register,
    start_prometheus,
)
from bench.billing_stage import execute
from bench.harness import (
    Bound,
    Figure,
    invariant,
    ledger_database,
    measured,
    measurement,
    ratio,
    scaled,
    stop_autovacuum,
)
from bench.plain import BILL, ask_plainly, fixed_queries

AT: Final = START + timedelta(hours=HOURS, minutes=20)
NAMESPACES: Final = scaled(1_000)
TENANTS: Final = (scaled(50), NAMESPACES)
WARM: Final = "warm"
"""A cluster whose first hour is metered before, so that no figure holds what is done once."""
TURNS: Final = (*TENANTS, *reversed(TENANTS))
POINTS: Final = PODS * HOURS
"""Of one turn."""
SLOWER_MAX: Final = "1.1"
LIMITS: Final = {"ours": "0.6", "prometheus": "0.6"}
"""CPU of Python and PostgreSQL, and of Prometheus, to that of Prometheus for the fixed queries."""
BYTES_MAX: Final = Decimal(250)
"""Of a usage record with its indexes after two turns, some filled in the middle by the second."""


@dataclass(frozen=True)
class Cpu:
    """CPU seconds that were used so far, or between two moments."""

    python: Decimal
    postgres: Decimal
    prometheus: Decimal

    def __sub__(self, other: Self) -> "Cpu":
        """Return what was used between two moments."""
        return Cpu(
            self.python - other.python,
            self.postgres - other.postgres,
            self.prometheus - other.prometheus,
        )

    def milliseconds(self) -> dict[str, Decimal]:
        """Return milliseconds of a pod-hour, by program."""
        used = {
            "python": self.python,
            "postgres": self.postgres,
            "ours": self.python + self.postgres,
            "prometheus": self.prometheus,
        }
        return {name: seconds * 1000 / POINTS for name, seconds in used.items()}


def run() -> Iterator[Figure]:
    """Yield the figures of the bill."""
    with (
        ledger_database() as database,
        tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder,
    ):
        stop_autovacuum(database)
        Path(folder).chmod(0o755)
        server = start_prometheus(Path(folder), namespaces=NAMESPACES)
        try:
            assert server.process is not None, "the server was started"
            yield from _measure(server.url(), prometheus=server.process.pid)
        finally:
            server.stop()


@dataclass(frozen=True)
class _Turn:
    slug: str
    seconds: Decimal
    cpu: Cpu
    vacuum: Decimal


def _measure(url: str, *, prometheus: int) -> Iterator[Figure]:
    from metering.models import MeteringWindow  # noqa: PLC0415 - Django is set up by now.

    _prepare(url)
    _vacuum_cpu(prometheus)
    fixed = _fixed_cpu(url, prometheus)
    yield measurement("bill.fixed_queries_cpu", fixed, "ms/pod-hour")
    turns: dict[int, list[_Turn]] = {tenants: [] for tenants in TENANTS}
    for number, tenants in enumerate(TURNS):
        if number == len(TENANTS):
            yield from _sizes()
        turns[tenants].append(_take_turn(_slug(number), prometheus))
    for tenants, taken in turns.items():
        yield from _figures(tenants, taken, fixed)
    assert not (left := MeteringWindow.objects.exclude(state="sealed").values_list("state")), left
    few, many = (_seconds(taken) for taken in turns.values())
    yield ratio("bill.more_tenants_to_fewer", many / few, Bound.AT_MOST, SLOWER_MAX)


def _take_turn(slug: str, prometheus: int) -> _Turn:
    """Bill a cluster, and vacuum after it."""
    begin = _cpu(prometheus)
    with measured() as watch:
        _bill(slug, at=AT)
    used = _cpu(prometheus) - begin
    return _Turn(slug, watch.seconds, used, _vacuum_cpu(prometheus))


def _seconds(turns: list[_Turn]) -> Decimal:
    return sum((turn.seconds for turn in turns), Decimal())


def _figures(tenants: int, turns: list[_Turn], fixed: Decimal) -> Iterator[Figure]:
    """Yield the figures of all turns of so many tenants."""
    from billing.models import Charge  # noqa: PLC0415 - Django is set up by now.
    from metering.models import UsageRecord  # noqa: PLC0415

    count = len(turns)
    used = {
        name: sum((turn.cpu.milliseconds()[name] for turn in turns), Decimal()) / count
        for name in turns[0].cpu.milliseconds()
    }
    for name, limit in LIMITS.items():
        share = used[name] / fixed
        yield ratio(f"bill.{name}_to_fixed_queries_{tenants}_tenants", share, Bound.AT_MOST, limit)
    vacuum = sum((turn.vacuum for turn in turns), Decimal()) / count
    yield measurement(f"bill.vacuum_cpu_{tenants}_tenants", vacuum, "ms/pod-hour")
    for name, milliseconds in used.items():
        yield measurement(f"bill.{name}_cpu_{tenants}_tenants", milliseconds, "ms/pod-hour")
    rate = POINTS * count / _seconds(turns)
    yield measurement(f"bill.pod_hours_per_second_{tenants}_tenants", rate, "1/s")
    slugs = [turn.slug for turn in turns]
    records = UsageRecord.objects.filter(cluster__slug__in=slugs)
    yield invariant(f"bill.pod_hours_{tenants}_tenants", records.count(), "", POINTS * count)
    charges = Charge.objects.filter(cluster__slug__in=slugs)
    yield measurement(f"bill.charges_{tenants}_tenants", charges.count(), "charges")
    sums = {sum(rows.values_list("unit_seconds", flat=True)) for rows in (records, charges)}
    yield invariant(f"bill.not_charged_{tenants}_tenants", len(sums) - 1, "", 0)


def _prepare(url: str) -> None:
    """Make all tenants, and do what is done once: by a worker as it starts, and in each month."""
    from billing.services.periods import (  # noqa: PLC0415 - Django is set up by now.
        open_current_periods,
    )
    from billing.tasks import ACTOR  # noqa: PLC0415
    from config.celery import calm_collector  # noqa: PLC0415

    for slug, tenants in ((WARM, 1), *((_slug(turn), count) for turn, count in enumerate(TURNS))):
        register(slug, url, projects=make_projects(slug, tenants), namespaces=NAMESPACES)
    calm_collector()
    open_current_periods(actor=ACTOR, at=START)
    _bill(WARM, at=START + timedelta(hours=1, minutes=20))


def _slug(turn: int) -> str:
    return f"tenants-{TURNS[turn]}-{turn}"


def _vacuum_cpu(prometheus: int) -> Decimal:
    """Vacuum and analyze every table; return its milliseconds a pod-hour."""
    begin = _cpu(prometheus)
    execute("VACUUM ANALYZE", connection_name="owner")
    return (_cpu(prometheus) - begin).milliseconds()["postgres"]


def _fixed_cpu(url: str, prometheus: int) -> Decimal:
    """Return milliseconds of Prometheus' CPU a pod-hour for the fixed queries, hour by hour."""
    hours = [START + timedelta(hours=number) for number in range(HOURS)]
    begin = _cpu(prometheus)
    ask_plainly(url, [query for hour in hours for query in fixed_queries(SELECTOR, hour, BILL)])
    return (_cpu(prometheus) - begin).milliseconds()["prometheus"]


def _bill(slug: str, *, at: datetime) -> None:
    """Open, collect, seal and charge one cluster's hours in this process."""
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415 - Django is set up by now.
    from metering.adapters import usage_source  # noqa: PLC0415
    from metering.services.collection.sweeping import Worker, meter_due  # noqa: PLC0415
    from tenants.models import Cluster  # noqa: PLC0415

    Cluster.objects.exclude(slug=slug).update(state="closed")
    Cluster.objects.filter(slug=slug).update(state="active")
    source = usage_source(
        {"BACKEND": "metering.adapters.prometheus.PrometheusUsageSource", "OPTIONS": {}}
    )
    meter_due(worker=Worker(name="bench", source=source, actor=ACTOR), at=at)
    accrue_pending(at=at, actor=ACTOR)


def _sizes() -> Iterator[Figure]:
    """Yield the bytes of a usage record, and of its parts."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    from metering.models import UsageRecord  # noqa: PLC0415

    records = UsageRecord.objects.count()
    with connection.cursor() as cursor:
        cursor.execute(_BYTES)
        for name, size in cursor.fetchall():
            of_record = round(Decimal(size) / records, 1)
            if name == "metering_usagerecord":
                yield Figure("bill.bytes", of_record, "B/record", Bound.AT_MOST, BYTES_MAX)
            else:
                yield measurement(f"bill.bytes.{name}", of_record, "B/record")


_BYTES: Final = """
WITH parts AS (
  SELECT relid FROM pg_partition_tree('metering_usagerecord') WHERE isleaf
   UNION ALL SELECT 'metering_usagefact'::regclass
)
SELECT regexp_replace(parts.relid::regclass::text, '_20[0-9_]+$', '') AS name,
       sum(pg_total_relation_size(parts.relid))
  FROM parts GROUP BY 1
 UNION ALL SELECT regexp_replace(i.indexrelid::regclass::text, '_20[0-9]{2}_[0-9]{2}', ''),
       sum(pg_relation_size(i.indexrelid))
  FROM parts JOIN pg_index i ON i.indrelid = parts.relid GROUP BY 1
 ORDER BY 1
"""


def _cpu(prometheus: int) -> Cpu:
    """Return the CPU seconds used so far."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        ((backend,),) = cursor.fetchall()
    postmaster = int(_stat(backend)[1])
    family = [pid for pid in _processes() if int(_stat(pid)[1]) == postmaster]
    return Cpu(
        python=Decimal(time.process_time_ns()) / 1_000_000_000,
        # Of backends that have ended, the postmaster holds what they used.
        postgres=sum((_ticks_of(pid, 11, 13) for pid in family), _ticks_of(postmaster, 11, 15)),
        prometheus=_ticks_of(prometheus, 11, 13),
    )


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> list[str]:
    """Return the fields of a process from its state on; a parent of 0 for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["X", "0"]


def _ticks_of(pid: int, first: int, end: int) -> Decimal:
    return Decimal(sum(map(int, _stat(pid)[first:end]))) / os.sysconf("SC_CLK_TCK")

"""The harness: what a figure is, how it is printed, and a throw-away database to measure on.

Three kinds of figures, a line each. A *ratio* compares two things measured in the same run and has
a limit within 1.5 of what a quiet machine shows, because machines differ. An *invariant* holds on
every machine and at every size. A *measurement* is for the reader and has no limit. Work that has
no twin is compared with `plain_work`.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Final

import psycopg

from embedded.migrated import start_with_tables, superuser_url
from embedded.postgres import OWNER, EmbeddedPostgres

ROOT = Path(__file__).resolve().parent.parent
SMOKE_VARIABLE: Final = "BENCH_SMOKE"
SMOKE_DIVISOR: Final = 10
SETTINGS: Final = {
    "DJANGO_SETTINGS_MODULE": "config.settings.development",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "LOG_LEVEL": "WARNING",
}


_ROW_SIZE: Final = """
SELECT pg_total_relation_size(%(table)s::regclass)
       + coalesce((SELECT sum(pg_total_relation_size(relid))
                     FROM pg_partition_tree(%(table)s) WHERE isleaf AND level > 0), 0),
       (SELECT count(*) FROM {table})
"""


class Bound(StrEnum):
    """Which side of the limit is good."""

    AT_LEAST = ">="
    AT_MOST = "<="
    EXACTLY = "=="


@dataclass(frozen=True)
class Figure:
    """One measured number and its limit.

    Attributes:
        limit: None for a measurement.
        is_invariant: Whether it holds at every size; the others are not judged in a smoke run.
    """

    name: str
    value: Decimal
    unit: str
    bound: Bound = Bound.AT_MOST
    limit: Decimal | None = None
    is_invariant: bool = False

    @property
    def is_judged(self) -> bool:
        """Whether this run may fail for it."""
        return self.limit is not None and (self.is_invariant or not is_smoke())

    @property
    def is_ok(self) -> bool:
        """Whether the value meets its limit, or has none."""
        if self.limit is None or not self.is_judged:
            return True
        if self.bound is Bound.EXACTLY:
            return self.value == self.limit
        if self.bound is Bound.AT_LEAST:
            return self.value >= self.limit
        return self.value <= self.limit

    def __str__(self) -> str:
        """Return the line that is printed."""
        line = f"{self.name} {self.value.normalize():f} {self.unit}"
        if self.limit is None:
            return line
        verdict = ("ok" if self.is_ok else "short") if self.is_judged else "not judged"
        return f"{line} {self.bound}{self.limit} {verdict}"


def measurement(name: str, value: object, unit: str) -> Figure:
    """Return a figure for the reader, without a limit."""
    return Figure(name, _rounded(value), unit)


def ratio(name: str, value: object, bound: Bound, limit: object) -> Figure:
    """Return a figure against its twin, measured in the same run."""
    return Figure(name, _rounded(value), "x", bound, Decimal(str(limit)))


def against_plain_work(name: str, seconds: Decimal, limit: object) -> Iterator[Figure]:
    """Yield the seconds of work that has no twin, and their ratio to the plain work's."""
    yield measurement(name, seconds, "s")
    yield ratio(f"{name}_to_plain_work", seconds / plain_work(), Bound.AT_MOST, limit)


def invariant(
    name: str, value: object, unit: str, limit: object, bound: Bound = Bound.EXACTLY
) -> Figure:
    """Return a figure that holds on every machine and at every size."""
    return Figure(name, _rounded(value), unit, bound, Decimal(str(limit)), is_invariant=True)


def _rounded(value: object) -> Decimal:
    return Decimal(str(value)).quantize(Decimal("0.001"))


def is_smoke() -> bool:
    """Whether this run only shows that every bench runs and that the invariants hold."""
    return os.environ.get(SMOKE_VARIABLE) == "true"


def scaled(size: int, *, least: int = 1) -> int:
    """Return a size, a tenth of it in a smoke run."""
    return max(least, size // SMOKE_DIVISOR) if is_smoke() else size


@dataclass
class Stopwatch:
    """Seconds of one measured stretch, readable once it has ended."""

    seconds: Decimal = Decimal(0)


def plain_work() -> Decimal:
    """Return the seconds of a fixed piece of Python work, the shortest of five.

    It stands beside work that has no twin, as a machine's speed: Decimals are multiplied, summed,
    written as JSON, read again, sorted and hashed.
    """
    return min(_work_once() for _ in range(5))


def _work_once() -> Decimal:
    with measured() as watch:
        prices = [Decimal(number) / 100 * Decimal("1.19") for number in range(40_000)]
        text = json.dumps({str(number): str(price) for number, price in enumerate(prices)})
        found = sorted(map(Decimal, json.loads(text).values()), reverse=True)
        assert sum(found) == sum(prices)
        hashlib.sha256(text.encode()).hexdigest()
    return watch.seconds


@contextmanager
def measured() -> Iterator[Stopwatch]:
    """Measure the elapsed time of a block."""
    watch = Stopwatch()
    begin = time.perf_counter_ns()
    yield watch
    watch.seconds = Decimal(time.perf_counter_ns() - begin) / 1_000_000_000


def row_sizes(*tables: str) -> Iterator[Figure]:
    """Yield the bytes of a row of each table, with indexes, TOAST, dead rows and all partitions."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    for table in tables:
        with connection.cursor() as cursor:
            cursor.execute(_ROW_SIZE.format(table=table), {"table": table})
            ((size, rows),) = cursor.fetchall()
        yield measurement(f"row.{table}", Decimal(size) / rows, "B")


def process_seconds() -> Decimal:
    """Return the CPU time of this process so far."""
    return Decimal(time.process_time_ns()) / 1_000_000_000


def cpu_seconds(pid: int) -> Decimal:
    """Return the CPU time of a process and of its children, those that have ended too."""
    return _cpu_of(pid, own=slice(11, 15), childs=slice(11, 13))


def others_cpu_seconds(pids: Iterable[int]) -> Decimal:
    """Return the CPU time that programs but for this one and some others have used so far.

    Only what they computed themselves: what the kernel did, for whomever, is not counted.

    Args:
        pids: Of those others; what they have started counts as theirs.
    """
    user, nice = Path("/proc/stat").read_text().split(maxsplit=3)[1:3]
    used = Decimal(int(user) + int(nice)) / os.sysconf("SC_CLK_TCK")
    ours = (_cpu_of(pid, own=slice(11, 15, 2), childs=slice(11, 12)) for pid in pids)
    return used - sum(ours, Decimal(os.times().user))


def _cpu_of(pid: int, *, own: slice, childs: slice) -> Decimal:
    """Return the sum of some fields of a process's stat, and of its live children's."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = stat.read_text().partition(" ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        fields = rest.rpartition(")")[2].split()
        if int(number) == pid:
            ticks += sum(map(int, fields[own]))
        elif int(fields[1]) == pid:
            ticks += sum(map(int, fields[childs]))
    return Decimal(ticks) / os.sysconf("SC_CLK_TCK")


def peak_mib() -> Decimal:
    """Return this process's peak memory; getrusage would include its parent's."""
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    )
    return Decimal(line.split()[1]) / 1024


@contextmanager
def ledger_database() -> Iterator[EmbeddedPostgres]:
    """Start a PostgreSQL of our own with a database migrated by its owner; set Django up on it."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder:
        Path(folder).chmod(0o755)
        # What a disk takes to write is part of a figure, and in a smoke run no time is judged.
        server = EmbeddedPostgres(Path(folder) / "postgres", is_durable=not is_smoke())
        try:
            start_with_tables(server, checkout=ROOT)
            os.environ |= SETTINGS | {
                "DATABASE_URL": server.url(),
                "DATABASE_OWNER_URL": server.url(role=OWNER),
            }
            import django  # noqa: PLC0415 - Settings are set first.

            django.setup()
            yield server
            from django.db import connections  # noqa: PLC0415 - As above.

            connections.close_all()
        finally:
            server.stop()


def stop_autovacuum(server: EmbeddedPostgres) -> None:
    """Turn autovacuum off, which would be counted with whichever run it meets."""
    with psycopg.connect(superuser_url(server), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")

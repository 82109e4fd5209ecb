"""The harness: what a figure is, how it is printed, and a throw-away database to measure on.

A figure is one line, `name value unit limit ok|short`. Wherever it can be, it is a ratio against a
limit or a twin measured in the same run, because machines differ.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Bound(StrEnum):
    """Which side of the limit is good."""

    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True)
class Figure:
    """One measured number and the limit it is held against."""

    name: str
    value: Decimal
    unit: str
    bound: Bound
    limit: Decimal

    @property
    def is_ok(self) -> bool:
        """Whether the value lies on the good side of its limit."""
        if self.bound is Bound.AT_LEAST:
            return self.value >= self.limit
        return self.value <= self.limit

    def __str__(self) -> str:
        """Return the line that is printed."""
        verdict = "ok" if self.is_ok else "short"
        return (
            f"{self.name} {self.value.normalize():f} {self.unit} {self.bound}{self.limit} {verdict}"
        )


def figure(name: str, value: object, unit: str, bound: Bound, limit: object) -> Figure:
    """Return a figure with its value rounded to three digits after the point."""
    rounded = Decimal(str(value)).quantize(Decimal("0.001"))
    return Figure(name=name, value=rounded, unit=unit, bound=bound, limit=Decimal(str(limit)))


@dataclass
class Stopwatch:
    """Seconds of one measured stretch, readable once it has ended."""

    seconds: Decimal = Decimal(0)


@contextmanager
def measured() -> Iterator[Stopwatch]:
    """Measure the wall-clock time of a block."""
    watch = Stopwatch()
    begin = time.perf_counter_ns()
    yield watch
    watch.seconds = Decimal(time.perf_counter_ns() - begin) / 1_000_000_000


@contextmanager
def ledger_database() -> Iterator[None]:
    """Start a PostgreSQL of our own, migrate it as its owner, and set Django up on it."""
    from config.embedded.postgres import OWNER, EmbeddedPostgres  # noqa: PLC0415 - Starts servers.

    with tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder:
        Path(folder).chmod(0o755)
        server = EmbeddedPostgres(Path(folder) / "postgres")
        server.start()
        try:
            os.environ |= {
                "DJANGO_SETTINGS_MODULE": "config.settings.development",
                "DATABASE_URL": server.url(),
                "DATABASE_OWNER_URL": server.url(role=OWNER),
                "REDIS_URL": "redis://127.0.0.1:1/0",
                "LOG_LEVEL": "WARNING",
            }
            subprocess.run(
                [sys.executable, "manage.py", "migrate", "--database", "owner", "-v", "0"],
                cwd=ROOT,
                check=True,
            )
            import django  # noqa: PLC0415 - Settings come first.

            django.setup()
            yield
            from django.db import connections  # noqa: PLC0415 - As above.

            connections.close_all()
        finally:
            server.stop()

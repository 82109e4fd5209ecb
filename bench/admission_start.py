"""Start of the admission server: from its command to its first answer, against a bare Django's.

Both are gunicorn with two processes on this machine, over plain HTTP, and ready when they have
asked the database. The bare one has no apps, no environment to read and one view. They start in
turns, each alone.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Final

from django.conf import settings

from bench.admission_servers import THREADS, WORKERS
from bench.bare import DATABASE_VARIABLE
from bench.harness import ROOT, Bound, Figure, ledger_database, measurement, ratio, scaled

ROUNDS: Final = scaled(10, least=2)
READY_SECONDS: Final = 60
POLL_SECONDS: Final = 0.01
TO_BARE_MAX: Final = 3
OURS: Final = ("manage.py", "serve_admission", "--insecure-loopback")
BARE: Final = ("-m", "gunicorn", "bench.bare:make_small_application()", "--no-control-socket")


def run() -> Iterator[Figure]:
    """Yield the figures."""
    with ledger_database():
        rounds = [(_seconds(_ours), _seconds(_bare)) for _ in range(ROUNDS)]
    ours, bare = (statistics.median(way) for way in zip(*rounds, strict=True))
    yield measurement("start_to_ready", ours, "s")
    yield measurement("start_to_ready_slowest", max(one for one, _ in rounds), "s")
    yield measurement("bare_start_to_ready", bare, "s")
    yield ratio("start_to_bare_django", ours / bare, Bound.AT_MOST, TO_BARE_MAX)


def _ours(port: int) -> list[str]:
    return [*OURS, "--bind", f"127.0.0.1:{port}", "--workers", str(WORKERS)]


def _bare(port: int) -> list[str]:
    workers = ("--workers", str(WORKERS), "--worker-class", "gthread", "--threads", str(THREADS))
    return [*BARE, "--bind", f"127.0.0.1:{port}", *workers]


def _seconds(command: Callable[[int], list[str]]) -> Decimal:
    """Return how long a server takes from its command to its first answer that it is ready."""
    from embedded.ports import free_port  # noqa: PLC0415 - Starts nothing.

    port = free_port()
    database = {**settings.DATABASES["default"], "OPTIONS": {}}
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder:
        environment = {
            **os.environ,
            "PROMETHEUS_MULTIPROC_DIR": folder,
            DATABASE_VARIABLE: json.dumps(database, default=str),
        }
        begin = time.monotonic_ns()
        process = subprocess.Popen(
            [sys.executable, *command(port)],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(port)
            return Decimal(time.monotonic_ns() - begin) / 1_000_000_000
        finally:
            process.terminate()
            process.wait()


def _wait(port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).close()
            return
        time.sleep(POLL_SECONDS)
    raise RuntimeError("The server did not become ready.")

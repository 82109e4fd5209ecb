"""Tests of counts that processes share: a new process goes on where an ended one stopped."""

import os
import subprocess
import sys
from pathlib import Path

COUNT = """
import sys
from tenants.adapters.process_counts import all_processes
from prometheus_client import CollectorRegistry, Counter, generate_latest
own = CollectorRegistry()
Counter("asked", "Requests.", registry=own).inc()
print(generate_latest(all_processes(own)).decode(), flush=True)
sys.stdin.read()
"""


def begin(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COUNT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)},
    )


def counted(process: subprocess.Popen[str]) -> str:
    """Wait until a process has counted, and return its sum over all."""
    assert process.stdout is not None
    return next(line for line in process.stdout if line.startswith("asked_total "))


def test_files_are_as_many_as_processes_that_run_at_once(tmp_path: Path) -> None:
    tmp_path /= "not/there/yet"
    beside = begin(tmp_path)
    sums = [counted(beside)]
    for _ in range(3):
        replaced = begin(tmp_path)
        sums.append(counted(replaced))
        replaced.kill()
        replaced.communicate()
    beside.communicate()

    assert sums == [f"asked_total {number}.0\n" for number in (1, 2, 3, 4)]
    assert sorted(file.name for file in tmp_path.glob("*.db")) == ["counter_0.db", "counter_1.db"]

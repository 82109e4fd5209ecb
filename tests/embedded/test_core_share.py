"""What a bench holds to a share of a core uses no more of it, and is free again afterwards."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from bench import core_share
from bench.core_share import SIGNALS, held_to, members
from bench.harness import cpu_seconds, others_cpu_seconds

SECONDS = 1.5


@contextmanager
def _busy() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def busy() -> Iterator[int]:
    """Give a process group that always has work."""
    with _busy() as pid:
        yield pid


def used(pid: int) -> float:
    """Return the CPU seconds that it uses in a while."""
    before = cpu_seconds(pid)
    time.sleep(SECONDS)
    return float(cpu_seconds(pid) - before)


def test_two_groups_are_held_together(busy: int) -> None:
    with _busy() as other, held_to([busy, other], Decimal("0.25")) as how:
        before = cpu_seconds(other)
        held = used(busy) + float(cpu_seconds(other) - before)

    # Signals let both run at the same time.
    assert held <= (0.8 if how == SIGNALS else 0.4) * SECONDS


@pytest.mark.parametrize("by_signals", [False, True])
def test_a_group_is_held_to_its_share_and_released(
    busy: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, by_signals: bool
) -> None:
    if by_signals:
        monkeypatch.setattr(core_share, "VERSION_1", tmp_path)
        monkeypatch.setattr(core_share, "VERSION_2", tmp_path)

    with held_to([busy], Decimal("0.25")) as how:
        held = used(busy)

    assert members(busy) == [busy]
    assert held <= 0.4 * SECONDS
    assert used(busy) > 0
    assert how == SIGNALS or not by_signals
    assert not list(Path("/sys/fs/cgroup").glob(f"*/gpu-ledger-bench-{busy}"))


def test_what_another_program_computes_is_others_time_unless_it_is_named(busy: int) -> None:
    """Whatever else runs adds the same to both, read one after the other."""
    own = float(cpu_seconds(busy))
    named, unnamed = others_cpu_seconds([busy]), others_cpu_seconds([])
    time.sleep(SECONDS)
    took = float(cpu_seconds(busy)) - own

    named_took = float(others_cpu_seconds([busy]) - named)
    unnamed_took = float(others_cpu_seconds([]) - unnamed)

    assert took > 0
    assert unnamed_took - named_took == pytest.approx(took, rel=0.5)

"""Holding process groups to a share of a core: by a control group, else by signals.

A control group lets the kernel stop them for the rest of each tenth of a second, as a
container's CPU limit does. Without root, or without the controller, SIGSTOP and SIGCONT do it: then
the group may run for its share of the time whether it has work or waits, so that it gets less.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Final

PERIOD_MICROSECONDS: Final = 100_000
"""The kernel's own, and that of containers."""
VERSION_1: Final = Path("/sys/fs/cgroup/cpu")
VERSION_2: Final = Path("/sys/fs/cgroup")
SIGNALS: Final = "signals"


@contextmanager
def held_to(groups: Sequence[int], share: Decimal) -> Iterator[str]:
    """Hold process groups together to a share of one core; give the name of what holds them.

    Args:
        groups: Their ids.
        share: Of a core, at most 1.
    """
    quota = int(PERIOD_MICROSECONDS * share)
    with contextlib.ExitStack() as stack:
        if (VERSION_1 / "cpu.cfs_quota_us").exists() and os.access(VERSION_1, os.W_OK):
            made = stack.enter_context(_control_group(VERSION_1, groups))
            (made / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (made / "cpu.cfs_quota_us").write_text(str(quota))
            yield "control group, version 1"
        elif _has_version_2():
            made = stack.enter_context(_control_group(VERSION_2, groups))
            (made / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
            yield "control group, version 2"
        else:
            stack.enter_context(_pulsed(groups, share))
            yield SIGNALS


def _has_version_2() -> bool:
    """Whether groups below the root have the controller, and may be made."""
    enabled = VERSION_2 / "cgroup.subtree_control"
    return (
        enabled.exists() and "cpu" in enabled.read_text().split() and os.access(VERSION_2, os.W_OK)
    )


@contextmanager
def _control_group(root: Path, groups: Sequence[int]) -> Iterator[Path]:
    """Move the processes of groups into a control group; those they start begin there."""
    made = root / f"gpu-ledger-bench-{groups[0]}"
    made.mkdir()
    try:
        for pid in (pid for group in groups for pid in members(group)):
            (made / "cgroup.procs").write_text(str(pid))
        yield made
    finally:
        for pid in map(int, (made / "cgroup.procs").read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                (root / "cgroup.procs").write_text(str(pid))
        made.rmdir()


@contextmanager
def _pulsed(groups: Sequence[int], share: Decimal) -> Iterator[None]:
    """Let groups run for their share of each period, and stop them for the rest."""
    period = Decimal(PERIOD_MICROSECONDS) / 1_000_000
    is_over = threading.Event()

    def pulse() -> None:
        while not is_over.is_set():
            _signal(groups, signal.SIGCONT)
            is_over.wait(float(period * share))
            _signal(groups, signal.SIGSTOP)
            is_over.wait(float(period * (1 - share)))

    thread = threading.Thread(target=pulse, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        _signal(groups, signal.SIGCONT)


def _signal(groups: Sequence[int], number: signal.Signals) -> None:
    for group in groups:
        os.killpg(group, number)


def members(group: int) -> list[int]:
    """Return the processes of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text("utf-8").rpartition(")")[2].split()[2]) == group:
                found.append(int(path.parent.name))
    return found

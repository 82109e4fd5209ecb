"""Counts of requests, which the processes of one web server add up in a folder they share.

prometheus_client keeps files for each process id. A server replaces its processes after some
thousand requests, so that files, and what a scrape costs, would grow without an end. Here a process
takes the lowest number that no running one holds, and goes on with the counts of that number.
"""

import fcntl
import os
from itertools import count
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, multiprocess, values

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
_HELD: dict[int, int] = {}
"""The number that a process holds, by its id: a forked one has to take its own."""


def all_processes(own: CollectorRegistry) -> CollectorRegistry:
    """Return this process's counts, or those of all processes where they share a folder."""
    if FOLDER_VARIABLE not in os.environ:
        return own
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


def process_number() -> int:
    """Return a number that no other running process has in the folder."""
    pid = os.getpid()
    if pid not in _HELD:
        _HELD[pid] = _take_number(Path(os.environ[FOLDER_VARIABLE]))
    return _HELD[pid]


def _take_number(folder: Path) -> int:
    """Lock the first file that is free; the lock ends with the process, however that ends.

    The folder is made where it is missing: every command counts, also before a server has started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in count():
        descriptor = os.open(folder / f"{number}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            return number
    raise AssertionError("numbers do not end")


if FOLDER_VARIABLE in os.environ:
    # Counters that are made from here on keep their values in files of that number.
    values.ValueClass = values.MultiProcessValue(process_number)  # type: ignore[no-untyped-call]

"""Crash points: the named moments at which a worker may die, so that tests can kill it there.

In production nothing is installed and a crash point does nothing.
"""

from collections.abc import Callable
from typing import Final

CRASHPOINTS: Final = (
    "open.before_commit",
    "open.after_commit",
    "claim.before_commit",
    "claim.after_commit",
    "collect.after_observe",
    "collect.after_records",
    "collect.before_commit",
    "collect.after_commit",
    "part.divide.before_commit",
    "part.divide.after_commit",
    "part.lease.before_commit",
    "part.lease.after_commit",
    "part.after_observe",
    "part.observed.before_commit",
    "part.observed.after_commit",
    "part.settle.before_commit",
    "part.settle.after_commit",
    "part.after_records",
    "part.posted.before_commit",
    "part.posted.after_commit",
    "part.finish.before_commit",
    "part.finish.after_commit",
    "fail.before_commit",
    "fail.after_commit",
    "seal.before_commit",
    "seal.after_commit",
    "recheck.make.before_commit",
    "recheck.make.after_commit",
    "recheck.claim.before_commit",
    "recheck.claim.after_commit",
    "recheck.after_observe",
    "recheck.after_corrections",
    "recheck.before_commit",
    "recheck.after_commit",
    "recheck.fail.before_commit",
    "recheck.fail.after_commit",
    "watch.lease.before_commit",
    "watch.lease.after_commit",
    "watch.list.after_page",
    "watch.list.before_commit",
    "watch.list.after_commit",
    "watch.events.before_commit",
    "watch.events.after_commit",
    "watch.beat.before_commit",
    "watch.beat.after_commit",
    "preempt.claim.before_commit",
    "preempt.claim.after_commit",
    "preempt.after_act",
    "preempt.settle.before_commit",
    "preempt.settle.after_commit",
)

_installed: list[Callable[[str], None]] = []


def crashpoint(name: str) -> None:
    """Notify the registered listener that the code reached this failpoint.

    Raises:
        ValueError: The name is not registered, so no test would ever stop there.
    """
    if name not in CRASHPOINTS:
        raise ValueError(f"crash point {name} is not registered")
    for listener in _installed:
        listener(name)


def install_listener(listener: Callable[[str], None]) -> None:
    """Call a function at every crash point from now on in this process."""
    _installed.append(listener)


def remove_listener(listener: Callable[[str], None]) -> None:
    """Stop calling a function."""
    _installed.remove(listener)

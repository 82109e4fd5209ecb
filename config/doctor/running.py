"""Runs checks: those of the database one after another, the others side by side, each in its time.

A check that raises, or that takes too long, is a problem of its own; the others go on.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from traceback import extract_tb
from typing import Final

import structlog
from django.db import transaction

from config.doctor.findings import CheckResult, InstallationCheck, problem

TIME_LIMIT_SECONDS: Final = 60
"""Of a check. Longer than one query of Prometheus may take, which is 45 s."""
THREADS_MAX: Final = 16
"""Checks at once. They wait for servers, and few of them for the same one."""
POLL_SECONDS: Final = 0.1
PAGE: Final = "docs/how-to/check-an-installation.md"

log = structlog.get_logger(__name__)
Progress = Callable[[InstallationCheck], None]
"""Called with each check that has ended, in the thread of the caller."""


def run_checks(
    checks: Sequence[InstallationCheck],
    *,
    progress: Progress = lambda _: None,
    time_limit_seconds: float = TIME_LIMIT_SECONDS,
) -> list[CheckResult]:
    """Return what the checks found, in their order.

    Args:
        checks: What to run; those that need the database share this thread's connection.
        progress: See there.
        time_limit_seconds: Of a check that does not need the database, whose role has timeouts.
    """
    found: dict[int, list[CheckResult]] = {}
    for position, check in enumerate(checks):
        if check.needs_database:
            found[position] = _run_guarded(check)
            progress(check)
    others = {position: check for position, check in enumerate(checks) if not check.needs_database}
    found |= _SideBySide(others, time_limit_seconds).run(progress)
    return [result for position in sorted(found) for result in found[position]]


def _run_guarded(check: InstallationCheck) -> list[CheckResult]:
    with transaction.atomic():
        # What fails in it leaves the connection to the next check.
        results = run_check(check)
        transaction.set_rollback(True)
    return results


def run_check(check: InstallationCheck) -> list[CheckResult]:
    """Return what one check found, and that it failed where it did."""
    found: list[CheckResult] = []
    try:
        found.extend(check.run())
    except Exception as error:  # noqa: BLE001 - No check stops the others, whatever happens in it.
        found.append(_crash_of(check, error))
    return [replace(one, subject=check.subject, section=check.section) for one in found]


def _crash_of(check: InstallationCheck, error: Exception) -> CheckResult:
    """Return that a check failed; the text of the error may hold what nobody should read."""
    frame = extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    log.debug("doctor.check.crashed", check=check.names[0], exc_info=error)
    return problem(
        check.names[0],
        f"The check itself failed with {type(error).__name__} in {place}.",
        "Run it alone with --only and LOG_LEVEL=DEBUG, and report what the log says.",
        PAGE,
    )


@dataclass
class _Running:
    """A check that a thread is at."""

    check: InstallationCheck
    gives_up_at: float


class _SideBySide:
    """Runs checks in threads that the process does not wait for when it ends.

    Args:
        checks: By their position.
        time_limit_seconds: Of each.
    """

    def __init__(self, checks: dict[int, InstallationCheck], time_limit_seconds: float) -> None:
        self._waiting = list(checks.items())
        self._running: dict[int, _Running] = {}
        self._limit = time_limit_seconds
        self._ended: SimpleQueue[tuple[int, list[CheckResult]]] = SimpleQueue()

    def run(self, progress: Progress) -> dict[int, list[CheckResult]]:
        """Return what each found."""
        found: dict[int, list[CheckResult]] = {}
        while self._waiting or self._running:
            self._start()
            for position, results in (*self._take_ended(), *self._take_late()):
                if (running := self._running.pop(position, None)) is not None:
                    found[position] = results
                    progress(running.check)
        return found

    def _start(self) -> None:
        while self._waiting and len(self._running) < THREADS_MAX:
            position, check = self._waiting.pop(0)
            self._running[position] = _Running(check, time.monotonic() + self._limit)
            Thread(target=self._work, args=(position, check), daemon=True).start()

    def _work(self, position: int, check: InstallationCheck) -> None:
        self._ended.put((position, run_check(check)))

    def _take_ended(self) -> list[tuple[int, list[CheckResult]]]:
        try:
            return [self._ended.get(timeout=POLL_SECONDS)]
        except Empty:
            return []

    def _take_late(self) -> list[tuple[int, list[CheckResult]]]:
        now = time.monotonic()
        return [
            (position, [_late(one.check, self._limit)])
            for position, one in self._running.items()
            if one.gives_up_at <= now
        ]


def _late(check: InstallationCheck, limit_seconds: float) -> CheckResult:
    late = problem(
        check.names[0],
        f"No answer within {limit_seconds:g} s.",
        "Find out why the server is slow or which firewall drops the connection.",
        PAGE,
    )
    return replace(late, subject=check.subject, section=check.section)

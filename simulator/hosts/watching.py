"""What is watched during a run: hours sealed by each worker host, and the web servers' answers."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import requests

HOURS: Final = b"metering.window.sealed"
FIGURES: Final = b"metering.devices.sealed"
"""A worker takes hours and device figures alternately, each for ten seconds."""
POLL_SECONDS: Final = 0.5
ANSWER_SECONDS_MAX: Final = 3


class _Watch:
    """A thread that looks again and again until it is stopped."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(POLL_SECONDS):
            self._look()

    def _look(self) -> None:
        raise NotImplementedError


class WorkerLogs(_Watch):
    """Counts what workers sealed in their logs, which are there when no database is.

    Args:
        logs: Of the worker that meters, by host.
    """

    def __init__(self, logs: Mapping[str, Path]) -> None:
        """Begin."""
        self._logs = dict(logs)
        self._read = dict.fromkeys(logs, 0)
        self._counts = {name: Counter[bytes]() for name in logs}
        self._seen = [(time.monotonic(), self._copied())]
        super().__init__()

    def hours_since(self, at: float) -> int:
        """Return how many hours all hosts have sealed since a moment of the monotonic clock."""
        before = self._before(at)
        return sum(self._counts[name][HOURS] - before[name][HOURS] for name in self._counts)

    def works_since(self, at: float, host: str) -> bool:
        """Whether a host has sealed an hour, or device figures of one, since a moment."""
        return self._counts[host].total() > self._before(at)[host].total()

    def _before(self, at: float) -> Mapping[str, Counter[bytes]]:
        return next(counts for seen_at, counts in reversed(self._seen) if seen_at <= at)

    def _copied(self) -> dict[str, Counter[bytes]]:
        return {name: Counter(counts) for name, counts in self._counts.items()}

    def _look(self) -> None:
        for name, path in self._logs.items():
            if not path.exists():
                continue
            with path.open("rb") as log:
                log.seek(self._read[name])
                whole, newline, _ = log.read().rpartition(b"\n")
            self._read[name] += len(whole) + len(newline)
            for pattern in (HOURS, FIGURES):
                self._counts[name][pattern] += whole.count(pattern)
        self._seen.append((time.monotonic(), self._copied()))


class WebAnswers(_Watch):
    """Asks the web servers as a load balancer does: the next one where one does not answer.

    Args:
        urls: Of the web servers.
    """

    def __init__(self, urls: Iterable[str]) -> None:
        """Begin."""
        self._urls = list(urls)
        self._answers: list[tuple[float, bool]] = []
        super().__init__()

    def between(self, begin: float, end: float) -> tuple[int, int]:
        """Return how many requests were answered between two moments, and how many there were."""
        found = [is_answered for at, is_answered in self._answers if begin <= at < end]
        return sum(found), len(found)

    def _look(self) -> None:
        at = time.monotonic()
        self._answers.append((at, any(map(is_ready, self._urls))))
        self._urls.append(self._urls.pop(0))


def is_ready(url: str) -> bool:
    """Whether a web server answers, and has its database."""
    try:
        return requests.get(f"{url}/readyz", timeout=ANSWER_SECONDS_MAX).ok
    except requests.RequestException:
        return False


def wait_while(holds: Callable[[], bool], *, seconds_max: float, what: str) -> float:
    """Wait until something no longer holds; return after how many seconds.

    Raises:
        TimeoutError: It holds for too long.
    """
    begin = time.monotonic()
    while holds():
        if time.monotonic() - begin > seconds_max:
            raise TimeoutError(f"{what} took more than {seconds_max:.0f} s.")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - begin

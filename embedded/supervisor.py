"""The supervisor: it keeps the children of one checkout alive, and ends them all when it ends.

One thread starts and watches every child, because the kernel's leash (see programs.py) is tied to
the thread that started it. A child that dies is started again, later each time it dies soon.
"""

import fcntl
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self

import structlog

from embedded.programs import (
    EmbeddedServerError,
    Program,
    end_group,
    end_stale,
    log_tail,
    start_program,
    stop_program,
    wait_until,
)

logger = structlog.get_logger(__name__)

WATCH_SECONDS = 0.1
RESTART_SECONDS_MIN = 0.2
RESTART_SECONDS_MAX = 30.0
STEADY_SECONDS = 20.0
"""A child that lived this long is started again at once; a shorter life doubles the wait."""
READY_SECONDS = 600.0
"""A machine that is busy with other work takes ten times as long as a quiet one."""
STARTS_UNTIL_READY_MAX = 3
"""A child that has died this often before it answered once will not answer."""
START_ERRORS = (EmbeddedServerError, OSError, subprocess.SubprocessError)
"""What may go wrong outside of us while a child is started; it is tried again."""


class AlreadyRunningError(EmbeddedServerError):
    """Raised when the same checkout is already being run."""


class Service(Protocol):
    """A supervised service: PostgreSQL, Valkey, or any program of ours."""

    @property
    def name(self) -> str:
        """Return what its log and its process are called."""
        ...

    def prepare(self) -> Program:
        """Clean up after an earlier run, and return how to start."""
        ...

    def is_ready(self) -> bool:
        """Whether it answers."""
        ...


@dataclass(frozen=True)
class PlainService:
    """A program that needs no preparation; `answers` reports whether it is ready."""

    program: Program
    answers: Callable[[], bool] = field(default=lambda: True)

    @property
    def name(self) -> str:
        """Return the program's name."""
        return self.program.name

    def prepare(self) -> Program:
        """Return how to start."""
        return self.program

    def is_ready(self) -> bool:
        """Whether it answers."""
        return self.answers()


class _Child:
    """One service's current run, used by the supervising thread only."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.program: Program | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.wait_seconds = RESTART_SECONDS_MIN
        self.next_start_at = 0.0
        self.starts = 0

    def start(self) -> None:
        self.next_start_at = time.monotonic() + self.wait_seconds
        self.started_at = time.monotonic()
        self.starts += 1
        self.program = self.service.prepare()
        self.process = start_program(self.program)

    def watch(self) -> None:
        """Start it again when it has died and its wait is over."""
        if self.process is not None and self.process.poll() is not None:
            lived_seconds = time.monotonic() - self.started_at
            logger.warning(
                "embedded.child.exited",
                child=self.service.name,
                status=self.process.returncode,
                lived_seconds=round(lived_seconds, 1),
            )
            end_group(self.process.pid)
            self.process = None
            is_steady = lived_seconds > STEADY_SECONDS
            doubled = min(self.wait_seconds * 2, RESTART_SECONDS_MAX)
            self.wait_seconds = RESTART_SECONDS_MIN if is_steady else doubled
            self.next_start_at = time.monotonic() + self.wait_seconds
        if self.process is None and time.monotonic() >= self.next_start_at:
            self._try_start()

    def stop(self) -> None:
        if self.process is not None and self.program is not None:
            stop_program(self.process, self.program)

    def _try_start(self) -> None:
        try:
            self.start()
        except START_ERRORS as error:
            self.wait_seconds = min(self.wait_seconds * 2, RESTART_SECONDS_MAX)
            self.next_start_at = time.monotonic() + self.wait_seconds
            logger.warning(
                "embedded.child.start_failed", child=self.service.name, reason=str(error)
            )


@dataclass
class _Request:
    service: Service
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None


class Supervisor:
    """Runs the children of one state folder; use it as a context.

    Args:
        state: The folder of the stack. Two supervisors never share one.
    """

    def __init__(self, state: Path) -> None:
        """Set paths; nothing is started yet."""
        self.state = state.absolute()
        self._lock: IO[str] | None = None
        self._children: list[_Child] = []
        self._requests: queue.Queue[_Request] = queue.Queue()
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Take the lock, end what a killed supervisor left behind, and start watching.

        Raises:
            AlreadyRunningError: Another supervisor runs this state.
        """
        self.state.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        end_stale(self.state)
        self._is_stopping.clear()
        self._thread = threading.Thread(target=self._run, name="supervisor", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything."""
        self.stop()

    def start(self, service: Service, *, ready_seconds: float = READY_SECONDS) -> None:
        """Start a service and return when it answers.

        Raises:
            EmbeddedServerError: It cannot be started, or does not answer in time.
        """
        if self._thread is None:
            raise EmbeddedServerError("The supervisor does not run.")
        request = _Request(service)
        self._requests.put(request)
        while not request.done.wait(WATCH_SECONDS):
            if not self._thread.is_alive():
                raise EmbeddedServerError("The supervisor's thread has ended; see its traceback.")
        if request.error is not None:
            raise request.error
        child = next(one for one in self._children if one.service is service)
        wait_until(
            lambda: child.starts > STARTS_UNTIL_READY_MAX or service.is_ready(),
            timeout_seconds=ready_seconds,
        )
        if not service.is_ready():
            log = self.state / "log" / f"{service.name}.log"
            raise EmbeddedServerError(
                f"{service.name} does not answer; see {log}:\n{log_tail(log)}"
            )

    def pids(self) -> dict[str, int]:
        """Return the process ids of the running children, by name, in order of start."""
        return {
            child.service.name: child.process.pid
            for child in tuple(self._children)
            if child.process is not None and child.process.poll() is None
        }

    def stop(self) -> None:
        """Stop every child, the last started first, and give the lock back."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _run(self) -> None:
        try:
            while not self._is_stopping.is_set():
                self._serve_requests()
                for child in self._children:
                    child.watch()
        finally:
            for child in reversed(self._children):
                child.stop()
            self._children.clear()
            end_stale(self.state)
            self._write_pids()

    def _serve_requests(self) -> None:
        try:
            request = self._requests.get(timeout=WATCH_SECONDS)
        except queue.Empty:
            self._write_pids()
            return
        child = _Child(request.service)
        try:
            child.start()
            self._children.append(child)
        except START_ERRORS as error:
            request.error = error
        self._write_pids()
        request.done.set()

    def _write_pids(self) -> None:
        """Keep pids.json current, for operators and for tests that kill processes."""
        text = json.dumps({"supervisor": os.getpid(), **self.pids()}, indent=2) + "\n"
        path = self.state / "pids.json"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            partial = path.with_suffix(".partial")
            partial.write_text(text, encoding="utf-8")
            partial.replace(path)

    def _take_lock(self) -> None:
        """Take the lock of the state; the kernel gives it back when this process ends."""
        lock = (self.state / "lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise AlreadyRunningError(
                f"{self.state} is already in use by process {owner}. Stop it first."
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

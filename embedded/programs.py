"""Child processes: how each is started, tied to its parent thread, recognized and ended.

On Linux the kernel sends a child its stop signal when the thread that started it ends, even by
SIGKILL (prctl PR_SET_PDEATHSIG). Everywhere, a child and its own children carry a mark in their
environment, so that a later start finds and ends what a killed one left, and no others.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from embedded.account import ServerAccount

MARK = "GPU_LEDGER_STATE"
POLL_SECONDS = 0.05
STALE_STOP_SECONDS = 10
LOG_BYTES_MAX = 20_000_000
PR_SET_PDEATHSIG = 1


class EmbeddedServerError(Exception):
    """Raised when an embedded server cannot be started; the text holds the end of its log."""


@dataclass(frozen=True)
class Program:
    """How one child is started and ended.

    Attributes:
        state: The folder of the stack it belongs to, which is also its mark.
        environment: The whole environment; the mark is added.
        escalation: Signals sent one after another until it ends; SIGKILL always follows.
        stop_timeout_seconds: How long to wait after each signal.
    """

    name: str
    command: tuple[str, ...]
    log: Path
    state: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = Path("/")
    account: ServerAccount = field(default_factory=ServerAccount)
    escalation: tuple[signal.Signals, ...] = (signal.SIGTERM,)
    stop_timeout_seconds: int = 20


def start_program(program: Program) -> subprocess.Popen[bytes]:
    """Start a program in its own session; on Linux it ends with the calling thread."""
    program.log.parent.mkdir(parents=True, exist_ok=True)
    _rotate(program.log)
    identity = program.account.popen_identity()
    with _open_log(program.log) as log:
        return subprocess.Popen(  # noqa: S603 - Our own program and arguments.
            program.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=program.cwd,
            env={**program.environment, MARK: str(program.state)},
            start_new_session=True,
            preexec_fn=_leash(program.escalation[0]),  # noqa: PLW1509 - One call of libc, loaded before.
            **identity,
        )


def stop_program(process: subprocess.Popen[bytes], program: Program) -> None:
    """End a program with everything it started, and wait for its end."""
    for number in program.escalation:
        if process.poll() is not None:
            break
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(program.stop_timeout_seconds)
    end_group(process.pid)
    process.wait()


def end_group(group: int) -> None:
    """Kill what is left of a process group; nothing happens when it is empty."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def marked_processes(state: Path) -> tuple[int, ...]:
    """Return the ids of live processes that carry a stack's mark, without the caller's own."""
    wanted = f"{MARK}={state}"
    found = _environments_of_proc() if Path("/proc/self").exists() else _environments_of_ps()
    return tuple(pid for pid, words in found if wanted in words and pid != os.getpid())


def end_stale(state: Path) -> int:
    """End what a killed supervisor of the same state left behind; return how many there were.

    Raises:
        EmbeddedServerError: Some could not be ended, not even by SIGKILL.
    """
    stale = marked_processes(state)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in marked_processes(state):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        if wait_until(lambda: not marked_processes(state), timeout_seconds=STALE_STOP_SECONDS):
            return len(stale)
    left = ", ".join(str(pid) for pid in marked_processes(state))
    raise EmbeddedServerError(f"Processes of an earlier start do not end: {left}. End them first.")


def command_of(pid: int) -> tuple[str, ...]:
    """Return a live process's command line; empty for a zombie or no process."""
    if Path("/proc/self").exists():
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return ()
        return tuple(word for word in raw.decode(errors="replace").split("\0") if word)
    return next((words for found, words in _environments_of_ps() if found == pid), ())


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float) -> bool:
    """Return True as soon as the condition holds, False when it does not in time."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def log_tail(log: Path, *, characters_max: int = 2_000) -> str:
    """Return the end of a log, "" when there is none."""
    if not log.exists():
        return ""
    return log.read_text(encoding="utf-8", errors="replace")[-characters_max:]


def _open_log(log: Path) -> IO[bytes]:
    """Open a log that only its owner may read: it names people, addresses and what failed."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")


def _rotate(log: Path) -> None:
    """Keep one older log, so that a long demo does not fill the disk."""
    if log.exists() and log.stat().st_size > LOG_BYTES_MAX:
        log.replace(log.with_suffix(".log.1"))


def _leash(number: signal.Signals) -> Callable[[], None] | None:
    """Return what a child does before its program starts, None where the kernel has no leash.

    It runs after the change of user, which would take the leash off again.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def leash() -> None:
        prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return leash


def _environments_of_proc() -> Iterable[tuple[int, tuple[str, ...]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                raw = (entry / "environ").read_bytes()
                yield int(entry.name), tuple(raw.decode(errors="replace").split("\0"))


def _environments_of_ps() -> Iterable[tuple[int, tuple[str, ...]]]:
    ps = shutil.which("ps")
    if ps is None:
        return
    done = subprocess.run(  # noqa: S603 - A fixed program with fixed arguments.
        [ps, "axeww", "-o", "pid=,command="], capture_output=True, text=True, check=False
    )
    for line in done.stdout.splitlines():
        number, _, words = line.strip().partition(" ")
        if number.isdigit():
            yield int(number), tuple(words.split(" "))

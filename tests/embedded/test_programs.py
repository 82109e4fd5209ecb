"""Children: leashed, marked, ended with all they started."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from embedded.programs import (
    MARK,
    Program,
    _environments_of_ps,
    command_of,
    end_stale,
    log_tail,
    marked_processes,
    start_program,
    stop_program,
    wait_until,
)

# A child that starts a child of its own and waits.
PARENT = (
    "import subprocess, sys, time;"
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "time.sleep(600)"
)
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True);"
    "time.sleep(600)"
)


def program(state: Path, code: str, *, timeout_seconds: int = 5) -> Program:
    return Program(
        name="child",
        command=(sys.executable, "-c", code),
        log=state / "log" / "child.log",
        state=state,
        environment=dict(os.environ),
        stop_timeout_seconds=timeout_seconds,
    )


def test_a_child_writes_to_its_log_and_carries_the_mark(state: Path) -> None:
    child = program(state, f"import os; print(os.environ['{MARK}'])")

    assert start_program(child).wait() == 0
    assert log_tail(child.log) == f"{state}\n"


def test_marked_processes_are_found_with_their_children_and_nobody_else(state: Path) -> None:
    process = start_program(program(state, PARENT))

    assert wait_until(lambda: len(marked_processes(state)) == 2, timeout_seconds=10)
    assert process.pid in marked_processes(state)
    assert marked_processes(state / "other") == ()
    assert "time.sleep(600)" in command_of(process.pid)[-1]
    stop_program(process, program(state, PARENT))
    assert wait_until(lambda: marked_processes(state) == (), timeout_seconds=10)
    assert command_of(process.pid) == ()


def test_the_process_list_command_finds_the_same_mark(state: Path) -> None:
    process = start_program(program(state, "import time; time.sleep(600)"))

    def is_listed() -> bool:
        found = dict(_environments_of_ps())
        return f"{MARK}={state}" in found.get(process.pid, ())

    assert wait_until(is_listed, timeout_seconds=10)
    stop_program(process, program(state, PARENT))


def test_a_child_that_ignores_its_signal_is_killed(state: Path) -> None:
    child = program(state, STUBBORN, timeout_seconds=1)
    process = start_program(child)
    assert wait_until(lambda: "deaf" in log_tail(child.log), timeout_seconds=10)

    stop_program(process, child)

    assert process.returncode == -signal.SIGKILL


def test_stale_children_are_ended_at_the_next_start(state: Path) -> None:
    orphan = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        env={**os.environ, MARK: str(state)},
    )
    assert wait_until(lambda: marked_processes(state) != (), timeout_seconds=10)

    assert end_stale(state) == 1
    assert orphan.wait() == -signal.SIGTERM
    assert end_stale(state) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_child_outlives_a_parent_that_is_killed(state: Path, number: signal.Signals) -> None:
    code = (
        "import os, sys, time; from pathlib import Path;"
        "from embedded.programs import Program, start_program;"
        f"s = Path({json.dumps(str(state))});"
        "p = start_program(Program(name='c', command=(sys.executable, '-c', "
        "'import time; time.sleep(600)'), log=s / 'log' / 'c.log', state=s,"
        "environment=dict(os.environ)));"
        "print(p.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert command_of(child) != ()

    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()

    assert wait_until(lambda: command_of(child) == (), timeout_seconds=10)


def test_a_log_that_grew_too_long_is_kept_once(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("embedded.programs.LOG_BYTES_MAX", 3)
    child = program(state, "print('again')")

    start_program(child).wait()
    start_program(child).wait()

    assert child.log.read_text() == "again\n"
    assert child.log.with_suffix(".log.1").read_text() == "again\n"


def test_a_log_that_is_not_there_has_no_tail(state: Path) -> None:
    assert log_tail(state / "none.log") == ""

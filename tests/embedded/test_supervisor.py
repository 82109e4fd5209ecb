"""The supervisor: what dies starts again, what must end ends, and nobody runs twice."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from embedded.programs import (
    EmbeddedServerError,
    Program,
    command_of,
    marked_processes,
    wait_until,
)
from embedded.supervisor import (
    READY_SECONDS,
    AlreadyRunningError,
    PlainService,
    Supervisor,
)

DRIVER = "tests.support.embedded.drive_supervisor"


def service(state: Path, name: str, code: str = "import time; time.sleep(600)") -> PlainService:
    program = Program(
        name=name,
        command=(sys.executable, "-c", code),
        log=state / "log" / f"{name}.log",
        state=state,
        environment=dict(os.environ),
    )
    return PlainService(program)


def start_driver(state: Path) -> subprocess.Popen[str]:
    driver = subprocess.Popen(
        [sys.executable, "-m", DRIVER, str(state)], stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "READY\n"
    return driver


@pytest.fixture
def driver(state: Path) -> Iterator[subprocess.Popen[str]]:
    """Give a process of its own that supervises two children."""
    process = start_driver(state)
    yield process
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def says_up(log: Path) -> bool:
    return log.exists() and "up" in log.read_text()


def pids(state: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((state / "pids.json").read_text())
    return found


def test_a_killed_child_is_started_again_and_the_others_are_left_alone(state: Path) -> None:
    with Supervisor(state) as supervisor:
        supervisor.start(service(state, "first"))
        supervisor.start(service(state, "second"))
        before = supervisor.pids()

        os.kill(before["first"], signal.SIGKILL)

        def is_back() -> bool:
            return supervisor.pids().get("first", before["first"]) != before["first"]

        assert wait_until(is_back, timeout_seconds=10)
        assert supervisor.pids()["second"] == before["second"]
        assert wait_until(
            lambda: pids(state) == {"supervisor": os.getpid(), **supervisor.pids()},
            timeout_seconds=5,
        )


def test_a_child_that_dies_at_once_is_started_ever_later(state: Path) -> None:
    with Supervisor(state) as supervisor:
        supervisor.start(service(state, "brief", "print('here', flush=True)"))
        time.sleep(3)

    lives = (state / "log" / "brief.log").read_text().count("here")
    # 0, 0.4, 1.2 and 2.8 s, and some for the start of each; without waiting it were dozens.
    assert 2 <= lives <= 4


def test_children_end_in_reverse_order(state: Path) -> None:
    code = (
        "import signal, sys, time\n"
        "def leave(*_):\n"
        f"    open({str(state / 'ended')!r}, 'a').write(sys.argv[1]); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, leave); print('up', flush=True); time.sleep(600)"
    )
    with Supervisor(state) as supervisor:
        for name in ("a", "b", "c"):
            plain = service(state, name, code).program
            program = replace(plain, command=(*plain.command, name))
            supervisor.start(PlainService(program, answers=partial(says_up, plain.log)))

    assert (state / "ended").read_text() == "cba"


def test_the_same_state_cannot_run_twice(state: Path) -> None:
    with Supervisor(state) as first:
        first.start(service(state, "only"))

        with pytest.raises(AlreadyRunningError, match=str(os.getpid())):
            Supervisor(state).__enter__()

        assert list(first.pids()) == ["only"]
    with Supervisor(state):
        pass


def test_a_child_that_never_answers_is_reported_with_its_log(state: Path) -> None:
    silent = PlainService(
        service(state, "silent", "print('why', flush=True)").program, answers=lambda: False
    )
    with Supervisor(state) as supervisor, pytest.raises(EmbeddedServerError, match="why"):
        supervisor.start(silent, ready_seconds=1)


def test_a_child_that_keeps_dying_is_not_waited_for_as_a_slow_one_is(state: Path) -> None:
    dying = PlainService(
        service(state, "dying", "raise SystemExit('no settings')").program, answers=lambda: False
    )
    begin = time.monotonic()

    with Supervisor(state) as supervisor, pytest.raises(EmbeddedServerError, match="no settings"):
        supervisor.start(dying)

    assert time.monotonic() - begin < READY_SECONDS / 10


def test_a_program_that_is_not_there_is_refused_at_its_start(state: Path) -> None:
    missing = Program("missing", ("/nonexistent/program",), state / "log" / "m.log", state)

    with Supervisor(state) as supervisor:
        with pytest.raises(FileNotFoundError):
            supervisor.start(PlainService(missing))
        assert supervisor.pids() == {}


def test_a_supervisor_that_does_not_run_starts_nothing(state: Path) -> None:
    with pytest.raises(EmbeddedServerError, match="does not run"):
        Supervisor(state).start(service(state, "early"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_ending_signal_leaves_no_process(
    state: Path, driver: subprocess.Popen[str], number: signal.Signals
) -> None:
    assert wait_until(lambda: len(marked_processes(state)) == 4, timeout_seconds=10)

    driver.send_signal(number)

    assert driver.wait(20) == 128 + number
    assert marked_processes(state) == ()


def test_a_killed_supervisor_takes_its_children_along_and_can_start_again(
    state: Path, driver: subprocess.Popen[str]
) -> None:
    children = pids(state)

    driver.kill()
    driver.wait()

    assert wait_until(
        lambda: command_of(children["first"]) == command_of(children["second"]) == (),
        timeout_seconds=10,
    )
    again = start_driver(state)
    assert set(pids(state)) == {"supervisor", "first", "second"}
    again.terminate()
    assert again.wait(20) == 128 + signal.SIGTERM
    assert again.stdout is not None
    again.stdout.close()
    assert marked_processes(state) == ()


def test_grandchildren_of_a_killed_supervisor_are_ended_by_the_next(
    state: Path, driver: subprocess.Popen[str]
) -> None:
    assert wait_until(lambda: len(marked_processes(state)) == 4, timeout_seconds=10)
    driver.kill()
    driver.wait()
    # The children go by their leash; what they had started is not leashed.
    assert wait_until(lambda: len(marked_processes(state)) == 2, timeout_seconds=10)

    with Supervisor(state):
        assert marked_processes(state) == ()

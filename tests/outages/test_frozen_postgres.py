"""PostgreSQL stands still under workers and admission, and goes on.

`FROZEN_SECONDS=120` makes it two minutes.
"""

import os
import signal
import time
from pathlib import Path

import pytest

from embedded.postgres import EmbeddedPostgres
from tests.outages.load import Load
from tests.support.quotas.connecting import connected_as_admission

FROZEN_SECONDS = int(os.environ.get("FROZEN_SECONDS", "5"))
DEADLINE_SECONDS = 2
ANSWER_SECONDS_MAX = 3 * DEADLINE_SECONDS
"""A question has its deadline, a connection its own, and the machine may be busy."""


@pytest.mark.soak
@pytest.mark.usefixtures("committed_db")
def test_what_stood_still_goes_on_and_nothing_is_lost_or_twice(
    postgres: EmbeddedPostgres,
) -> None:
    with connected_as_admission(DEADLINE_SECONDS), Load() as load:
        load.await_windows(2)
        assert postgres.process is not None
        pids = family(postgres.process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(FROZEN_SECONDS)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        undecided = load.undecided
        load.await_windows()

    load.check()
    assert undecided > 0
    assert load.slowest_seconds <= ANSWER_SECONDS_MAX
    print(f"undecided {undecided}, errors {load.errors}, admitted {len(load.admitted)}")  # noqa: T201 - As said.


def family(parent: int) -> list[int]:
    """Return a process and its children, the parent first: it makes no more once it is stopped."""
    children = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if entry.name.isdigit() and int(fields[1]) == parent:
            children.append(int(entry.name))
    return [parent, *children]

"""Run two plain children under a supervisor until a signal comes; started by tests."""

import os
import sys
import time
from pathlib import Path

from embedded.programs import Program
from embedded.signals import orderly_end
from embedded.supervisor import PlainService, Supervisor

SLEEP = "import subprocess, sys, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"


def main(state: Path) -> None:
    """Say READY once both live, then wait."""
    with orderly_end(), Supervisor(state) as supervisor:
        for name in ("first", "second"):
            program = Program(
                name=name,
                command=(sys.executable, "-c", SLEEP),
                log=state / "log" / f"{name}.log",
                state=state,
                environment=dict(os.environ),
            )
            supervisor.start(PlainService(program))
        sys.stdout.write("READY\n")
        sys.stdout.flush()
        time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

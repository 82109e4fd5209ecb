"""Run the benches: `python -m bench [smoke] [name]`; exit code 1 when a figure falls short.

`smoke` runs them at a tenth of their size, some side by side, and judges the invariants alone.
"""

import importlib
import os
import pkgutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import bench
from bench.harness import SMOKE_VARIABLE, is_smoke

SMOKE: Final = "smoke"
WITHOUT_SMOKE: Final = {
    "churn": "it takes a real cluster, and ten minutes",
    "hosts": "it judges time, and tests/embedded/test_workers.py shows that all is done once",
    "lab": "its story lasts four minutes of real time at any size",
    "losses": "each loss lasts long enough for the slowest repair at any size",
    "peers": "it installs CloudKitty, which takes minutes for 1,000 tenants at any size",
    "starved": "tests/embedded/test_workers.py starves a worker at this size",
}
ALONE: Final = {"enforcement", "watching_https"}
"""Their invariants are seconds, which another bench beside them would lengthen."""
SMOKE_PROCESSES: Final = 2
"""More use each other's cores; one leaves a core idle most of the time."""


def bench_names() -> list[str]:
    """Return the name of every bench, sorted: a module beside this one that defines `run`."""
    folder = Path(bench.__path__[0])
    modules = (module.name for module in pkgutil.iter_modules(bench.__path__))
    return sorted(
        name
        for name in modules
        if "\ndef run() -> " in (folder / f"{name}.py").read_text(encoding="utf-8")
    )


def run_one(name: str) -> int:
    """Run one bench in this process and return how many of its figures fall short."""
    short = 0
    for result in importlib.import_module(f"bench.{name}").run():
        print(result, flush=True)
        short += not result.is_ok
    return short


@dataclass(frozen=True)
class Done:
    """One bench that has ended; `text` is what it printed, unless it printed by itself."""

    name: str
    is_ok: bool
    seconds: float
    text: str = ""


def run_all(names: list[str]) -> int:
    """Run each bench in its own process; return how many missed a limit."""
    failed = []
    for done in run_side_by_side(names) if is_smoke() else map(run_apart, names):
        print(f"{done.text}# {done.name} took {done.seconds:.0f} s", flush=True)
        failed += [] if done.is_ok else [done.name]
    print(f"# short: {', '.join(failed)}" if failed else "# every figure holds", flush=True)
    return len(failed)


def run_side_by_side(names: list[str]) -> Iterator[Done]:
    """Yield benches of a smoke run, in their order; those whose invariants are seconds run alone.

    No other is judged by its time there, and many wait most of theirs.
    """
    for name in names:
        if name in WITHOUT_SMOKE:
            print(f"# {name} is left out: {WITHOUT_SMOKE[name]}", flush=True)
    names = [name for name in names if name not in WITHOUT_SMOKE]
    with ThreadPoolExecutor(SMOKE_PROCESSES) as pool:
        yield from pool.map(run_quietly, [name for name in names if name not in ALONE])
    yield from map(run_apart, [name for name in names if name in ALONE])


def run_apart(name: str) -> Done:
    """Run a bench in its own process, which prints its figures as they come."""
    print(f"# {name}", flush=True)
    begin = time.monotonic()
    done = subprocess.run(command_of(name), check=False)
    return Done(name, done.returncode == 0, time.monotonic() - begin)


def run_quietly(name: str) -> Done:
    """Run a bench in its own process, and return what it printed."""
    begin = time.monotonic()
    done = subprocess.run(
        command_of(name), check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    seconds = time.monotonic() - begin
    return Done(name, done.returncode == 0, seconds, f"# {name}\n{done.stdout}")


def command_of(name: str) -> list[str]:
    """Return the command that runs one bench."""
    return [sys.executable, "-m", "bench", name]


def main(arguments: list[str]) -> int:
    """Run the named benches, or all of them."""
    if arguments[:1] == [SMOKE]:
        os.environ[SMOKE_VARIABLE] = "true"
        arguments = arguments[1:]
    names = bench_names()
    unknown = set(arguments) - set(names)
    if unknown:
        print(f"No bench is called {', '.join(sorted(unknown))}; there are: {', '.join(names)}.")
        return 2
    if len(arguments) == 1:
        return 1 if run_one(arguments[0]) else 0
    return 1 if run_all(arguments or names) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Run the benches: `python -m bench [smoke] [name]`; exit code 1 when a figure falls short.

`smoke` runs them at a tenth of their size and judges the invariants alone.
"""

import importlib
import os
import pkgutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import bench
from bench.harness import SMOKE_VARIABLE

SMOKE: Final = "smoke"
WITHOUT_SMOKE: Final = {
    "churn": "it takes a real cluster, and ten minutes",
    "lab": "its story lasts four minutes of real time at any size",
    "losses": "each loss lasts long enough for the slowest repair at any size",
    "starved": "tests/embedded/test_workers.py starves a worker at this size",
}


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


def run_all(names: list[str]) -> int:
    """Run each bench in its own process; return how many missed a limit."""
    failed = []
    for name in names:
        if os.environ.get(SMOKE_VARIABLE) == "true" and name in WITHOUT_SMOKE:
            print(f"# {name} is left out: {WITHOUT_SMOKE[name]}", flush=True)
            continue
        print(f"# {name}", flush=True)
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-m", "bench", name], check=False)
        print(f"# {name} took {time.monotonic() - begin:.0f} s", flush=True)
        failed += [name] if done.returncode else []
    print(f"# short: {', '.join(failed)}" if failed else "# every figure holds", flush=True)
    return len(failed)


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

"""Run the benches: `python -m bench [name]`; exit code 1 when a figure falls short."""

import importlib
import pkgutil
import subprocess
import sys

import bench

NOT_BENCHES = {
    "__main__",
    "admission_stage",
    "crowd",
    "harness",
    "lab_methods",
    "lab_stage",
    "losses_load",
}


def bench_names() -> list[str]:
    """Return the name of every bench, sorted."""
    found = (module.name for module in pkgutil.iter_modules(bench.__path__))
    return sorted(name for name in found if name not in NOT_BENCHES)


def run_one(name: str) -> int:
    """Run one bench in this process and return how many of its figures fall short."""
    short = 0
    for result in importlib.import_module(f"bench.{name}").run():
        print(result, flush=True)
        short += not result.is_ok
    return short


def main(arguments: list[str]) -> int:
    """Run the named bench, or each one in a process of its own."""
    names = bench_names()
    if arguments:
        if arguments[0] not in names:
            print(f"No bench is called {arguments[0]}; there are: {', '.join(names)}.")
            return 2
        return 1 if run_one(arguments[0]) else 0
    codes = [
        subprocess.run([sys.executable, "-m", "bench", name], check=False).returncode
        for name in names
    ]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

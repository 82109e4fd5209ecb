"""`make mutants`: plant one realistic bug after the other, and expect its tests to fail.

    bin/mutants.py [--only NAME]

The bugs are in mutants.toml. Each is planted in a copy of the checkout; what survives is printed
and makes the exit code 1. Run it before tests are merged or moved, and after: it takes too long
for every change.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
MUTANTS: Final = ROOT / "bin" / "mutants.toml"
COPIES: Final = 2
"""Runs side by side; each starts a PostgreSQL of its own."""
TIMEOUT_SECONDS: Final = 300
REVERSE: Final = "\n-- reverse\n"
"""Begins the way back in an SQL file, which no test runs."""
TESTS_FAILED: Final = 1
"""pytest's exit code when tests ran and some failed; others mean that none could judge."""


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Attributes:
        file: Where it is planted.
        old: Text that stands there exactly once.
        new: What replaces it.
        tests: Paths of which at least one test must fail.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def main() -> int:
    """Run the mutants; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    wanted = parser.parse_args().only
    mutants = [one for one in read_mutants(MUTANTS) if not wanted or one.name in wanted]
    if problems := problems_of(mutants):
        sys.exit("\n".join(problems))
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-mutants-") as name:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(COPIES):
            copies.put(copy_checkout(Path(name) / str(number)))
        require_green(copies, sorted({path for one in mutants for path in one.tests}))
        with ThreadPoolExecutor(COPIES) as pool:
            survived = [one for one in pool.map(lambda one: _survivor(one, copies), mutants) if one]
    sys.stdout.write(
        f"{len(mutants) - len(survived)} of {len(mutants)} caught"
        f" in {time.monotonic() - begin:.0f} s\n"
    )
    return 1 if survived else 0


def read_mutants(path: Path) -> list[Mutant]:
    """Return the mutants of a file."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def problems_of(mutants: Sequence[Mutant]) -> list[str]:
    """Return what keeps mutants from being planted: they have to follow the code they are in."""
    problems = []
    for one in mutants:
        path = ROOT / one.file
        count = _split(path)[0].count(one.old) if path.exists() else 0
        if count != 1:
            problems.append(f"{one.name}: {one.file} has its text {count} times, not once.")
        if (newer := _next_version(path)).exists():
            problems.append(f"{one.name}: {newer.name} replaces {one.file}.")
        problems += [
            f"{one.name}: there is no {test}." for test in one.tests if not (ROOT / test).exists()
        ]
    return problems


def _split(path: Path) -> tuple[str, str]:
    """Return a file's text before and from the mark of an SQL file's way back."""
    text = path.read_text(encoding="utf-8")
    forward, mark, back = text.partition(REVERSE)
    return forward, mark + back


def _next_version(path: Path) -> Path:
    """Return where the next version of an SQL file would be: "x.v2.sql" of "x.v1.sql"."""
    stem, _, number = path.stem.rpartition(".v")
    return path.with_name(f"{stem}.v{int(number) + 1}.sql") if number.isdigit() else path / "none"


def copy_checkout(target: Path) -> Path:
    """Copy what git tracks, with the programs of this checkout; databases are migrated anew."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 - Where a developer has it.
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    tools = target / ".tools"
    tools.mkdir()
    for tool in (ROOT / ".tools").iterdir():
        if tool.name != "migrated":
            (tools / tool.name).symlink_to(tool.resolve())
    return target


def require_green(copies: "SimpleQueue[Path]", tests: Sequence[str]) -> None:
    """End where a test fails without any bug planted: its failure would say nothing."""
    copy = copies.get()
    code, output = run_tests(copy, tests, timeout_seconds=10 * TIMEOUT_SECONDS)
    copies.put(copy)
    if code:
        sys.exit(f"{output}\nThese tests fail before anything is planted.")


def run_tests(copy: Path, tests: Sequence[str], *, timeout_seconds: int) -> tuple[int, str]:
    """Return pytest's exit code and output; a run that hangs counts as failed."""
    try:
        done = subprocess.run(  # noqa: S603 - Our own command.
            [sys.executable, "-m", "pytest", "-n0", "-qx", "-p", "no:cacheprovider", *tests],
            cwd=copy,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TESTS_FAILED, "timed out"
    return done.returncode, done.stdout


def _survivor(mutant: Mutant, copies: "SimpleQueue[Path]") -> Mutant | None:
    """Plant a mutant in a free copy; return it unless its tests failed."""
    copy = copies.get()
    begin, file = time.monotonic(), copy / mutant.file
    forward, back = _split(file)
    try:
        file.write_text(forward.replace(mutant.old, mutant.new) + back, encoding="utf-8")
        code, output = run_tests(copy, mutant.tests, timeout_seconds=TIMEOUT_SECONDS)
    finally:
        file.write_text(forward + back, encoding="utf-8")
        copies.put(copy)
    is_caught = code == TESTS_FAILED
    verdict = "caught  " if is_caught else "SURVIVED" if code == 0 else f"BROKE {code} "
    sys.stdout.write(f"{verdict} {mutant.name} {time.monotonic() - begin:.0f} s\n")
    if code > TESTS_FAILED:
        sys.stdout.write(output[-2000:])
    sys.stdout.flush()
    return None if is_caught else mutant


if __name__ == "__main__":
    sys.exit(main())

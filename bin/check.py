"""`make check`: every check that needs no test run, each with its verdict and its seconds."""

import difflib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(sys.executable).parent
PACKAGES = (
    "tenants",
    "metering",
    "quotas",
    "billing",
    "config",
    "simulator",
    "embedded",
    "tests",
    "bench",
)
OPENAPI = ROOT / "docs" / "reference" / "openapi.yaml"
AT_ONCE = max(2, os.cpu_count() or 1)
"""Steps that run side by side: each takes one core, and waits for its disk now and then."""


@dataclass(frozen=True)
class Verdict:
    """What a step found; `text` is shown only when it is not clean."""

    is_clean: bool
    text: str


Step = Callable[[], Verdict]


def command(program: str, *arguments: str) -> Step:
    """Return a step that runs a program of the virtual environment and wants status 0."""

    def run() -> Verdict:
        done = subprocess.run(  # noqa: S603 - Our own commands.
            [str(PROGRAMS / program), *arguments],
            cwd=ROOT,
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings.test"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Verdict(is_clean=done.returncode == 0, text=done.stdout)

    return run


def compare_openapi() -> Verdict:
    """Make the description of the API anew and compare it with the committed one."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "openapi.yaml"
        flags = ("--validate", "--fail-on-warn", "--file", str(fresh))
        made = command("python", "manage.py", "spectacular", *flags)()
        if not made.is_clean:
            return made
        lines = fresh.read_text(encoding="utf-8").splitlines()
    known = OPENAPI.read_text(encoding="utf-8").splitlines() if OPENAPI.exists() else []
    name = str(OPENAPI.relative_to(ROOT))
    difference = list(difflib.unified_diff(known, lines, name, "as the code is", lineterm=""))
    remedy = "Run `make openapi`, and read the difference: callers depend on it."
    return Verdict(is_clean=not difference, text="\n".join([*difference[:80], remedy]))


def lint_templates() -> Verdict:
    """Hold our own templates against djlint, where there are any."""
    folders = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("*/templates"))]
    if not folders:
        return Verdict(is_clean=True, text="")
    linted = command("djlint", *folders, "--lint")()
    formatted = command("djlint", *folders, "--check")()
    return Verdict(linted.is_clean and formatted.is_clean, linted.text + formatted.text)


def check_client() -> Verdict:
    """Make the client from the committed description, and hold the types of gl against it."""
    made = command("python", "bin/client.py", "generate")()
    if not made.is_clean:
        return made
    return command("mypy", "--config-file", "client/mypy.ini", "client/gl")()


# The quick ones come first, and of the others those that take longest.
STEPS: dict[str, Step] = {
    "ruff check": command("ruff", "check", "."),
    "ruff format": command("ruff", "format", "--check", "."),
    "lint-imports": command("lint-imports"),
    "deptry": command("deptry", "."),
    "messages": command("python", "bin/messages.py", "check"),
    "mypy": command("mypy", *PACKAGES, "manage.py"),
    "architecture": command("python", "-m", "pytest", "-q", "tests/architecture"),
    "openapi": compare_openapi,
    "client": check_client,
    "docs": command("python", "bin/docs.py", "check"),
    "migrations": command("python", "manage.py", "makemigrations", "--check", "--dry-run"),
    "openapi valid": command("openapi-spec-validator", str(OPENAPI)),
    "djlint": lint_templates,
    "chart": command("python", "bin/chart.py", "check"),
}


def measured(step: Step) -> tuple[Verdict, float]:
    """Take a step; return its verdict and its seconds."""
    begin = time.perf_counter()
    return step(), time.perf_counter() - begin


def main(wanted: list[str]) -> int:
    """Take every step, or those named, and report each as it ends; return 1 if one is not clean."""
    unclean = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {
            pool.submit(measured, step): name
            for name, step in STEPS.items()
            if not wanted or name in wanted
        }
        for ended in as_completed(running):
            name, (verdict, seconds) = running[ended], ended.result()
            word = "ok  " if verdict.is_clean else "FAIL"
            sys.stdout.write(f"{word} {name:<14} {seconds:6.1f} s\n")
            if not verdict.is_clean:
                sys.stdout.write(f"{verdict.text.rstrip()}\n")
                unclean.append(name)
            sys.stdout.flush()
    if unclean:
        sys.stdout.write(f"Not clean: {', '.join(unclean)}\n")
    return 1 if unclean else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

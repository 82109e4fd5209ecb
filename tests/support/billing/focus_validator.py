"""The official validator of FOCUS, in a Python of its own: it needs 3.12 and older libraries."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.architecture.source import ROOT

REQUIREMENTS: Final = ROOT / "requirements" / "focus-validator.txt"
PYENV: Final = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
_TOTALS: Final = re.compile(r"Total: (\d+) \| Pass: (\d+) \| Fail: (\d+) \| Skipped: (\d+)")

_FAILED: Final = re.compile(r"^\W*([\w-]+): FAIL ", re.MULTILINE)


@dataclass(frozen=True)
class Judgement:
    """What it says of a file; its exit status is 0 in any case.

    Attributes:
        rules: How many rules of the model there are.
        passed: How many of them hold.
        failed: The ids of those that do not.
    """

    rules: int
    passed: int
    failed: frozenset[str]


class FocusValidator:
    """An installed validator."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "bin" / "focus-validator"
        # It reads a table of currencies below the working directory, as in its own checkout.
        (package,) = folder.glob("lib/python*/site-packages/focus_validator")
        self._at = folder / "at"
        self._at.mkdir()
        (self._at / "focus_validator").symlink_to(package)

    def judge(self, file: Path, *, criteria: tuple[str, ...]) -> Judgement:
        """Hold a file of FOCUS 1.2 against the rules that its package brings along."""
        command = (
            *(str(self._program), "--data-file", str(file), "--validate-version", "1.2"),
            *("--block-download", "--applicability-criteria", ",".join(criteria)),
            "--show-violations",
        )
        done = subprocess.run(command, cwd=self._at, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        totals = _TOTALS.search(said)
        assert totals is not None, said[-2000:]
        rules, passed, _, _ = map(int, totals.groups())
        failed = frozenset(_FAILED.findall(said))
        return Judgement(rules, passed, failed)


def find_python() -> str | None:
    """Return a Python 3.12 of this machine; with CI=true one may be downloaded."""
    is_ci = os.environ.get("CI") == "true"
    found = _uv("python", "find", "3.12", downloads="never")
    if found.returncode and is_ci:
        _uv("python", "install", "3.12", downloads="automatic")
        found = _uv("python", "find", "3.12", downloads="never")
    if found.returncode == 0:
        return found.stdout.strip()
    # A version manager's own names answer with an error where another version is chosen.
    managed = sorted(PYENV.glob("versions/3.12.*/bin/python3.12"))
    return str(managed[-1]) if managed else None


def install(python: str, folder: Path) -> FocusValidator:
    """Install the locked validator below a folder."""
    made = _uv("venv", "--python", python, str(folder), downloads="never")
    assert made.returncode == 0, made.stderr
    into = ("--python", str(folder / "bin" / "python"), "--require-hashes")
    done = _uv("pip", "install", *into, "-r", str(REQUIREMENTS), downloads="never")
    assert done.returncode == 0, done.stderr
    return FocusValidator(folder)


def _uv(*arguments: str, downloads: str) -> subprocess.CompletedProcess[str]:
    asked = subprocess.run(
        [ROOT / "bin" / "prepare", "uv"], capture_output=True, text=True, check=True
    )
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": downloads}
    return subprocess.run(
        (asked.stdout.strip(), *arguments),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )

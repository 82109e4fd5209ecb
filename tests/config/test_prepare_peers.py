"""bin/prepare peers: an environment of its own with the locked peer, made once, or a reason."""

import sys
from pathlib import Path

import pytest

from tests.config.test_prepare import checkout as checkout  # noqa: PLC0414 - A fixture.
from tests.config.test_prepare import link_programs, prepare, write_program

ANSWERS = '[ "$1" = --version ] && exit 0'
MAKES = """
[ "$1" = venv ] && mkdir -p "$5/bin" && touch "$5/bin/python" && exit 0
[ "$1" = pip ] && echo "$*" > "$(dirname "$5")/installed" && exit 0
exit 1
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH with what preparing needs; a test writes its uv into it."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "python3.12").symlink_to(sys.executable)
    return link_programs(tmp_path / "programs", "dirname", "mkdir", "touch")


def test_the_locked_peer_is_installed_once_in_its_own_environment(
    checkout: Path, tmp_path: Path, path: str
) -> None:
    write_program(tmp_path / "programs", "uv", f"{ANSWERS}{MAKES}")

    first = prepare(checkout, "peers", path=path)
    write_program(tmp_path / "programs", "uv", f"{ANSWERS}\nexit 1")
    second = prepare(checkout, "peers", path=path)

    python = Path(first.stdout.strip())
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert second.stdout == first.stdout
    assert python.parent.parent.parent == checkout / ".tools"
    installed = (python.parent / "installed").read_text()
    assert "--require-hashes" in installed
    assert installed.rstrip().endswith("requirements/peers.txt")


def test_a_failed_download_of_the_peer_leaves_nothing(
    checkout: Path, tmp_path: Path, path: str
) -> None:
    venv = '[ "$1" = venv ] && mkdir -p "$5/bin" && exit 0'
    write_program(tmp_path / "programs", "uv", f"{ANSWERS}\n{venv}\necho 'No network' >&2; exit 2")

    done = prepare(checkout, "peers", path=path)

    assert (done.returncode, done.stdout) == (1, "")
    assert "needs the Python package index once" in done.stderr.splitlines()[-1]
    assert list((checkout / ".tools").glob("peers*")) == []

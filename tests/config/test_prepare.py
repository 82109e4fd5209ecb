"""bin/prepare: a fresh checkout finds what it needs, or says what is missing and the remedy."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from embedded.account import FALLBACK_ROOT, MOVED_TO, fallback_folder

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Give a folder that holds what preparing needs."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "bin", folder / "bin")
    shutil.copytree(ROOT / "requirements", folder / "requirements")
    shutil.copy(ROOT / "Makefile", folder)
    return folder


def prepare(checkout: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(checkout / "bin" / "prepare"), *arguments],
        env={**os.environ, "PATH": path or os.environ["PATH"], "PYTHON": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def write_program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def link_programs(folder: Path, *names: str) -> str:
    """Return a PATH that holds nothing but these."""
    folder.mkdir(exist_ok=True)
    for name in names:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return str(folder)


def test_a_python_that_is_too_old_is_named_with_the_remedy(checkout: Path, tmp_path: Path) -> None:
    path = link_programs(tmp_path / "programs", "dirname")
    write_program(tmp_path / "programs", "python3", '[ "$1" = -c ] && exit 1; echo "Python 3.9.2"')

    done = prepare(checkout, "embedded", path=path)

    assert done.returncode == 1
    assert "needs Python 3.11 or newer; found: Python 3.9.2." in done.stderr
    assert "apt-get install python3.11" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_name_that_only_answers_with_an_error_is_passed_over(
    checkout: Path, tmp_path: Path
) -> None:
    path = link_programs(tmp_path / "programs", "dirname")
    write_program(tmp_path / "programs", "python3.11", "echo not installed >&2; exit 127")
    (tmp_path / "programs" / "python3.12").symlink_to(sys.executable)

    done = prepare(checkout, "nonsense", path=path)

    assert done.returncode == 2
    assert done.stderr.startswith("usage: bin/prepare")


def test_without_uv_and_without_the_venv_module_both_remedies_are_reported(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = link_programs(tmp_path / "programs", "dirname")
    (tmp_path / "programs" / "python3.11").symlink_to(sys.executable)
    (tmp_path / "venv.py").write_text("raise SystemExit('ensurepip is not available')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    done = prepare(checkout, "uv", path=path)

    assert done.returncode == 1
    assert "ensurepip is not available" in done.stderr
    assert "Install uv, or the venv module (Debian, Ubuntu: apt-get install" in done.stderr
    assert not list((checkout / ".tools").glob("uv-venv-*"))


def test_uv_of_the_path_is_used_when_it_answers(checkout: Path, tmp_path: Path) -> None:
    path = link_programs(tmp_path / "programs", "dirname")
    (tmp_path / "programs" / "python3.11").symlink_to(sys.executable)
    write_program(tmp_path / "programs", "uv", "exit 0")

    done = prepare(checkout, "uv", path=path)

    assert done.stdout == f"{tmp_path / 'programs' / 'uv'}\n"


def test_a_set_that_is_installed_is_not_installed_again(checkout: Path, tmp_path: Path) -> None:
    path = link_programs(tmp_path / "programs", "dirname", "mkdir", "touch", "chmod", "cat")
    (tmp_path / "programs" / "python3.11").symlink_to(sys.executable)
    record = tmp_path / "record"
    write_program(
        tmp_path / "programs",
        "uv",
        f'echo "$@" >> {record}\n'
        'if [ "$1" = venv ]; then mkdir -p .venv/bin; printf "#!/bin/sh\\n" > .venv/bin/python;'
        " chmod +x .venv/bin/python; fi",
    )

    first = prepare(checkout, "development", path=path)
    second = prepare(checkout, "development", path=path)
    third = prepare(checkout, "embedded", path=path)
    (checkout / "requirements" / "development.txt").write_text("other\n")
    fourth = prepare(checkout, "development", path=path)

    assert [first.returncode, second.returncode, third.returncode, fourth.returncode] == [0] * 4
    calls = [line for line in record.read_text().splitlines() if line != "--version"]
    assert [call.split()[0] for call in calls] == ["venv", "pip", "pip"]
    assert calls[1].endswith("--require-hashes " + str(checkout / "requirements/development.txt"))
    assert calls[1].startswith("pip sync --python")
    assert len(list((checkout / ".venv").glob(".installed-*"))) == 1


def test_a_failed_install_leaves_no_stamp(checkout: Path, tmp_path: Path) -> None:
    path = link_programs(tmp_path / "programs", "dirname")
    (tmp_path / "programs" / "python3.11").symlink_to(sys.executable)
    write_program(tmp_path / "programs", "uv", '[ "$1" = pip ] && exit 1; exit 0')

    done = prepare(checkout, "embedded", path=path)

    assert done.returncode == 1
    assert "This failed: " in done.stderr
    assert list((checkout / ".venv").glob(".installed-*")) == []


def test_forgetting_takes_moved_state_along_and_nothing_else(checkout: Path) -> None:
    wanted = checkout / "var" / "postgres"
    wanted.mkdir(parents=True)
    moved = fallback_folder(wanted)
    moved.mkdir()
    (wanted / MOVED_TO).write_text(f"{moved}\n")
    (checkout / "var" / "odd").mkdir()
    (checkout / "var" / "odd" / MOVED_TO).write_text(f"{checkout / 'requirements'}\n")

    done = prepare(checkout, "forget")

    assert done.returncode == 0
    assert not (checkout / "var").exists()
    assert not moved.exists()
    assert (checkout / "requirements").exists()
    assert FALLBACK_ROOT.exists()
    assert prepare(checkout, "forget").returncode == 0


def test_nothing_is_purged_while_the_demo_runs(checkout: Path) -> None:
    (checkout / "var").mkdir()
    with (checkout / "var" / "lock").open("w") as lock:
        lock.write("4711")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)

        done = prepare(checkout, "forget")

    assert done.returncode == 1
    assert done.stderr == "The demo runs (process 4711). Stop it first.\n"
    assert (checkout / "var").exists()


def test_make_prints_every_target_it_has(checkout: Path) -> None:
    done = subprocess.run(["make", "-C", str(checkout)], capture_output=True, text=True, check=True)

    for target in ("demo", "test", "check", "bench", "lock", "openapi", "clean"):
        assert f"  make {target} " in done.stdout

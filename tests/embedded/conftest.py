"""Folders that servers of another account can reach, swept when the test ends."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.account import MOVED_TO
from embedded.programs import end_stale, marked_processes
from embedded.prometheus_programs import find_prometheus

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def state() -> Iterator[Path]:
    """Give a folder for a stack's state; nothing of it is left, and no process."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    yield folder
    end_stale(folder)
    assert marked_processes(folder) == ()
    for pointer in folder.rglob(MOVED_TO):
        shutil.rmtree(pointer.read_text(encoding="utf-8").strip(), ignore_errors=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def programs() -> Path:
    """Return Prometheus' programs, fetched once into the checkout when they are nowhere."""
    found = find_prometheus(ROOT / ".tools")
    if found.folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail(found.reason)
        pytest.skip(found.reason)
    return found.folder


@pytest.fixture
def second_state(state: Path) -> Path:
    """Give another folder, as a second checkout has."""
    folder = state / "second"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def bare_environment() -> dict[str, str]:
    """Return this process's environment without addresses of other servers."""
    taken = {"DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "PORT", "PUBLIC_URL"}
    return {k: v for k, v in os.environ.items() if k not in taken}

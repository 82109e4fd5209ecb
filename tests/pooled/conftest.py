"""Every test here reaches PostgreSQL through PgBouncer, and commits: sessions are shared."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connections

from embedded.debian_programs import find_programs
from embedded.postgres import EmbeddedPostgres
from simulator.hosts.pooler import PGBOUNCER, Pooler

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).resolve().parent
SAMPLED_EVERY = 3


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave two of three tests that ran without a pooler already to `make soak`."""
    numbers: Counter[Path] = Counter()
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and item.path.parent == FOLDER
            and item.function.__module__ != item.module.__name__
        ):
            if numbers[item.path] % SAMPLED_EVERY:
                item.add_marker(pytest.mark.soak)
            numbers[item.path] += 1


@pytest.fixture(scope="session")
def pooler_programs() -> Path:
    """Return the folder of PgBouncer's program."""
    programs = find_programs(PGBOUNCER, ROOT / ".tools")
    if programs.folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail(programs.reason)
        pytest.skip(programs.reason)
    return programs.folder


@pytest.fixture(scope="session")
def pooler(postgres: EmbeddedPostgres, pooler_programs: Path) -> Iterator[Pooler]:
    """Run a PgBouncer before the server of this session."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-pooler-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = Pooler(folder / "state", programs=pooler_programs, server=postgres)
        made.start()
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture
def committed_db(committed_db: str, pooler: Pooler) -> Iterator[str]:
    """Give the test a database of its own, which it reaches through the pooler."""
    reach_through(pooler)
    yield committed_db
    connections.close_all()


@pytest.fixture
def _django_db_helper(committed_db: str) -> str:
    """Let also tests that are content with a transaction commit each statement."""
    return committed_db


def reach_through(pooler: Pooler) -> None:
    """Point Django at a pooler; the database, the role and the password stay."""
    connections["default"].close()
    for reported in (settings.DATABASES["default"], connections["default"].settings_dict):
        reported["PORT"] = str(pooler.port)

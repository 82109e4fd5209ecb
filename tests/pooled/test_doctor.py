"""The doctor says which kind of pooler is between, and what does not work through it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connections

from config.doctor.database import check_pooler, check_server
from embedded.postgres import EmbeddedPostgres
from simulator.hosts.pooler import Pooler
from tests.pooled.conftest import reach_through


@pytest.fixture(params=["session", "statement"])
def mode(
    request: pytest.FixtureRequest,
    postgres: EmbeddedPostgres,
    pooler_programs: Path,
    committed_db: str,  # noqa: ARG001 - The database that is reached.
) -> Iterator[str]:
    """Reach the database through a pooler of another mode."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-pooler-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = Pooler(folder / "state", programs=pooler_programs, server=postgres)
        path = made.folder / "pgbouncer.ini"
        path.write_text(path.read_text().replace("= transaction", f"= {request.param}"))
        made.start()
        reach_through(made)
        yield request.param
        connections.close_all()
        made.stop()


@pytest.mark.usefixtures("committed_db")
def test_transaction_mode_is_well() -> None:
    (server,), (pooler,) = check_server(), check_pooler()

    assert (server.state, pooler.state) == ("ok", "ok")
    assert pooler.found.startswith("A pooler in transaction mode is between; only migrations")


def test_other_modes_are_named_with_what_does_not_work(mode: str) -> None:
    (pooler,) = check_pooler()

    expected = {"session": "warning", "statement": "problem"}
    assert pooler.state == expected[mode]
    assert pooler.found.startswith(f"A pooler in {mode} mode is between")
    assert pooler.remedy.startswith("Write pool_mode = transaction")

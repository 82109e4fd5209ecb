"""PostgreSQL's disk is full under workers and admission, and has space again."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from django.db import connections

from embedded.migrated import TEMPLATE, start_migrated
from embedded.postgres import EmbeddedPostgres
from embedded.postgres_data import SUPERUSER
from tests.conftest import ROOT, TEST_DATABASE, migrate, use_database
from tests.outages.load import Load

DISK = "400m"
FULL_SECONDS = 20
DATABASE = "gpu_ledger_full"


@pytest.fixture
def disk() -> Iterator[Path]:
    """Give a small disk of its own."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-disk-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder], check=True)
    folder.chmod(0o755)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)
    folder.rmdir()


@pytest.fixture
def small(
    postgres: EmbeddedPostgres,
    committed_db: str,  # noqa: ARG001 - It lets the test reach a database, and comes back to it.
    disk: Path,
) -> Iterator[EmbeddedPostgres]:
    """Run a durable server on the small disk, with a migrated database."""
    connections.close_all()
    server = EmbeddedPostgres(disk / "state")
    start_migrated(server, checkout=ROOT, migrate=lambda: migrate(server, TEMPLATE))
    url = server.url(role=SUPERUSER, database="postgres")
    with psycopg.connect(url, autocommit=True) as superuser:
        server.create_database(superuser, DATABASE, template=TEMPLATE)
    use_database(server, DATABASE)
    yield server
    connections.close_all()
    server.stop()
    use_database(postgres, TEST_DATABASE)


@pytest.mark.soak
def test_a_full_disk_stops_work_and_space_lets_it_go_on(
    small: EmbeddedPostgres, disk: Path
) -> None:
    ballast = disk / "ballast"
    with Load() as load:
        load.await_windows(2)
        end = time.monotonic() + FULL_SECONDS
        with ballast.open("ab", buffering=0) as file:
            while time.monotonic() < end:
                with suppress(OSError):
                    file.write(bytes(1_000_000))
                    continue
                time.sleep(0.05)
        errors, undecided, sealed = load.errors, load.undecided, len(load.admitted)
        ballast.unlink()
        assert small.process is not None
        has_ended = small.process.poll() is not None
        if has_ended:
            # A service manager starts it again.
            again = EmbeddedPostgres(small.folder, port=small.port)
            again.start()
            small.process = again.process
        load.await_windows()
        assert len(load.admitted) >= sealed

    load.check()
    assert errors + undecided > 0
    print(f"errors {errors}, undecided {undecided}, server ended {has_ended}")  # noqa: T201 - Figures of the run.

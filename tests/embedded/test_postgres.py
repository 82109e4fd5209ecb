"""The embedded PostgreSQL: started, killed, left behind, and mixed up with others."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from embedded.account import MOVED_TO
from embedded.ports import free_port
from embedded.postgres import APP, DATABASE, OWNER, EmbeddedPostgres
from embedded.postgres_data import SUPERUSER
from embedded.programs import EmbeddedServerError, command_of, wait_until


@pytest.fixture(scope="module")
def stopped() -> Iterator[Path]:
    """Give the folder of a server that has its roles and its database: making it takes a second."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    server = EmbeddedPostgres(folder / "postgres", is_durable=False)
    server.start()
    server.stop()
    yield server.folder
    shutil.rmtree(folder)


@pytest.fixture
def made(stopped: Path, state: Path) -> Path:
    """Give a copy of that folder, with its owner and modes."""
    return copy_of(stopped, state)


def copy_of(stopped: Path, state: Path) -> Path:
    subprocess.run(["cp", "-a", str(stopped), str(state / "postgres")], check=True)
    return state / "postgres"


def query(server: EmbeddedPostgres, statement: str, *, role: str = APP) -> list[tuple[object, ...]]:
    with psycopg.connect(server.url(role=role)) as connection:
        return connection.execute(statement.encode()).fetchall()


def write_row(server: EmbeddedPostgres) -> None:
    with psycopg.connect(server.url(role=OWNER)) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (42)")


def test_it_keeps_rows_over_a_stop_and_hides_its_passwords(state: Path) -> None:
    server = EmbeddedPostgres(state / "postgres")
    server.start()
    write_row(server)
    server.stop()
    server.start()

    assert query(server, "SELECT n FROM kept", role=OWNER) == [(42,)]
    assert (server.folder / "passwords.json").stat().st_mode & 0o777 == 0o600
    assert server.process is not None
    password = server.url(role=SUPERUSER).split(":")[2].split("@")[0]
    assert not any(password in word for word in command_of(server.process.pid))
    server.stop()
    assert server.process.returncode == 0


def test_the_runtime_role_owns_nothing_and_no_password_means_no_entry(made: Path) -> None:
    server = EmbeddedPostgres(made, is_durable=False)
    server.start()

    assert query(server, "SELECT count(*) FROM pg_tables WHERE tableowner = current_user") == [(0,)]
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"postgresql://{SUPERUSER}@127.0.0.1:{server.port}/{DATABASE}")
    server.stop()


def test_a_killed_postmaster_loses_no_row_and_starts_again_at_once(made: Path) -> None:
    server = EmbeddedPostgres(made, port=free_port())
    server.start()
    write_row(server)
    before = server.port
    assert server.process is not None

    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    assert wait_until(lambda: not server.is_ready(), timeout_seconds=10)
    server.start()

    assert server.port == before
    assert query(server, "SELECT n FROM kept", role=OWNER) == [(42,)]
    server.stop()


def test_a_server_left_behind_is_ended_before_the_next_start(made: Path) -> None:
    server = EmbeddedPostgres(made, is_durable=False)
    server.start()
    assert server.process is not None
    left = server.process.pid

    again = EmbeddedPostgres(made, is_durable=False)
    again.start()

    assert server.process.wait() == 0
    assert again.process is not None
    assert again.process.pid != left
    again.stop()


def test_two_checkouts_run_side_by_side(made: Path, stopped: Path, second_state: Path) -> None:
    one = EmbeddedPostgres(made, is_durable=False)
    two = EmbeddedPostgres(copy_of(stopped, second_state), is_durable=False)
    one.start()
    two.start()
    write_row(one)

    assert one.port != two.port
    assert query(two, "SELECT to_regclass('kept')::text", role=OWNER) == [(None,)]
    two.stop()
    assert query(one, "SELECT n FROM kept", role=OWNER) == [(42,)]
    one.stop()


def test_a_port_of_another_server_is_refused_and_never_used(
    made: Path, stopped: Path, second_state: Path
) -> None:
    one = EmbeddedPostgres(made, is_durable=False)
    one.start()
    other = copy_of(stopped, second_state)
    (other / "passwords.json").unlink()  # It makes passwords of its own.
    two = EmbeddedPostgres(other, is_durable=False, port=one.port)

    with pytest.raises(EmbeddedServerError):
        two.start()

    assert query(one, "SELECT 1") == [(1,)]
    one.stop()


def test_data_of_another_major_version_is_named_with_its_remedy(made: Path) -> None:
    server = EmbeddedPostgres(made, is_durable=False)
    server.start()
    server.stop()
    (server.data / "PG_VERSION").write_text("15\n")

    with pytest.raises(
        EmbeddedServerError, match=r"PostgreSQL 15, .* PostgreSQL 18\. .*make clean"
    ):
        server.start()


def test_a_cut_off_first_start_leaves_no_half_made_cluster(state: Path) -> None:
    server = EmbeddedPostgres(state / "postgres", is_durable=False)
    (server.folder / "data.partial").mkdir()
    (server.folder / "data.partial" / "PG_VERSION").write_text("18\n")

    server.start()

    assert query(server, "SELECT 1") == [(1,)]
    assert not (server.folder / "data.partial").exists()
    server.stop()


def test_it_runs_below_a_closed_home(state: Path) -> None:
    home = state / "home"
    home.mkdir(mode=0o700)
    server = EmbeddedPostgres(home / "checkout" / "var" / "postgres", is_durable=False)

    server.start()

    assert query(server, "SELECT 1") == [(1,)]
    assert home.stat().st_mode & 0o777 == 0o700
    pointer = home / "checkout" / "var" / "postgres" / MOVED_TO
    assert pointer.exists() is (os.geteuid() == 0)
    server.stop()


def test_a_path_too_long_for_a_socket_does_not_matter(state: Path) -> None:
    server = EmbeddedPostgres(state / ("deep-" * 30) / "postgres", is_durable=False)

    server.start()

    assert query(server, "SHOW unix_socket_directories", role=SUPERUSER) == [("",)]
    server.stop()


def test_it_ends_with_the_process_that_started_it(made: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path;"
        "from embedded.postgres import EmbeddedPostgres;"
        "s = EmbeddedPostgres(Path(sys.argv[1]), is_durable=False); s.start();"
        "print(s.process.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(made)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    postmaster = int(parent.stdout.readline())

    parent.kill()
    parent.wait()
    parent.stdout.close()

    assert wait_until(lambda: command_of(postmaster) == (), timeout_seconds=15)

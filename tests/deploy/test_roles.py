"""The database container's first start: init.sh and roles.sql, run by a real psql."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from config.monitoring.health import TIMEOUTS
from embedded.ports import free_port
from embedded.postgres import (
    APP,
    DATABASE,
    OWNER,
    RUNTIME,
    EmbeddedPostgres,
    binary_folder,
)
from embedded.postgres_data import SUPERUSER
from embedded.programs import start_program, stop_program, wait_until
from tests.deploy.files import ROOT

AWKWARD = 'it\'s $HOME "quoted" \\ and : @ spaced'
ROLES = (
    "SELECT rolname, rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolconfig"
    " FROM pg_roles WHERE rolname LIKE 'gpu_ledger%' ORDER BY rolname"
)
MEMBERS = (
    "SELECT r.rolname, m.rolname FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid"
    " JOIN pg_roles m ON m.oid = a.member WHERE r.rolname LIKE 'gpu_ledger%'"
)
DATABASES = (
    "SELECT datname, pg_get_userbyid(datdba), datacl::text FROM pg_database"
    " WHERE datname LIKE 'gpu_ledger%'"
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Give a folder that a server of another account reaches."""
    found = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[EmbeddedPostgres]:
    """Give a server as the container has it: init.sh has run where no role of ours was."""
    bare = EmbeddedPostgres(folder / "bare", is_durable=False, port=free_port())
    program = bare.prepare()
    process = start_program(program)
    assert wait_until(bare.is_ready, timeout_seconds=30)
    assert facts(bare) == [[], [], []]
    done = run_init(bare, folder)
    assert done.returncode == 0, done.stderr
    yield bare
    stop_program(process, program)


def facts(server: EmbeddedPostgres) -> list[list[tuple[object, ...]]]:
    with psycopg.connect(server.url(role=SUPERUSER, database="postgres")) as connection:
        return [connection.execute(q.encode()).fetchall() for q in (ROLES, MEMBERS, DATABASES)]


def run_init(server: EmbeddedPostgres, folder: Path) -> subprocess.CompletedProcess[str]:
    for name in ("owner", "app"):
        (folder / name).write_text(f"{name} {AWKWARD}\n")
    password = server.url(role=SUPERUSER).split(":")[2].split("@")[0]
    return subprocess.run(
        ["sh", str(ROOT / "deploy" / "postgres" / "init.sh")],
        env={
            **os.environ,
            "PATH": f"{binary_folder() / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(server.port),
            "PGPASSWORD": password,
            "OWNER_PASSWORD_FILE": str(folder / "owner"),
            "APP_PASSWORD_FILE": str(folder / "app"),
            "ROLES_SQL": str(ROOT / "deploy" / "postgres" / "roles.sql"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_container_makes_the_same_roles_as_the_embedded_server(
    server: EmbeddedPostgres, folder: Path
) -> None:
    made = facts(server)

    assert [row[0] for row in made[0]] == [APP, OWNER, RUNTIME]
    assert made[0][0][-1] == [f"{name}={value}" for name, value in TIMEOUTS.items()]
    server.make_roles()
    assert facts(server) == made
    embedded = EmbeddedPostgres(folder / "embedded", is_durable=False)
    embedded.start()
    assert facts(embedded) == made
    embedded.stop()


def test_passwords_are_quoted_whatever_is_in_them(server: EmbeddedPostgres) -> None:
    for role, name in ((OWNER, "owner"), (APP, "app")):
        with psycopg.connect(
            host="127.0.0.1",
            port=server.port,
            user=role,
            dbname=DATABASE,
            password=f"{name} {AWKWARD}",
        ) as connection:
            assert connection.execute("SELECT current_user").fetchone() == (role,)


def test_a_second_run_fails_and_changes_nothing(server: EmbeddedPostgres, folder: Path) -> None:
    before = facts(server)

    done = run_init(server, folder)

    assert done.returncode == 3
    assert "already exists" in done.stderr
    assert facts(server) == before

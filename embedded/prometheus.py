"""An embedded Prometheus: a real one, on a free port of 127.0.0.1, with its state in one folder.

It keeps 400 days, takes a finished history from OpenMetrics text through `promtool`, and scrapes
what its configuration names from then on.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import requests

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
    log_tail,
    marked_processes,
    start_program,
    stop_program,
    wait_until,
)
from embedded.prometheus_programs import PROGRAM, TOOL

START_TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 30
IMPORT_TIMEOUT_SECONDS = 600
ANSWER_TIMEOUT_SECONDS = 2
RETENTION = "400d"
"""Prometheus deletes blocks older than its retention, imported ones too."""
BLOCK_DURATION = "162h"
"""Imported blocks are as long as blocks get, so that none is compacted again in the background."""


class EmbeddedPrometheus:
    """One Prometheus whose state lives in one folder; start and stop it as often as wanted.

    On Linux it ends when the thread that called `start` ends.

    Args:
        folder: Where the state should be.
        programs: The folder that holds `prometheus` and `promtool`.
        scrape_configs: Its `scrape_configs`, as in prometheus.yml.
        address: Where it listens and is reached.
        port: The port to listen on; 0 for a free one at each start.
        log: Its log file; beside the data by default.
        mark: The stack it belongs to; its own folder without a stack.
        samples_max: How many samples one query may load; None for Prometheus' own limit.
    """

    name = "prometheus"

    def __init__(  # noqa: PLR0913 - Each is a setting of one server.
        self,
        folder: Path,
        *,
        programs: Path,
        scrape_configs: Sequence[dict[str, object]] = (),
        address: str = LOOPBACK,
        port: int = 0,
        log: Path | None = None,
        mark: Path | None = None,
        samples_max: int | None = None,
    ) -> None:
        """Set account and paths; nothing is started yet."""
        self.samples_max = samples_max
        self.account: ServerAccount = server_account()
        self.folder = state_folder(self.account, folder.absolute())
        self.data = self.folder / "data"
        self.log = log or self.folder / "prometheus.log"
        self.mark = mark or self.folder
        self.address = address
        self.port = port
        self.scrape_configs = list(scrape_configs)
        self.process: subprocess.Popen[bytes] | None = None
        self._is_port_given = port != 0
        self._configuration = self.folder / "prometheus.yml"
        self._binaries = reachable_binaries(
            self.account, programs, program=PROGRAM, state=self.folder
        )

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
                f"Prometheus did not start; see {self.log}:\n{log_tail(self.log)}"
            )

    def stop(self) -> None:
        """Stop the server and wait for its end; nothing happens when it does not run."""
        if self.process is not None:
            stop_program(self.process, self._program())

    def prepare(self) -> Program:
        """End a stale server, write the configuration, and return how to start it."""
        self._end_stale_server()
        self._own_folder(self.data)
        # JSON is YAML.
        text = json.dumps({"scrape_configs": self.scrape_configs}, indent=2)
        partial = self._configuration.with_suffix(".partial")
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self._configuration)
        return self._program()

    def is_ready(self) -> bool:
        """Whether the server answers, and is the one that runs on our folder."""
        try:
            ready = requests.get(f"{self.url()}/-/ready", timeout=ANSWER_TIMEOUT_SECONDS)
            flags = requests.get(
                f"{self.url()}/api/v1/status/flags", timeout=ANSWER_TIMEOUT_SECONDS
            )
        except requests.RequestException:
            return False
        if not ready.ok or not flags.ok:
            return False
        return bool(flags.json()["data"].get("storage.tsdb.path") == str(self.data))

    def url(self) -> str:
        """Return the base URL of the server."""
        return f"http://{self.address}:{self.port}"

    def has_imported(self, name: str) -> bool:
        """Whether a text of this name was imported completely, now or before a restart."""
        return self._receipt(name).exists()

    def import_openmetrics(self, text: Path, *, name: str) -> None:
        """Convert an OpenMetrics text into TSDB blocks; best before the server starts.

        The blocks are made beside the data and moved in, so that a crash leaves none half-made. A
        name that was imported before is not imported again.

        Args:
            text: The file, ending with `# EOF`; the server's account must be able to read it.
            name: What to remember the import by, such as "2026-10-01".

        Raises:
            EmbeddedServerError: promtool refused the text.
        """
        if self.has_imported(name):
            return
        partial = self.folder / f"import-{name}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        self._own_folder(partial)
        self._run_tool(text, partial, name)
        self._own_folder(self.data)
        for block in sorted(partial.iterdir()):
            block.rename(self.data / block.name)
        partial.rmdir()
        self._receipt(name).touch()

    def _run_tool(self, text: Path, target: Path, name: str) -> None:
        program = Program(
            name=TOOL,
            command=(
                str(self._binaries / TOOL),
                *("tsdb", "create-blocks-from", "openmetrics", "--quiet"),
                f"--max-block-duration={BLOCK_DURATION}",
                *(str(text), str(target)),
            ),
            log=self.folder / f"import-{name}.log",
            state=self.mark,
            # A larger heap between collections: a quarter less time.
            environment={**ENVIRONMENT, "GOGC": "400"},
            account=self.account,
            escalation=(signal.SIGKILL,),
        )
        process = start_program(program)
        try:
            status = process.wait(IMPORT_TIMEOUT_SECONDS)
        finally:
            stop_program(process, program)
        if status != 0:
            raise EmbeddedServerError(f"promtool refused {text}:\n{log_tail(program.log)}")
        program.log.unlink(missing_ok=True)

    def _receipt(self, name: str) -> Path:
        return self.folder / f"imported-{name}"

    def _own_folder(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        self.account.own(path)

    def _program(self) -> Program:
        return Program(
            name=self.name,
            command=(
                str(self._binaries / PROGRAM),
                f"--config.file={self._configuration}",
                f"--storage.tsdb.path={self.data}",
                f"--storage.tsdb.retention.time={RETENTION}",
                f"--storage.tsdb.max-block-duration={BLOCK_DURATION}",
                f"--web.listen-address={self.address}:{self.port}",
                "--log.level=warn",
                *([f"--query.max-samples={self.samples_max}"] if self.samples_max else ()),
            ),
            log=self.log,
            state=self.mark,
            environment=ENVIRONMENT,
            account=self.account,
            escalation=(signal.SIGTERM,),
            stop_timeout_seconds=STOP_TIMEOUT_SECONDS,
        )

    def _end_stale_server(self) -> None:
        """End a server that a killed starter left behind on this very data folder."""

        def stale() -> list[int]:
            return [pid for pid in marked_processes(self.mark) if self._is_ours(pid)]

        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in stale():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            if wait_until(lambda: not stale(), timeout_seconds=STOP_TIMEOUT_SECONDS):
                return

    def _is_ours(self, pid: int) -> bool:
        return f"--storage.tsdb.path={self.data}" in command_of(pid)

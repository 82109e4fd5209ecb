"""A real VictoriaMetrics that holds a scenario's history, for as long as a test wants it."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path

import requests

from embedded.account import ENVIRONMENT, reachable_binaries, server_account, state_folder
from embedded.ports import free_port
from embedded.programs import (
    EmbeddedServerError,
    Program,
    log_tail,
    start_program,
    stop_program,
    wait_until,
)
from simulator.cluster.exporters.openmetrics import HistoryWriter, history_slices
from simulator.cluster.scenario import Scenario

PROGRAM = "victoria-metrics"
START_SECONDS_MAX = 60
VISIBLE_SECONDS_MAX = 30
_SECONDS = re.compile(rb" (\d{10})\n")


@contextmanager
def victoria_metrics(
    folder: Path, programs: Path, scenario: Scenario, *, begin_at: datetime, until: datetime
) -> Iterator[str]:
    """Start a server with the history of [begin_at, until) and yield its base URL."""
    account = server_account()
    state = state_folder(account, folder.absolute())
    binaries = reachable_binaries(account, programs, program=PROGRAM, state=state)
    port = free_port()
    program = Program(
        name=PROGRAM,
        command=(
            str(binaries / PROGRAM),
            f"-storageDataPath={state / 'data'}",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=100y",
            "-search.disableCache",
        ),
        log=state / "victoria-metrics.log",
        state=state,
        environment=ENVIRONMENT,
        account=account,
    )
    (state / "data").mkdir()
    account.own(state / "data")
    url = f"http://127.0.0.1:{port}"
    process = start_program(program)
    try:
        if not wait_until(lambda: _is_ready(url), timeout_seconds=START_SECONDS_MAX):
            raise EmbeddedServerError(log_tail(program.log))
        _import(url, scenario, begin_at=begin_at, until=until)
        yield url
    finally:
        stop_program(process, program)


def _is_ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=2).ok
    except requests.RequestException:
        return False


def _import(url: str, scenario: Scenario, *, begin_at: datetime, until: datetime) -> None:
    """Send the history; VictoriaMetrics takes Prometheus' text with milliseconds."""
    writer = HistoryWriter(scenario)
    for part in history_slices(begin_at, until):
        out = BytesIO()
        writer.write(part, out)
        text = _SECONDS.sub(rb" \g<1>000\n", out.getvalue())
        requests.post(f"{url}/api/v1/import/prometheus", data=text, timeout=60).raise_for_status()
    requests.get(f"{url}/internal/force_flush", timeout=30).raise_for_status()
    last = f"last_over_time(up[{int((until - begin_at).total_seconds())}s])"
    give_up_at = time.monotonic() + VISIBLE_SECONDS_MAX
    while time.monotonic() < give_up_at:
        found = requests.get(
            f"{url}/api/v1/query",
            params={"query": last, "time": str(int(until.timestamp()))},
            timeout=10,
        )
        if found.ok and found.json()["data"]["result"]:
            return
    raise EmbeddedServerError("VictoriaMetrics shows nothing of what it was given.")

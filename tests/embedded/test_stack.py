"""The whole stack with real processes: every child killed, the supervisor killed, two at once."""

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psycopg
import pytest

from config.celery import app
from embedded import stack as stack_module
from embedded.handover import read_handover
from embedded.ports import free_port
from embedded.programs import (
    EmbeddedServerError,
    Program,
    marked_processes,
    start_program,
    wait_until,
)
from embedded.stack import Stack
from embedded.supervisor import Service

DRIVER = "tests.support.embedded.drive_stack"
CHILDREN = ["postgres", "valkey", "worker", "short-worker", "beat", "web"]
START_SECONDS = 120
BACK_SECONDS = 60


class Listed(Stack):
    """A stack that lists what it would start."""

    def __init__(self, state: Path) -> None:
        """Nothing is listed yet."""
        super().__init__(state, outside={})
        self.programs: list[Program] = []

    def start(self, service: Service | Program) -> None:
        """List a program."""
        assert isinstance(service, Program)
        self.programs.append(service)


def test_the_short_worker_has_a_process_for_each_kind_of_work_that_may_block(
    tmp_path: Path,
) -> None:
    stack = Listed(tmp_path)

    stack.start_workers(processes=1)

    short = [name for name, route in app.conf.task_routes.items() if route["queue"] == "short"]
    (command,) = [one.command for one in stack.programs if one.name == "short-worker"]
    assert command[command.index("-c") + 1] == str(len(short))
    assert command[command.index("-Q") + 1] == "short"


@dataclass
class Running:
    """A stack in a process of its own."""

    process: subprocess.Popen[str]
    web_url: str
    database_url: str

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        status = self.process.wait(90)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


def start(state: Path, environment: dict[str, str], *, part: str) -> Running:
    process = subprocess.Popen(
        [sys.executable, "-m", DRIVER, str(state), part],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    words = process.stdout.readline().split()
    assert words[:1] == ["READY"]
    return Running(process, web_url=words[1], database_url=words[2])


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - Our own server.
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def pids(state: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((state / "pids.json").read_text())
    return found


def is_another(state: Path, name: str, before: int) -> bool:
    return pids(state).get(name, before) != before


def metrics_port(state: Path) -> int:
    return int(json.loads((state / "ports.json").read_text("utf-8"))["metrics"])


def count_migrations(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM django_migrations").fetchone()
    assert found is not None
    return int(found[0])


@pytest.fixture
def second(second_state: Path, bare_environment: dict[str, str]) -> Iterator[Running]:
    """Give the data stores of a second checkout, running at the same time."""
    running = start(second_state, bare_environment, part="datastores")
    yield running
    assert running.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert marked_processes(second_state) == ()


@pytest.mark.soak
@pytest.mark.seconds(120)
def test_the_whole_stack_outlives_every_kill_beside_another(
    state: Path, second: Running, bare_environment: dict[str, str]
) -> None:
    first = start(state, bare_environment, part="whole")
    assert [name for name in pids(state) if name != "supervisor"] == CHILDREN
    assert first.database_url != second.database_url
    migrations = count_migrations(first.database_url)
    assert migrations > 20
    assert fetch(f"{first.web_url}/readyz")[0] == 200
    assert fetch(f"{first.web_url}/static/unfold/css/styles.css")[0] == 200
    assert fetch(f"{first.web_url}/static/admin/css/base.css")[0] == 200
    # This needs static files that no app of ours keeps: the API's page.
    swagger = "drf_spectacular_sidecar/swagger-ui-dist/swagger-ui.css"
    assert fetch(f"{first.web_url}/static/{swagger}")[0] == 200
    assert 'route="healthz"' in fetch(f"http://127.0.0.1:{metrics_port(state)}/metrics")[1]

    for name in CHILDREN:
        before = pids(state)
        os.kill(before[name], signal.SIGKILL)
        assert wait_until(
            partial(is_another, state, name, before[name]), timeout_seconds=BACK_SECONDS
        ), name
        assert wait_until(
            lambda: fetch(f"{first.web_url}/readyz")[0] == 200, timeout_seconds=BACK_SECONDS
        ), name
    assert count_migrations(first.database_url) == migrations

    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    again = start(state, bare_environment, part="whole")
    assert again.database_url == first.database_url
    assert again.web_url == first.web_url
    assert count_migrations(again.database_url) == migrations
    assert read_handover(state)["DATABASE_URL"] == again.database_url
    assert "gpu_ledger_owner:" in (state / "database_owner_url").read_text()

    assert again.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert marked_processes(state) == ()
    assert read_handover(state) == {}
    assert not (state / "database_owner_url").exists()
    assert fetch(f"{again.web_url}/healthz")[0] == 0
    assert was_never_migrated(second.database_url)


def was_never_migrated(url: str) -> bool:
    """Whether the database answers without tables: the other checkout is untouched."""
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT to_regclass('django_migrations')").fetchone()
    return found == (None,)


def test_urls_from_outside_replace_the_embedded_servers(state: Path) -> None:
    outside = {
        "DATABASE_URL": "postgresql://app:x@db.example/gpu_ledger",
        "DATABASE_OWNER_URL": "postgresql://owner:x@db.example/gpu_ledger",
        "REDIS_URL": "redis://queue.example:6379/0",
        "PORT": str(free_port()),
    }

    with Stack(state, outside=outside) as stack:
        environment = stack.start_datastores()

        assert stack.supervisor.pids() == {}
    del outside["DATABASE_OWNER_URL"]
    assert environment.pop("METRICS_PORT").isdigit()
    assert environment == {**outside, "PUBLIC_URL": f"http://127.0.0.1:{outside['PORT']}"}
    assert not (state / "postgres").exists()


def test_only_migrations_get_the_owners_database_and_logs_are_the_owners(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: the web server's own environment, which named who may switch triggers off."""
    outside = {
        "DATABASE_URL": "postgresql://app:x@db.example/gpu_ledger",
        "DATABASE_OWNER_URL": "postgresql://owner:x@db.example/gpu_ledger",
        "REDIS_URL": "redis://queue.example:6379/0",
    }
    begun: list[Program] = []
    with Stack(state, outside=outside) as stack:
        stack.start_datastores()
        web = stack.python_program("web", "manage.py", "serve")
        handed_over = read_handover(state)
        monkeypatch.setattr(stack_module, "start_program", begun.append)
        stack.begin_command("migrate", further=stack._owner)  # noqa: SLF001 - As migrate does.
    monkeypatch.undo()
    start_program(replace(web, command=("true",), cwd=state)).wait()

    assert "owner" not in " ".join(web.environment.values())
    assert "DATABASE_OWNER_URL" not in handed_over
    assert not (state / "database_owner_url").exists()
    assert begun[0].environment["DATABASE_OWNER_URL"] == outside["DATABASE_OWNER_URL"]
    assert stat.S_IMODE(web.log.stat().st_mode) == 0o600


def test_a_database_without_its_owner_is_refused_by_name(state: Path) -> None:
    outside = {"DATABASE_URL": "postgresql://app:x@db.example/gpu_ledger"}

    with Stack(state, outside=outside) as stack:
        with pytest.raises(EmbeddedServerError, match="DATABASE_OWNER_URL is missing"):
            stack.start_datastores()
        assert stack.supervisor.pids() == {}


def test_a_failed_command_is_reported_with_its_log(
    state: Path, bare_environment: dict[str, str]
) -> None:
    with (
        Stack(state, outside=bare_environment) as stack,
        pytest.raises(EmbeddedServerError, match="Unknown command: 'no_such_command'"),
    ):
        stack.run_command("no_such_command")


@pytest.mark.soak
def test_commands_compile_once_where_no_bytecode_may_lie_beside_the_modules(
    state: Path, bare_environment: dict[str, str]
) -> None:
    outside = {**bare_environment, "PYTHONDONTWRITEBYTECODE": "1"}

    with Stack(state, outside=outside) as stack:
        stack.run_command("version")

    assert list((state / "bytecode").glob("**/config/settings/base.*.pyc"))

"""The hosts and what runs on each: PostgreSQL with PgBouncer, Valkey, Prometheus, workers, web."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from embedded.debian_programs import Programs, find_programs
from embedded.migrated import start_with_tables
from embedded.ports import free_port
from embedded.postgres import EmbeddedPostgres
from embedded.programs import (
    EmbeddedServerError,
    Program,
    start_program,
    stop_program,
    wait_until,
)
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus
from embedded.stack import ROOT
from simulator.hosts.brokers import Broker
from simulator.hosts.networks import Network
from simulator.hosts.pooler import PGBOUNCER, Pooler

DATABASE: Final = "database"
BROKER: Final = "broker"
REPLICA: Final = "broker-replica"
WORKERS: Final = ("worker-1", "worker-2", "worker-3")
BEATS: Final = WORKERS[:2]
WEBS: Final = ("web-1", "web-2")
DOMAIN: Final = ".test"
POOL_SIZE: Final = 40
"""More than the processes of all workers, and the requests that are answered at once."""
END_SECONDS_MAX: Final = 20
CELERY: Final = ("celery", "-A", "config")
QUIET: Final = ("--loglevel", "INFO", "--without-gossip", "--without-mingle")


class Server(Protocol):
    """What can be started on a host, again and again."""

    process: subprocess.Popen[bytes] | None

    def start(self) -> None:
        """Start it."""
        ...

    def stop(self) -> None:
        """End it, and wait."""
        ...


class PythonProgram:
    """A program of this checkout on a host.

    Args:
        program: How it is started.
    """

    def __init__(self, program: Program) -> None:
        """Keep it; nothing is started yet."""
        self.program = program
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, without waiting for an answer."""
        self.process = start_program(self.program)

    def stop(self) -> None:
        """End it, and wait."""
        if self.process is not None:
            stop_program(self.process, self.program)


@dataclass
class Host:
    """One host: its own address, and its servers in the order of their start."""

    name: str
    address: str
    folder: Path
    servers: list[Server] = field(default_factory=list)

    def log(self, name: str) -> Path:
        """Return where a server of ours writes."""
        return self.folder / "log" / f"{name}.log"


class Site:
    """All hosts of a run, and the network between them.

    Args:
        folder: For all state.
        network: Joins the hosts.
        clusters: Slugs; each gets a host with its Prometheus.
        histories: For what every Prometheus holds.
        processes: Of each worker that meters.
        has_sentinels: Whether the broker has a replica, which sentinels on the worker hosts promote
            when the primary is lost.
    """

    def __init__(
        self,
        folder: Path,
        *,
        network: Network,
        clusters: Sequence[str],
        histories: Path,
        processes: int,
        has_sentinels: bool,
    ) -> None:
        """Make the hosts; nothing runs yet.

        Raises:
            EmbeddedServerError: PgBouncer or Prometheus is missing.
        """
        self.network = network
        self._folder = folder
        self._processes = processes
        self.prometheus_of = {slug: f"prometheus-{slug}" for slug in clusters}
        brokers = (BROKER, REPLICA) if has_sentinels else (BROKER,)
        names = (DATABASE, *brokers, *WORKERS, *WEBS, *self.prometheus_of.values())
        self.hosts = {name: self._host(name) for name in names}
        database = self.hosts[DATABASE]
        self.postgres = EmbeddedPostgres(
            database.folder / "postgres",
            address=database.address,
            port=free_port(),
        )
        places = {name: (host.folder, host.address) for name, host in self.hosts.items()}
        self.broker = Broker(
            {name: places[name] for name in brokers},
            watchers={name: places[name] for name in WORKERS} if has_sentinels else {},
        )
        self._prometheus_port = free_port()
        # Inside a namespace nothing could be fetched any more.
        self._pooler_programs = _folder_of(find_programs(PGBOUNCER, ROOT / ".tools"))
        programs = _folder_of(find_prometheus(ROOT / ".tools"))
        self.prometheus = {
            slug: EmbeddedPrometheus(
                histories / slug,
                programs=programs,
                address=self.hosts[name].address,
                port=self._prometheus_port,
            )
            for slug, name in self.prometheus_of.items()
        }
        self.environment: dict[str, str] = {}

    def prometheus_url(self, slug: str) -> str:
        """Return the URL of a cluster's Prometheus, whose name each host resolves by itself."""
        return f"http://{self.prometheus_of[slug]}{DOMAIN}:{self._prometheus_port}"

    def start_servers(self) -> None:
        """Start database, broker and every Prometheus; their histories have been imported."""
        with self.network.inside(DATABASE):
            start_with_tables(self.postgres, checkout=ROOT)
            pooler = self._start_pooler()
        self.hosts[DATABASE].servers = [self.postgres, pooler]
        for name, server in self.broker.servers.items():
            self.hosts[name].servers = [server]
        for slug, name in self.prometheus_of.items():
            self.hosts[name].servers = [self.prometheus[slug]]
        for name in (*self.broker.servers, *self.prometheus_of.values()):
            self._start(self.hosts[name])
        self.environment = {
            **_OUTSIDE,
            "DATABASE_URL": _placed(self.postgres.url(), self.postgres.address, pooler.port),
            **self.broker.variables(),
            "CLUSTER_SECRETS_DIR": str(self._folder),
        }

    def start_product(self) -> None:
        """Start workers, beats and web servers, each host with addresses of its own."""
        for name in WORKERS:
            host, environment = self.hosts[name], self._joined(name, is_metering=True)
            count = str(self._processes)
            started = [
                self._python(host, environment, "worker", "-Q", "celery,metering", "-c", count),
                self._python(host, environment, "short-worker", "-Q", "short", "-c", "1"),
            ]
            if name in BEATS:
                started.append(self._beat(host, environment))
            self._start(host, started)
            host.servers += started
        for name in WEBS:
            host = self.hosts[name]
            port = free_port()
            environment = self._joined(name, is_metering=False)
            environment |= {"METRICS_PORT": str(free_port()), "PORT": str(port)}
            bind = ("--bind", f"{host.address}:{port}", "--metrics-address", host.address)
            command = (sys.executable, "manage.py", "serve", *bind, "--workers", "1")
            host.servers = [self._program(host, environment, "web", *command)]
            self._start(host)

    def web_urls(self) -> list[str]:
        """Return where the web servers answer."""
        return [
            f"http://{self.hosts[name].address}:{server.program.environment['PORT']}"
            for name in WEBS
            for server in self.hosts[name].servers
            if isinstance(server, PythonProgram)
        ]

    def kill(self, name: str) -> None:
        """Cut a host off and kill all its processes."""
        self.network.power_off(name)
        pids = [
            pid
            for server in self.hosts[name].servers
            if server.process is not None
            for pid in descendants(server.process.pid)
        ]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for server in self.hosts[name].servers:
            server.stop()
        wait_until(lambda: not any(map(_exists, pids)), timeout_seconds=END_SECONDS_MAX)

    def restart(self, name: str) -> None:
        """Join a killed host again and start its servers."""
        self.network.power_on(name)
        self._start(self.hosts[name])

    def close(self) -> None:
        """End everything, and remove the network."""
        for host in reversed(self.hosts.values()):
            for server in reversed(host.servers):
                server.stop()
        self.network.close()

    def _host(self, name: str) -> Host:
        folder = self._folder / name
        folder.mkdir(mode=0o755)
        return Host(name, self.network.add(name), folder)

    def _start(self, host: Host, servers: Sequence[Server] | None = None) -> None:
        """Start some servers of a host; all of them by default."""
        with self.network.inside(host.name):
            for server in host.servers if servers is None else servers:
                server.start()

    def _start_pooler(self) -> Pooler:
        pooler = Pooler(
            self.hosts[DATABASE].folder / "pgbouncer",
            programs=self._pooler_programs,
            server=self.postgres,
            pool_size=POOL_SIZE,
        )
        pooler.start()
        return pooler

    def _joined(self, name: str, *, is_metering: bool) -> dict[str, str]:
        """Return the environment of a host: where it reaches database and broker."""
        url = self.environment["DATABASE_URL"]
        port = int(url.rpartition(":")[2].partition("/")[0])
        urls = {"DATABASE_URL": _placed(url, self.network.join(name, DATABASE, port), port)}
        broker, links = self.broker.joined(self.network, name)
        urls |= broker
        if is_metering:
            names = {
                f"{target}{DOMAIN}": self.network.join(name, target, self._prometheus_port)
                for target in self.prometheus_of.values()
            }
            urls["HOST_NAMES"] = json.dumps(names | links)
        return {**self.environment, **urls}

    def _python(
        self, host: Host, environment: Mapping[str, str], name: str, *arguments: str
    ) -> PythonProgram:
        own = ("-n", f"{name}@{host.name}", *arguments)
        return self._celery(host, environment, name, "worker", *own, *QUIET)

    def _beat(self, host: Host, environment: Mapping[str, str]) -> PythonProgram:
        schedule = str(host.folder / "beat-schedule")
        return self._celery(host, environment, "beat", "beat", "-s", schedule, "--pidfile=")

    def _celery(
        self, host: Host, environment: Mapping[str, str], name: str, *arguments: str
    ) -> PythonProgram:
        named = ("-m", "simulator.hosts.named", environment["HOST_NAMES"], *CELERY)
        return self._program(host, environment, name, sys.executable, *named, *arguments)

    def _program(
        self, host: Host, environment: Mapping[str, str], name: str, *command: str
    ) -> PythonProgram:
        return PythonProgram(
            Program(
                name=name,
                command=command,
                log=host.log(name),
                state=host.folder,
                environment={
                    **environment,
                    "PROMETHEUS_MULTIPROC_DIR": str(host.folder / f"metrics-{name}"),
                },
                cwd=ROOT,
                escalation=(signal.SIGKILL,),
            )
        )


_OUTSIDE: Final = {
    "DJANGO_SETTINGS_MODULE": "config.settings.development",
    "LOG_LEVEL": "INFO",
    "ALLOWED_HOSTS": "*",
    "USAGE_SOURCE": "prometheus",
    "QUOTA_ENFORCER": "simulated",
    "WORKLOAD_EVICTOR": "simulated",
    # An old month is due as a whole; rechecks would ask for each of its hours once more.
    "RECHECK_RETENTION_SECONDS": "86400",
    "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.defpath)),
    "PYTHONUNBUFFERED": "1",
    "HOME": os.environ.get("HOME", "/"),
}


def descendants(pid: int) -> list[int]:
    """Return a process and all that it started, the first before those that it started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))

    def walk(parent: int) -> Iterator[int]:
        yield parent
        for child in children.get(parent, []):
            yield from walk(child)

    return list(walk(pid))


def _exists(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _placed(url: str, address: str, port: int) -> str:
    """Return a URL with another address and port."""
    head, _, rest = url.rpartition("@")
    return f"{head}@{address}:{port}/{rest.partition('/')[2]}"


def _folder_of(programs: Programs) -> Path:
    if programs.folder is None:
        raise EmbeddedServerError(programs.reason)
    return programs.folder

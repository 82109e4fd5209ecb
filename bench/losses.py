"""Stop one component for a minute: is too much admitted, and does the system recover alone.

The load on a simulated cluster always requests more than the limits allow. Valkey, the workers, the
watcher and PostgreSQL are killed one after another and stay down for a minute; PostgreSQL once more
with `admission_on_failure` "allow", where only the namespaces' ResourceQuotas limit pods. Live pods
in the cluster are counted 20 times a second.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from bench.harness import ROOT, Bound, Figure, invariant, measurement
from bench.losses_load import ORGANIZATION_UNITS, PROJECT_UNITS, Load

AWAY_SECONDS: Final = 60
STEADY_SECONDS: Final = 15
REPAIR_SECONDS_MAX: Final = 90
WAIT_SECONDS: Final = 90
TTL_SECONDS: Final = 20
"""Shorter than the loss, so that what the watcher could not see would expire in it."""
PASSWORD: Final = "bench"  # noqa: S105 - Of test users deleted after some minutes.


def run() -> Iterator[Figure]:
    """Lose one part after another."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-losses-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe()
        cluster = fork.Process(target=_serve, args=(folder, theirs), daemon=True)
        cluster.start()
        assert ours.poll(WAIT_SECONDS), "The cluster does not start."
        api_url = ours.recv()
        site = stack.enter_context(_site(folder, api_url))
        _say(ours, "begin")
        time.sleep(STEADY_SECONDS)
        yield from _figures(site, ours)
        ours.send("end")
        cluster.join()


def _figures(site: "_Site", load: Connection) -> Iterator[Figure]:
    began = _ask(load)
    assert min(began["admitted"], began["refused"]) > 0, f"The limits are not reached: {began}"
    for name in ("valkey", "worker", "watcher", "postgres"):
        yield from _lose(site, load, name, f"losses.{name}", over_max=0)
    site.answer_while_away("allow")
    time.sleep(STEADY_SECONDS)
    # Under "allow", ResourceQuotas still enforce each project's limit, but not the sum.
    quota_caps = sum(PROJECT_UNITS.values()) - ORGANIZATION_UNITS
    yield from _lose(site, load, "postgres", "losses.postgres_unasked", over_max=quota_caps)


def _lose(
    site: "_Site", load: Connection, name: str, label: str, *, over_max: int
) -> Iterator[Figure]:
    """Kill one component, restart it after a while, and wait until all is stable."""
    _say(load, "count")
    site.kill(name)
    time.sleep(AWAY_SECONDS)
    site.start(name)
    back = time.monotonic()
    time.sleep(STEADY_SECONDS)
    reported = _ask(load)
    _say(load, "pause")
    _wait(lambda: site.counted() == _ask(load)["live"], f"counters after {name}")
    repaired = time.monotonic() - back
    _say(load, "begin")
    time.sleep(STEADY_SECONDS)
    yield invariant(f"{label}.over_admitted", reported["over"], "units", over_max, Bound.AT_MOST)
    seconds = Decimal(str(round(repaired, 3)))
    yield invariant(f"{label}.repaired", seconds, "s", REPAIR_SECONDS_MAX, Bound.AT_MOST)
    yield measurement(f"{label}.admitted_meanwhile", reported["admitted"], "pods")


class _Site:
    """The service with its own database and broker; each component can be killed and started."""

    def __init__(
        self, folder: Path, environment: Mapping[str, str], servers: Mapping[str, Any]
    ) -> None:
        """Nothing is started yet."""
        self._folder = folder
        self._environment = dict(environment)
        self._servers = servers
        self._processes: dict[str, list[subprocess.Popen[bytes]]] = {}
        self.commands: dict[str, tuple[tuple[str, ...], ...]] = {}

    def start(self, name: str) -> None:
        """Start a part, or start it again."""
        if name in self._servers:
            self._servers[name].start()
            return
        self._processes[name] = [self._run(name, command) for command in self.commands[name]]

    def kill(self, name: str) -> None:
        """Send SIGKILL to a component; it stays down."""
        if name in self._servers:
            # Like a power failure: no shutdown handler runs and no work is finished.
            os.kill(self._servers[name].process.pid, signal.SIGKILL)
            self._servers[name].stop()
            return
        for process in self._processes.pop(name):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def stop(self) -> None:
        """Kill everything that still runs."""
        for name in list(self._processes):
            self.kill(name)

    def counted(self) -> dict[str, int]:
        """Return the used units of the counters, by holder; {} while the ledger is down."""
        from django.db import OperationalError, connections  # noqa: PLC0415 - Django comes later.

        from quotas.models import QuotaCounter  # noqa: PLC0415

        try:
            rows = QuotaCounter.objects.filter(limit__size="large").values_list(
                "limit__project__slug", "held_units", "reserved_units"
            )
            return {slug or "": held + reserved for slug, held, reserved in rows}
        except OperationalError:
            connections.close_all()
            return {}

    def answer_while_away(self, policy: str) -> None:
        """Set the answer to pods while the ledger is down: "allow" or "deny"."""
        from simulator.sandbox.plan import SANDBOX  # noqa: PLC0415 - As above.
        from tenants.domain.actors import system_actor  # noqa: PLC0415
        from tenants.models import Cluster  # noqa: PLC0415
        from tenants.services.clusters import update_cluster  # noqa: PLC0415

        update_cluster(
            cluster=Cluster.objects.get(slug=SANDBOX),
            changes={"admission_on_failure": policy},
            actor=system_actor("bench"),
            at=datetime.now(UTC),
        )

    def _run(self, name: str, command: tuple[str, ...]) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env={**os.environ, **self._environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@contextmanager
def _site(folder: Path, api_url: str) -> Iterator[_Site]:
    """Start everything there is, with the demo's sandbox in it and the bench's limits."""
    from embedded.ports import free_port  # noqa: PLC0415 - Starts servers.
    from embedded.postgres import OWNER, EmbeddedPostgres  # noqa: PLC0415 - Starts servers.
    from embedded.valkey import EmbeddedValkey  # noqa: PLC0415

    # Fixed ports: a restarted server has the same address.
    postgres = EmbeddedPostgres(folder / "postgres", port=free_port())
    valkey = EmbeddedValkey(folder / "valkey", port=free_port())
    with ExitStack() as stack:
        for server in (postgres, valkey):
            server.start()
            stack.callback(server.stop)
        environment = {
            "DJANGO_SETTINGS_MODULE": "config.settings.development",
            "DATABASE_URL": postgres.url(),
            "DATABASE_OWNER_URL": postgres.url(role=OWNER),
            "REDIS_URL": valkey.url(),
            "LOG_LEVEL": "WARNING",
            "RESERVATION_TTL_SECONDS": str(TTL_SECONDS),
            "CLUSTER_SECRETS_DIR": str(folder),
        }
        os.environ |= environment
        migrate = ("manage.py", "migrate", "--database", "owner", "-v", "0")
        subprocess.run([sys.executable, *migrate], cwd=ROOT, check=True)
        site = _Site(folder, environment, {"postgres": postgres, "valkey": valkey})
        stack.callback(site.stop)
        _furnish(site, folder, api_url)
        yield site


def _furnish(site: _Site, folder: Path, api_url: str) -> None:
    import django  # noqa: PLC0415 - Settings come first.

    django.setup()
    from bench.losses_load import set_limits  # noqa: PLC0415
    from embedded.ports import free_port  # noqa: PLC0415
    from simulator.demo.seeding import Endpoints  # noqa: PLC0415
    from simulator.kubernetes_api.access import (  # noqa: PLC0415
        CLIENT_NAME,
        make_identity,
    )
    from simulator.sandbox.api import ca_path, kubeconfig_path  # noqa: PLC0415
    from simulator.sandbox.plan import SANDBOX  # noqa: PLC0415
    from simulator.sandbox.seeding import seed_sandbox  # noqa: PLC0415
    from simulator.sandbox.stage import admission_ca_path  # noqa: PLC0415
    from simulator.sandbox.webhooks import register_webhooks  # noqa: PLC0415

    place = Endpoints("", api_url, f"kubeconfig:{kubeconfig_path(folder).name}")
    seed_sandbox(place, password=PASSWORD, at=datetime.now(UTC), limits=())
    set_limits(at=datetime.now(UTC))
    site.answer_while_away("deny")
    identity = make_identity(folder / "admission")
    admission_ca_path(folder).write_text(identity.authority_pem, encoding="utf-8")
    port = free_port()
    listen = ("--bind", f"127.0.0.1:{port}", "--workers", "1")
    proof = ("--certificate", str(identity.certificate_path), "--key", str(identity.key_path))
    trusted = ("--client-ca", str(ca_path(folder)))
    celery = ("-m", "celery", "-A", "config")
    quiet = ("--without-gossip", "--without-mingle", "--loglevel", "WARNING")
    os.environ["ADMISSION_CLIENT_NAMES"] = f"{SANDBOX}={CLIENT_NAME}"
    site.commands = {
        "worker": (
            (*celery, "worker", "-n", "worker@%h", "-Q", "celery,metering", "-c", "2", *quiet),
            (*celery, "worker", "-n", "short-worker@%h", "-Q", "short", "-c", "3", *quiet),
            (*celery, "beat", "-s", str(folder / "beat"), "--pidfile="),
        ),
        "watcher": (("manage.py", "watch_cluster", SANDBOX),),
        "admission": (("manage.py", "serve_admission", *listen, *proof, *trusted),),
    }
    for name in site.commands:
        site.start(name)
    register_webhooks(folder, api_url=api_url, admission_url=f"https://127.0.0.1:{port}")
    _wait(_is_enforced, "the namespaces' quotas")


def _is_enforced() -> bool:
    from quotas.models import EnforcementState, EnforcementTarget  # noqa: PLC0415 - Django first.

    targets = EnforcementTarget.objects.all()
    return targets.exists() and not targets.exclude(state=EnforcementState.APPLIED).exists()


def _wait(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"Waited {WAIT_SECONDS} s for {what}."
        time.sleep(0.5)


def _serve(folder: Path, pipe: Connection) -> None:
    """Run the cluster, and the load that requests more than its limits."""
    from simulator.sandbox.api import serve_sandbox  # noqa: PLC0415 - Starts a server.

    with serve_sandbox(folder, port=0, at=datetime.now(UTC)) as api:
        pipe.send(api.url)
        load = Load(api)
        threads = [threading.Thread(target=load.work, daemon=True) for _ in range(load.workers)]
        threads.append(threading.Thread(target=load.watch, daemon=True))
        for thread in threads:
            thread.start()
        while (order := pipe.recv()) != "end":
            pipe.send(load.obey(order))


def _ask(load: Connection) -> dict[str, Any]:
    load.send("tell")
    assert load.poll(WAIT_SECONDS), "The cluster does not answer."
    reported: dict[str, Any] = load.recv()
    return reported


def _say(load: Connection, order: str) -> None:
    load.send(order)
    load.recv()

"""Ten minutes of churn on a real cluster: does the ledger stay equal to it, and out of the way.

A thousand pods, Jobs that retry, refusals behind the webhook; the webhook and the watcher are
killed at random and the API server twice. It needs a control plane without kubelets of its own,
with webhook client certificates and an audit log, named by variables:

    CONTRACT_KUBECONFIG   an administrator's
    CONTRACT_CLIENT_CA    the authority of the API server's client certificate
    CONTRACT_CLIENT_NAME  the common name in that certificate
    CONTRACT_RESTART      a command that kills the API server and starts it again
    CONTRACT_AUDIT_LOG    the log: requests and responses of pods and bindings

The same seed draws the same load, but not the same moments.
"""

import os
import random
import shlex
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from bench import churn_load as load
from bench.churn_audit import AuditedPod, audited_pods, was_watched
from bench.harness import ROOT, Bound, Figure, invariant, ledger_database, measurement

KUBECONFIG: Final = "CONTRACT_KUBECONFIG"
SEED: Final = int(os.environ.get("CHURN_SEED", "1"))
SECONDS: Final = int(os.environ.get("CHURN_SECONDS", "600"))
PAUSE_SECONDS: Final = (0.1, 0.7)
SETTLE_SECONDS_MAX: Final = 10
WATCHED_SECONDS: Final = 3
"""Heartbeats come every second here."""
PODS_MIN: Final = 1_000 * SECONDS // 600
SLUG: Final = "churn"
PROCESS_LIVES: Final = {"admission": (40, 70), "watcher": (40, 80)}
PROCESS_PAUSES: Final = {"admission": (1, 6), "watcher": (2, 10)}


def run() -> Iterator[Figure]:
    """Yield the figures; none without a cluster."""
    if not os.environ.get(KUBECONFIG):
        print(f"# churn takes a real cluster: {KUBECONFIG} is not set", flush=True)
        return
    with ledger_database(), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-ledger-churn-")))
        yield from _Churn(stack, folder).figures()


@dataclass
class _Process:
    """A program of ours that is killed and started again."""

    name: str
    command: list[str]
    log: Path
    environment: Mapping[str, str]
    kills: int = 0
    _running: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                [sys.executable, *self.command],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill it with its processes; it stays down."""
        if self._running is not None:
            os.killpg(self._running.pid, signal.SIGKILL)
            self._running.wait()
            self._running = None

    def live_and_die(self, chance: random.Random, stop: threading.Event) -> None:
        """Kill it now and then, and start it again."""
        while not stop.wait(chance.uniform(*PROCESS_LIVES[self.name])):
            self.kill()
            self.kills += 1
            time.sleep(chance.uniform(*PROCESS_PAUSES[self.name]))
            self.start()


@dataclass
class _Churn:
    """One run."""

    stack: ExitStack
    folder: Path
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311
    restarts: int = 0

    def figures(self) -> Iterator[Figure]:
        """Run, and compare."""
        self._prepare()
        begin = time.monotonic()
        self._disturb_for(SECONDS)
        self.cluster.is_frozen = True
        # What was killed last is back: its start is a figure of its own.
        _wait_until(lambda: _is_ready(self.probe_port) and _is_watched())
        settled = self._settle()
        yield measurement("churn_seconds", time.monotonic() - begin, "s")
        log = Path(os.environ["CONTRACT_AUDIT_LOG"])
        pods = audited_pods(log, self.audit_offset, load.NAMESPACES)
        yield invariant("pods_created", len(pods), "pods", PODS_MIN, Bound.AT_LEAST)
        yield measurement("objects_refused", sum(self._refused().values()), "requests")
        yield measurement("pods_refused_behind", self.disturber.refused, "pods")
        for process in self.processes:
            yield measurement(f"{process.name}_killed", process.kills, "times")
        yield invariant("api_restarted", self.restarts, "times", 2)
        yield invariant("over_admitted", max(0, self.cluster.over_units), "units", 0)
        settled_max = SETTLE_SECONDS_MAX
        yield invariant("counters_equal_after", settled, "s", settled_max, Bound.AT_MOST)
        yield invariant("fitting_refused_late", len(self.prober.late), "requests", 0)
        yield measurement("fitting_admitted", self.prober.admitted, "pods")
        back = sorted(self.prober.back_seconds) or [0.0]
        yield measurement("units_back_p50", back[len(back) // 2], "s")
        yield measurement("units_back_slowest", back[-1], "s")
        bound = {uid: pod for uid, pod in pods.items() if pod.bound_at is not None}
        yield from self._ledger_figures(bound)
        for text in self.prober.late[:5]:
            print(f"# refused late: {text}", flush=True)

    def _refused(self) -> Counter[int]:
        return Counter({code: n for code, n in self.load.codes.items() if code != 201})

    def _ledger_figures(self, bound: Mapping[str, AuditedPod]) -> Iterator[Figure]:
        """Compare the allocation ledger with the audit log: every bound pod once, none else.

        What came and went while the watch was blind, by the ledger's own spans, no watch can see.
        """
        from metering.models import PodAllocation, WatchSpan  # noqa: PLC0415 - Django is set up.

        rows = dict(
            PodAllocation.objects.filter(cluster__slug=SLUG).values_list("pod_uid", "units")
        )
        missing = sorted(set(bound) - set(rows))
        spans = list(
            WatchSpan.objects.filter(cluster__slug=SLUG)
            .order_by("begin_at")
            .values_list("begin_at", "until_at", "is_resumed")
        )
        watched = [uid for uid in missing if was_watched(bound[uid], spans)]
        yield measurement("pods_bound", len(bound), "pods")
        yield measurement("bound_without_row_while_blind", len(missing) - len(watched), "pods")
        yield invariant("bound_without_row", len(watched), "pods", 0)
        yield invariant("rows_never_bound", len(set(rows) - set(bound)), "pods", 0)
        other = sum(rows[uid] != pod.units for uid, pod in bound.items() if uid in rows)
        yield invariant("rows_with_other_units", other, "pods", 0)
        live = {
            one["metadata"]["uid"]
            for one in self.cluster.pods() or ()
            if load.is_live(one) and one["spec"].get("nodeName")
        }
        open_rows = PodAllocation.objects.filter(cluster__slug=SLUG, end_at=None)
        open_uids = set(open_rows.values_list("pod_uid", flat=True))
        yield invariant("open_rows_not_live", len(open_uids ^ live), "pods", 0)
        for uid in missing:
            was = "watched" if uid in watched else "blind"
            print(f"# bound without a row, {was}: {uid} {bound[uid]}", flush=True)

    def _prepare(self) -> None:
        from kubernetes import config  # noqa: PLC0415 - Only here.

        from tests.support.kubernetes.wire import Wire  # noqa: PLC0415 - As above.

        kubeconfig = os.environ[KUBECONFIG]
        found = config.new_client_from_config(kubeconfig)  # type: ignore[no-untyped-call]
        self.cluster = load.Cluster(Wire(found.configuration), self.chance)
        self.cluster.furnish()
        self.cluster.clear()
        self.load = load.Load(self.cluster, self.chance)
        self.prober = load.Prober(self.cluster)
        self.disturber = load.Disturber(self.cluster, self.chance)
        _seed(kubeconfig)
        self.audit_offset = Path(os.environ["CONTRACT_AUDIT_LOG"]).stat().st_size
        self._start_processes(kubeconfig)
        self._register()

    def _start_processes(self, kubeconfig: str) -> None:
        from embedded.ports import free_port  # noqa: PLC0415 - Starts nothing.
        from simulator.kubernetes_api.access import make_identity  # noqa: PLC0415

        identity = make_identity(self.folder / "admission")
        self.authority_pem = identity.authority_pem
        self.port, self.probe_port = free_port(), free_port()
        serve = [
            *("manage.py", "serve_admission", "--bind", f"127.0.0.1:{self.port}"),
            *("--certificate", str(identity.certificate_path), "--key", str(identity.key_path)),
            *("--client-ca", os.environ["CONTRACT_CLIENT_CA"], "--workers", "2"),
            *("--probe-bind", f"127.0.0.1:{self.probe_port}"),
        ]
        environment = {
            "CLUSTER_SECRETS_DIR": str(Path(kubeconfig).parent),
            "ADMISSION_CLIENT_NAMES": f"{SLUG}={os.environ['CONTRACT_CLIENT_NAME']}",
            "WATCH_HEARTBEAT_SECONDS": "1",
        }
        commands = {"admission": serve, "watcher": ["manage.py", "watch_cluster", SLUG]}
        self.processes = [
            _Process(name, command, self.folder / f"{name}.log", environment)
            for name, command in commands.items()
        ]
        for process in self.processes:
            process.start()
            self.stack.callback(process.kill)

    def _register(self) -> None:
        """Register our webhooks, and one beside them that refuses at random."""
        from quotas.domain.admission.webhook_configuration import (  # noqa: PLC0415
            Registration,
            configurations,
        )

        # What ends before the first list is in no list.
        _wait_until(lambda: _is_ready(self.probe_port) and _is_watched())
        registration = Registration(
            cluster=SLUG,
            authority_pem=self.authority_pem,
            url=f"https://127.0.0.1:{self.port}",
            offered=(load.GPU,),
            bound=tuple(load.NAMESPACES),
        )
        other: dict[str, Any] = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "churn-disturber"},
            "webhooks": [self._disturbing()],
        }
        for document in (*configurations(registration), other):
            plural = f"{document['kind'].lower()}s"
            path = f"/apis/admissionregistration.k8s.io/v1/{plural}"
            name = document["metadata"]["name"]
            assert self.cluster.wire.post(path, document).code == 201
            self.stack.callback(self.cluster.wire.delete, f"{path}/{name}")

    def _disturbing(self) -> dict[str, Any]:
        """Return the webhook beside ours, which is answered from here."""
        from tests.support.kubernetes.webhook_server import WebhookServer  # noqa: PLC0415

        beside = WebhookServer(self.folder / "beside", "127.0.0.1")
        beside.rule = self.disturber.answer
        self.stack.callback(beside.stop)
        return load.disturbing_webhook(url=beside.url, authority=beside.authority)

    def _disturb_for(self, seconds: int) -> None:
        stop, kept = threading.Event(), threading.Event()
        self.stack.callback(kept.set)
        # These go on until the end: the kubelet, the sweep, and who observes what is well.
        load.every(self.cluster.keep, kept, load.drawn(self.chance, 0.4, 0.6))
        load.every(_sweep, kept, load.drawn(self.chance, 5, 5))
        load.every(self._observe, kept, load.drawn(self.chance, 0.2, 0.2))
        threads = [
            load.every(self.load.step, stop, load.drawn(self.chance, *PAUSE_SECONDS)),
            load.every(self.prober.step, stop, load.drawn(self.chance, 0.1, 0.5)),
            load.every(self.disturber.step, stop, load.drawn(self.chance, 15, 40)),
        ]
        for process in self.processes:
            own = random.Random(self.chance.random())  # noqa: S311 - A load.
            threads.append(threading.Thread(target=process.live_and_die, args=(own, stop)))
            threads[-1].start()
        begin = time.monotonic()
        for part in (1, 2):
            time.sleep(max(0, begin + seconds * part / 3 - time.monotonic()))
            subprocess.run(shlex.split(os.environ["CONTRACT_RESTART"]), check=True)
            self.restarts += 1
        time.sleep(max(0, begin + seconds - time.monotonic()))
        stop.set()
        for thread in threads:
            thread.join()

    def _observe(self) -> None:
        """Note since when each part is well."""
        now = time.monotonic()
        api = load.ask(lambda: self.cluster.wire.get("/readyz")).code == 200
        state = {
            "webhook": _is_ready(self.probe_port),
            "api": api,
            "units": _counted()[load.PROBE] < load.LIMITS[load.PROBE],
        }
        for name, is_well in state.items():
            since = self.prober.wells.get(name)
            self.prober.wells[name] = (since or now) if is_well else None

    def _settle(self) -> Decimal:
        """Return after how long counters equal the cluster."""
        begin = time.monotonic()
        while True:
            pods = self.cluster.pods()
            counted = _counted()
            if pods is not None and +counted == +self.cluster.live_units(pods):
                return Decimal(str(round(time.monotonic() - begin, 3)))
            if time.monotonic() - begin > 12 * SETTLE_SECONDS_MAX:
                live = self.cluster.live_units(pods or [])
                print(f"# counted {dict(counted)}, live {dict(live)}", flush=True)
                return Decimal(12 * SETTLE_SECONDS_MAX)
            time.sleep(0.25)


def _seed(kubeconfig: str) -> None:
    """Create the cluster and its tenants in the ledger."""
    from django.db import transaction  # noqa: PLC0415 - Django is set up by now.

    from quotas.services.limits.changes import open_counter  # noqa: PLC0415 - As above.
    from tests.support.builders import (  # noqa: PLC0415
        AT,
        bind,
        make_cluster,
        make_organization,
        make_project,
    )
    from tests.support.quotas.builders import make_limit  # noqa: PLC0415

    cluster = make_cluster(
        SLUG,
        is_watched=True,
        admission_mode="enforce",
        admission_on_failure="deny",
        kubernetes_url="",
        credential_reference=f"kubeconfig:{Path(kubeconfig).name}",
        offered_resources=[load.GPU],
    )
    organization = make_organization("churn")
    for slug, units in load.LIMITS.items():
        project = make_project(organization, slug)
        for namespace, owner in load.NAMESPACES.items():
            if owner == slug:
                bind(cluster, namespace, project)
        with transaction.atomic():
            open_counter(limit=make_limit(organization, project, units=units), at=AT)


def _counted() -> Counter[str]:
    """Return the units of each project's counter; all as full while the ledger is busy."""
    from django.db import Error, connections  # noqa: PLC0415 - Django is set up by now.

    from quotas.models import QuotaCounter  # noqa: PLC0415 - As above.

    try:
        rows = QuotaCounter.objects.values_list(
            "limit__project__slug", "held_units", "reserved_units"
        )
        return Counter({slug: held + reserved for slug, held, reserved in rows})
    except Error:
        connections.close_all()
        return Counter(load.LIMITS)


def _sweep() -> None:
    from bench.admission_stage import sweep  # noqa: PLC0415 - Django is set up by now.

    sweep(datetime.now(UTC))


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, ssl.SSLError):
        return False


def _is_watched() -> bool:
    """Whether the watch had a heartbeat in the last moments."""
    from metering.models import ClusterWatch  # noqa: PLC0415 - Django is set up by now.

    since = datetime.now(UTC) - timedelta(seconds=WATCHED_SECONDS)
    return ClusterWatch.objects.filter(cluster__slug=SLUG, healthy_at__gte=since).exists()


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline, "Our programs do not start."
        time.sleep(0.2)

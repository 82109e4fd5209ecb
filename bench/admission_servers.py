"""Servers of the admission bench as they are deployed, and pods as an API server sends them."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg

from bench import admission_stage
from bench.harness import ROOT

WORKERS, THREADS = 2, 8
"""As `serve_admission` has them unless set otherwise."""
READY_SECONDS: Final = 60
TICKS: Final = os.sysconf("SC_CLK_TCK")
BARE: Final = "bench.bare:make_application()"
GPU: Final = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}


@dataclass(frozen=True)
class Stage:
    """Tenants with plenty, and the way to what the watch writes."""

    cluster: str
    places: list[admission_stage.Place]
    url: str
    owner_url: str
    postmaster: int

    def sweep(self, *, older_than_seconds: float = 0) -> None:
        """Expire pods that were not observed for long and sweep live usage, as the tick does."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "UPDATE quotas_reservation SET expires_at = clock_timestamp()"
                " WHERE state = 'reserved'"
                " AND admitted_at <= clock_timestamp() - make_interval(secs => %s)",
                [older_than_seconds],
            )
        admission_stage.sweep(datetime.now(tz=UTC))

    def counters(self) -> list[str]:
        """Return the counters of the organizations, by the ids of their limits."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(
                "SELECT id::text FROM quotas_quotalimit WHERE scope = 'organization'"
            ).fetchall()
        return [row[0] for row in rows]

    def forget_pods(self) -> None:
        """Delete every pod, and the trail of it."""
        self.sweep()
        with psycopg.connect(self.owner_url, autocommit=True) as connection:
            connection.execute("DELETE FROM quotas_reservation WHERE state = 'released'")
            connection.execute("VACUUM quotas_reservation")

    def postgres_cpu_seconds(self) -> float:
        """Return PostgreSQL's CPU time so far."""
        return _cpu_seconds(self.postmaster)


def build(*, organizations: int) -> Stage:
    """Create a cluster with `admission_on_failure` "deny" and tenants with ample quota."""
    from metering.models import NodeRecord  # noqa: PLC0415 - Django is set up by now.
    from quotas.models import QuotaLimit  # noqa: PLC0415 - As above.
    from tenants.models import Cluster  # noqa: PLC0415 - As above.

    places = admission_stage.build(organizations=organizations)
    QuotaLimit.objects.update(limit_units=1_000_000)
    cluster = Cluster.objects.get(pk=places[0].cluster_id)
    cluster.admission_on_failure = "deny"
    cluster.save()
    for number in range(8):
        NodeRecord.objects.create(
            cluster=cluster,
            node=f"n{number}",
            node_uid=f"n{number}",
            labels={
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "nvidia.com/gpu.replicas": "1",
            },
            allocatable={"nvidia.com/gpu": 8},
            begin_at=admission_stage.BEGIN,
        )
    url, owner_url = os.environ["DATABASE_URL"], os.environ["DATABASE_OWNER_URL"]
    with psycopg.connect(url) as connection:
        postmaster = _parent(connection.info.backend_pid)
    return Stage(cluster.slug, places, url, owner_url, postmaster)


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Return the CPU time of its processes so far."""
        return _cpu_seconds(self.pid)


@contextmanager
def admission_server() -> Iterator[Server]:
    """Run what `serve_admission` becomes, without TLS, counting for Prometheus as it does."""
    from config.management.commands.serve_admission import admission_command  # noqa: PLC0415
    from embedded.ports import free_port  # noqa: PLC0415 - Starts nothing.

    port = free_port()
    command = admission_command(
        bind=f"127.0.0.1:{port}", workers=WORKERS, threads=THREADS, insecure_loopback=True
    )
    with _server(command, port) as server:
        yield server


@contextmanager
def bare_server() -> Iterator[Server]:
    """Run the bare views as Django is served best: gunicorn, as many processes, no access log."""
    from embedded.ports import free_port  # noqa: PLC0415 - Starts nothing.

    port = free_port()
    command = [
        *(sys.executable, "-m", "gunicorn", BARE, "--bind", f"127.0.0.1:{port}"),
        *("--workers", str(WORKERS), "--worker-class", "gthread", "--threads", str(THREADS)),
        *("--keep-alive", "75", "--no-control-socket"),
    ]
    with _server(command, port) as server:
        yield server


@contextmanager
def _server(command: list[str], port: int) -> Iterator[Server]:
    from config.management.commands.serve import METRICS_VARIABLE  # noqa: PLC0415 - Django is up.

    with tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as folder:
        process = subprocess.Popen(
            [*command, "--log-level", "warning"],
            cwd=ROOT,
            env={**os.environ, METRICS_VARIABLE: folder},
        )
        try:
            _wait(port)
            yield Server(port, process.pid)
        finally:
            process.terminate()
            process.wait()


def _wait(port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2).close()
            return
        if time.monotonic() > deadline:
            raise RuntimeError("The server did not become ready.")
        time.sleep(0.1)


def body(place: admission_stage.Place, number: int) -> bytes:
    """Return an AdmissionReview of a new pod, with all fields that a cluster adds."""
    name = f"train-{number}"
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "requestResource": {"group": "", "version": "v1", "resource": "pods"},
        "name": name,
        "namespace": place.namespace,
        "operation": "CREATE",
        "userInfo": {
            "username": "alice",
            "uid": str(uuid.uuid4()),
            "groups": ["research", "system:authenticated"],
        },
        "object": _pod(name, place.namespace),
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


def _pod(name: str, namespace: str) -> dict[str, Any]:
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    authority = {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca", "path": "ca"}]}}
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io"},
    ]
    container = {
        "name": "main",
        "image": "registry.example/team/train:1.4.2",
        "command": ["python", "-m", "train", "--config", "/data/config.yaml"],
        "env": [{"name": f"SETTING_{number}", "value": "x" * 24} for number in range(8)],
        "resources": {"limits": GPU, "requests": GPU},
        "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
        for key in ("not-ready", "unreachable")
    ]
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": str(uuid.uuid4()),
        "creationTimestamp": "2026-11-21T12:00:00Z",
        "labels": {"app": "train", "team": "research", "gpu-ledger.io/work-kind": "training"},
        "managedFields": [
            {
                "manager": "kubectl-create",
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2026-11-21T12:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}}}}},
            }
        ],
    }
    spec = {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "token", "projected": {"sources": [token, authority], "defaultMode": 420}},
        ],
        "containers": [container],
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
        "tolerations": tolerations,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _parent(pid: int) -> int:
    return _fields(pid)[1]


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, of those it began, and of those it has buried."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            children.setdefault(_parent(int(path.name)), []).append(int(path.name))
    ticks, left = 0, [pid]
    while left:
        one = left.pop()
        left += children.get(one, [])
        with suppress(OSError):
            ticks += sum(_fields(one)[11:15])
    return ticks / TICKS


def _fields(pid: int) -> list[int]:
    """Return the fields of /proc/<pid>/stat after the name; the second is the parent's pid."""
    reported = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return [
        int(word) if word.lstrip("-").isdigit() else 0
        for word in reported.rpartition(")")[2].split()
    ]


def load_average() -> str:
    """Return the load of the last minute: other processes on this machine affect every figure."""
    return f"{os.getloadavg()[0]:.1f}"

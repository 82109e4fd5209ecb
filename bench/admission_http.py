"""Admission over HTTP: how many pods a second, how late the slowest, and against a bare view.

Everything runs on this machine: PostgreSQL, the admission server as it is deployed (plain HTTP on
loopback), and the load. The load is open: arrivals are fixed beforehand and an answer's time counts
from when the question was due, so that a server that stalls is not spared the questions it kept
from being asked. Pods are small and are let in; each is reserved under its own uid.
"""

import http.client
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from decimal import Decimal
from multiprocessing.queues import Queue

from bench.harness import ROOT, Bound, Figure, figure, ledger_database

HELD_RATE = 300
HELD_SECONDS = 20
STEP_SECONDS = 6
STEPS = (200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_200)
QUICK_MILLISECONDS = 25
SLOW_MILLISECONDS = 50
WANTED_RATE = 1_000
RATIO = "0.5"
CONNECTIONS = 16
CLOSED_SECONDS = 6
WORKERS, THREADS = 2, 4
PROJECTS = 20
BARE = "bench.bare:make_application()"
READY_SECONDS = 30


def run() -> Iterator[Figure]:
    """Yield the figures."""
    with ledger_database():
        _grant()
        with _server("config.admission_wsgi:make_application()") as port:
            _closed(port, "/admit/hopper/pods", seconds=2)
            before = time.process_time(), _children_seconds()
            late = _open(port, rate=HELD_RATE, seconds=HELD_SECONDS)
            yield figure("p99_ms_at_300", _p99(late), "ms", Bound.AT_MOST, SLOW_MILLISECONDS)
            yield figure("p50_ms_at_300", _share(late, 50), "ms", Bound.AT_MOST, SLOW_MILLISECONDS)
            print(f"# load took {time.process_time() - before[0]:.2f} CPU s in its parent")
            yield figure("rate_p99_25ms", _highest(port), "pods/s", Bound.AT_LEAST, WANTED_RATE)
            ours = _closed(port, "/admit/hopper/pods", seconds=CLOSED_SECONDS)
        with _server(BARE) as port:
            _closed(port, "/bare", seconds=1)
            bare = _closed(port, "/bare", seconds=CLOSED_SECONDS)
    print(f"# closed loop: ours {ours:.0f}/s, bare Django view {bare:.0f}/s")
    yield figure("ratio_to_bare_view", Decimal(ours) / Decimal(bare), "x", Bound.AT_LEAST, RATIO)


def _grant() -> None:
    """Make a cluster that enforces, with projects that have plenty."""
    from django.db import transaction  # noqa: PLC0415 - Django is set up by now.
    from django.db.backends.postgresql.psycopg_any import DateTimeTZRange  # noqa: PLC0415 - Set up.

    from metering.models import NodeRecord  # noqa: PLC0415 - As above.
    from quotas.models import LimitScope, QuotaLimit  # noqa: PLC0415 - As above.
    from quotas.services.counters import open_counter  # noqa: PLC0415 - As above.
    from tenants.models import (  # noqa: PLC0415 - As above.
        Cluster,
        NamespaceBinding,
        Organization,
        Project,
    )

    at = datetime.now(UTC)
    begin = at.replace(minute=0, second=0, microsecond=0)
    hopper = Cluster.objects.create(
        slug="hopper",
        name="Hopper",
        is_watched=True,
        admission_mode="enforce",
        metered_from=begin,
        created_at=at,
    )
    NodeRecord.objects.create(
        cluster=hopper,
        node="n1",
        node_uid="n1",
        labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.replicas": "1"},
        allocatable={"nvidia.com/gpu": 8},
        begin_at=at,
    )
    for number in range(PROJECTS):
        owner = Organization.objects.create(
            slug=f"o{number}", name=f"O{number}", billing_currency="EUR", created_at=at
        )
        project = Project.objects.create(
            organization=owner, slug=f"p{number}", name=f"P{number}", created_at=at
        )
        NamespaceBinding.objects.create(
            cluster=hopper,
            namespace=f"ns-{number}",
            project=project,
            valid=DateTimeTZRange(begin, None),
            created_at=at,
        )
        for one in (None, project):
            limit = QuotaLimit.objects.create(
                scope=LimitScope.ORGANIZATION if one is None else LimitScope.PROJECT,
                organization=owner,
                project=one,
                size="large",
                limit_units=1_000_000,
                created_at=at,
                changed_at=at,
            )
            with transaction.atomic():
                open_counter(limit=limit, at=at)


@contextmanager
def _server(application: str) -> Iterator[int]:
    """Run gunicorn as `serve_admission` does, without TLS, and yield its port."""
    from config.embedded.ports import free_port  # noqa: PLC0415 - Starts nothing.

    port = free_port()
    command = [
        *(sys.executable, "-m", "gunicorn", application, "--bind", f"127.0.0.1:{port}"),
        *("--workers", str(WORKERS), "--worker-class", "gthread", "--threads", str(THREADS)),
        *("--keep-alive", "75", "--log-level", "warning", "--no-control-socket"),
    ]
    process = subprocess.Popen(command, cwd=ROOT, env=dict(os.environ))
    try:
        _wait(port)
        yield port
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


def _body(number: int) -> bytes:
    """Return a review of a pod nobody has asked for before."""
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    space = f"ns-{number % PROJECTS}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": space, "uid": str(uuid.uuid4())},
        "spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]},
    }
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": space,
        "operation": "CREATE",
        "userInfo": {"username": "alice"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review).encode()


def _highest(port: int) -> int:
    """Return the highest rate of the steps whose p99 is quick, going up until one is not."""
    best = 0
    for rate in STEPS:
        p99 = _p99(_open(port, rate=rate, seconds=STEP_SECONDS))
        print(f"# {rate}/s: p99 {p99:.1f} ms")
        if p99 > QUICK_MILLISECONDS:
            break
        best = rate
    return best


def _open(port: int, *, rate: int, seconds: int) -> list[float]:
    """Ask at a fixed rate; return milliseconds from when each was due to its answer."""
    bodies = [_body(number) for number in range(rate * seconds)]
    return _in_a_process(_play, port, bodies, rate)


def _closed(port: int, path: str, *, seconds: int) -> float:
    """Ask as fast as answers come; return answers a second."""
    counts = _in_a_process(_hammer, port, path, seconds)
    return sum(counts) / seconds


def _in_a_process(target: object, *arguments: object) -> list[float]:
    """Run the load in a process of its own, so that it shares no interpreter with this one."""
    context = multiprocessing.get_context("fork")
    queue: Queue[list[float]] = context.Queue()
    process = context.Process(target=_told, args=(queue, target, arguments))
    process.start()
    found = queue.get()
    process.join()
    return found


def _told(queue: "Queue[list[float]]", target: object, arguments: tuple[object, ...]) -> None:
    queue.put(target(*arguments))  # type: ignore[operator]


def _play(port: int, bodies: list[bytes], rate: int) -> list[float]:
    begin = time.perf_counter() + 0.2
    late: list[float] = []
    turns = iter(enumerate(bodies))
    lock = threading.Lock()

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while True:
            with lock:
                turn = next(turns, None)
            if turn is None:
                return
            number, body = turn
            due = begin + number / rate
            time.sleep(max(0, due - time.perf_counter()))
            _ask(connection, "/admit/hopper/pods", body)
            late.append((time.perf_counter() - due) * 1_000)

    _all(work)
    return late


def _hammer(port: int, path: str, seconds: int) -> list[float]:
    end = time.perf_counter() + seconds
    counts: list[float] = []

    def work() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        number = 0
        while time.perf_counter() < end:
            number += 1
            _ask(connection, path, _body(number))
        counts.append(number)

    _all(work)
    return counts


def _all(work: object) -> None:
    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _ask(connection: http.client.HTTPConnection, path: str, body: bytes) -> None:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    told = answer.read()
    if answer.status != 200 or b'"allowed": true' not in told:
        raise RuntimeError(f"{answer.status} {told[:200]!r}")


def _p99(late: list[float]) -> float:
    return _share(late, 99)


def _share(late: list[float], percent: int) -> float:
    return sorted(late)[min(len(late) - 1, len(late) * percent // 100)]


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

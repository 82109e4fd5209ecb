"""Release of admitted pods that were never created: how long after the bound their units are free.

A simulated API server answers over HTTPS; none of the pods is in it, as when a ResourceQuota
refused each behind the webhook. The bound is the longest timeout of its validating webhooks, one
second here, and ten for quotas. Some pods come one after another in many namespaces, and
a hundred come to one namespace at once.
"""

import http.client
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

import psycopg

from bench import admission_servers as servers
from bench.harness import Bound, Figure, invariant, ledger_database, measurement, scaled

TOKEN: Final = "bench"  # noqa: S105 - Of a server that ends with this bench.
WEBHOOK_SECONDS: Final = 1
BOUND: Final = timedelta(seconds=WEBHOOK_SECONDS + 10)
PODS_APART: Final = scaled(150)
PODS_A_SECOND: Final = 10
PODS_AT_ONCE: Final = scaled(100)
ORGANIZATIONS: Final = 20
P99_SECONDS_MAX: Final = Decimal(2)
PATIENCE_SECONDS: Final = 60
POLL_SECONDS: Final = 0.02
HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def run() -> Iterator[Figure]:
    """Yield the figures."""
    with ledger_database(), _cluster_api() as reference:
        stage = servers.build(organizations=ORGANIZATIONS)
        _refer(stage.cluster, reference)
        # The first are due before the last are admitted.
        with servers.admission_server() as server, ThreadPoolExecutor(max_workers=1) as pool:
            asking = pool.submit(_ask_all, server, stage)
            late = sorted(_seconds_late(stage))
            asking.result()
    pods = PODS_APART + PODS_AT_ONCE
    yield invariant("pods_released", len(late), "pods", pods)
    yield invariant("pods_released_before_the_bound", sum(one < 0 for one in late), "pods", 0)
    yield measurement("release_after_bound_p50", late[len(late) // 2], "s")
    p99 = late[min(len(late) - 1, len(late) * 99 // 100)]
    yield Figure(
        "release_after_bound_p99",
        Decimal(str(p99)).quantize(Decimal("0.001")),
        "s",
        Bound.AT_MOST,
        P99_SECONDS_MAX,
    )


@contextmanager
def _cluster_api() -> Iterator[str]:
    """Run an API server with one validating webhook; yield the reference of its kubeconfig."""
    from simulator.kubernetes_api import KubernetesAPI  # noqa: PLC0415 - Starts a server.

    with tempfile.TemporaryDirectory(prefix="gpu-ledger-bench-") as name:
        folder = Path(name)
        os.environ["CLUSTER_SECRETS_DIR"] = name
        with KubernetesAPI(folder / "api", tokens={TOKEN: "system:admin"}) as api:
            file = api.kubeconfig(folder / "kubeconfig")
            webhook = {
                "name": "other.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": WEBHOOK_SECONDS,
            }
            _register(file, {"metadata": {"name": "other"}, "webhooks": [webhook]})
            yield f"kubeconfig:{file.name}"


def _register(kubeconfig: Path, configuration: dict[str, object]) -> None:
    from kubernetes import config  # noqa: PLC0415 - Only here.

    from tests.support.kubernetes.wire import Wire  # noqa: PLC0415 - As above.

    found = config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
    answer = Wire(found.configuration).post(HOOKS, configuration)
    if answer.code != http.HTTPStatus.CREATED:
        raise RuntimeError(answer.message)


def _ask_all(server: servers.Server, stage: servers.Stage) -> None:
    apart, at_once = stage.places[:-1], stage.places[-1:]
    begin = time.monotonic()
    for number in range(PODS_APART):
        time.sleep(max(0, begin + number / PODS_A_SECOND - time.monotonic()))
        _ask(server, stage, servers.body(apart[number % len(apart)], number))
    for number in range(PODS_AT_ONCE):
        _ask(server, stage, servers.body(at_once[0], PODS_APART + number))


def _refer(slug: str, reference: str) -> None:
    from tenants.models import Cluster  # noqa: PLC0415 - Django is set up by now.

    cluster = Cluster.objects.get(slug=slug)
    cluster.credential_reference = reference
    cluster.save()


def _ask(server: servers.Server, stage: servers.Stage, body: bytes) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request("POST", f"/admit/{stage.cluster}/pods", body)
    answer = connection.getresponse().read()
    connection.close()
    if b'"allowed":true' not in answer.replace(b" ", b""):
        raise RuntimeError(f"The pod was not admitted: {answer!r}.")


def _seconds_late(stage: servers.Stage) -> Iterator[float]:
    """Yield, for each reservation that is released, how long after its bound this was observed."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    known: set[int] = set()
    with psycopg.connect(stage.url, autocommit=True) as connection:
        while time.monotonic() < deadline:
            rows = connection.execute(
                "SELECT id, admitted_at, clock_timestamp() FROM quotas_reservation"
                " WHERE state = 'released' AND release_reason = 'absent' AND NOT id = ANY (%s)",
                [list(known)],
            ).fetchall()
            for number, admitted_at, observed_at in rows:
                known.add(number)
                yield _late(admitted_at, observed_at)
            if len(known) == PODS_APART + PODS_AT_ONCE:
                return
            time.sleep(POLL_SECONDS)


def _late(admitted_at: datetime, observed_at: datetime) -> float:
    return (observed_at - admitted_at - BOUND).total_seconds()

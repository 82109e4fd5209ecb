"""The watch end to end: a list and a stream over HTTPS from the simulated API into the ledger.

The API runs in its own process, as in production; its time is part of the figures.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import (
    Bound,
    Figure,
    invariant,
    ledger_database,
    measured,
    measurement,
    ratio,
    scaled,
)
from bench.watching import (
    BATCH,
    GROWTH_MEBIBYTES_MAX,
    NAMESPACES,
    NODES,
    PODS,
    Memory,
    lead,
    list_nodes,
)

if TYPE_CHECKING:
    from metering.adapters.kubernetes import KubernetesClusterWatch
    from metering.protocols.watch import WatchTarget
    from metering.services.allocations.leases import Lease

EVENTS = scaled(20_000)
OFFERED_PER_SECOND = 2_000
"""How fast the API writes at most: it forgets the oldest of 10,000 events, as a real one would."""
TOKEN = "bench"  # noqa: S105 - Of a server stopped after a minute.
LIST_TO_READING_MAX = "3.4"
EVENT_TO_READING_MAX = 12
JSON = dict[str, Any]


def run() -> Iterator[Figure]:
    """Serve from one process, ledger in another."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-api-") as name:
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe()
        server = fork.Process(target=_serve, args=(Path(name), theirs))
        server.start()
        os.environ["CLUSTER_SECRETS_DIR"] = name
        try:
            with ledger_database():
                yield from _measure(Path(ours.recv()), ours)
        finally:
            ours.send("stop")
            server.join()


def _measure(kubeconfig: Path, api: Connection) -> Iterator[Figure]:
    from metering.adapters.kubernetes import KubernetesClusterWatch  # noqa: PLC0415 - Django first.
    from metering.protocols.watch import WatchedKind, WatchTarget  # noqa: PLC0415
    from metering.services.allocations.lists import ledger_list  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    watch = KubernetesClusterWatch()
    target = WatchTarget("hopper", credential_reference=f"kubeconfig:{kubeconfig.name}")
    lease = lead()
    list_nodes(lease)
    with measured() as read:
        assert sum(len(page.states) for page in watch.list(target, WatchedKind.PODS)) == PODS
    memory = Memory()
    with measured() as listed:
        done = ledger_list(
            lease=lease,
            kind=WatchedKind.PODS,
            pages=_looked_at(watch.list(target, WatchedKind.PODS), memory),
            at=datetime.now(UTC),
            actor=system_actor("bench"),
        )
    memory.look()
    assert (done.states, done.opened) == (PODS, PODS), done
    yield measurement("watch_https.list", listed.seconds, "s")
    yield ratio(
        "watch_https.list_to_reading_it",
        listed.seconds / read.seconds,
        Bound.AT_MOST,
        LIST_TO_READING_MAX,
    )
    yield invariant(
        "watch_https.list_memory",
        memory.grown_mebibytes,
        "MiB",
        GROWTH_MEBIBYTES_MAX,
        Bound.AT_MOST,
    )
    yield from _follow(
        watch,
        target,
        lease=lease,
        version=done.resource_version,
        api=api,
        reading_seconds=read.seconds,
    )


def _looked_at(pages: Iterator[Any], memory: Memory) -> Iterator[Any]:
    for page in pages:
        yield page
        memory.look()


def _follow(
    watch: "KubernetesClusterWatch",
    target: "WatchTarget",
    *,
    lease: "Lease",
    version: str,
    api: Connection,
    reading_seconds: Decimal,
) -> Iterator[Figure]:
    """Write the watch events of the API to the ledger until the last pod is deleted."""
    from metering.models import PodAllocation  # noqa: PLC0415 - Django is set up by now.
    from metering.protocols.watch import Change, WatchedKind  # noqa: PLC0415
    from metering.services.allocations.heartbeats import beat  # noqa: PLC0415
    from metering.services.allocations.lists import ledger_events  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    memory, reported, pending = Memory(), 0, []
    api.send("go")
    begin = time.perf_counter_ns()
    for event in watch.watch(
        target, WatchedKind.PODS, resource_version=version, timeout_seconds=300
    ):
        pending.append(event)
        reported += event.change is not Change.BOOKMARK
        if len(pending) < BATCH and reported < EVENTS:
            continue
        at = datetime.now(UTC)
        ledger_events(
            lease=lease,
            kind=WatchedKind.PODS,
            events=pending,
            at=at,
            actor=system_actor("bench"),
        )
        beat(lease=lease, at=at)
        memory.look()
        pending = []
        if reported >= EVENTS:
            break
    seconds = Decimal(time.perf_counter_ns() - begin) / 1_000_000_000
    assert PodAllocation.objects.filter(end_at__isnull=True).count() == PODS
    assert PodAllocation.objects.count() == PODS + EVENTS // 2
    yield measurement("watch_https.events", EVENTS / seconds, "events/s")
    yield ratio(
        "watch_https.event_to_reading_one",
        seconds * PODS / EVENTS / reading_seconds,
        Bound.AT_MOST,
        EVENT_TO_READING_MAX,
    )
    yield invariant(
        "watch_https.events_memory",
        memory.grown_mebibytes,
        "MiB",
        GROWTH_MEBIBYTES_MAX,
        Bound.AT_MOST,
    )


def _serve(folder: Path, control: Connection) -> None:
    """Serve pods; at "go" bind and delete others, a little faster than has to be kept up with."""
    from simulator.kubernetes_api import (  # noqa: PLC0415 - A child's.
        KubernetesAPI,
    )
    from simulator.kubernetes_api.resources import (  # noqa: PLC0415
        PODS as PODS_RESOURCE,
    )

    with KubernetesAPI(folder, tokens={TOKEN: "system:admin"}) as api:
        bound_at = datetime.now(UTC) - timedelta(minutes=30)
        for number in range(PODS):
            pod = _pod(number, bound_at=bound_at)
            api.store.put(PODS_RESOURCE, _key(pod), pod)
        control.send(str(api.kubeconfig(folder / "kubeconfig")))
        if control.recv() != "go":
            return
        begin = time.monotonic()
        for number in range(EVENTS // 2):
            time.sleep(max(0, begin + 2 * number / OFFERED_PER_SECOND - time.monotonic()))
            pod = _pod(PODS + number, bound_at=datetime.now(UTC) - timedelta(seconds=1))
            api.store.put(PODS_RESOURCE, _key(pod), pod)
            api.store.remove(PODS_RESOURCE, _key(pod))
        control.recv()


def _key(pod: JSON) -> tuple[str, str]:
    return (pod["metadata"]["namespace"], pod["metadata"]["name"])


def _pod(number: int, *, bound_at: datetime) -> JSON:
    """Return a running pod that holds one GPU, as an API server sends it."""
    moment = bound_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    amounts = {"nvidia.com/gpu": "1", "cpu": "8", "memory": "64Gi"}
    return {
        "metadata": {
            "name": f"train-{number}",
            "namespace": f"team-{number % NAMESPACES}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "creationTimestamp": moment,
            "labels": {"job": f"train-{number}"},
        },
        "spec": {
            "nodeName": f"node-{number % NODES}",
            "containers": [
                {"name": "main", "image": "train:1", "resources": {"requests": amounts}}
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}
            ],
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": moment}}}],
        },
    }

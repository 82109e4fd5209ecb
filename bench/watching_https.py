"""The watch end to end: a list and a stream over HTTPS from the simulated API into the ledger.

The API runs in its own process, as in production. Ratios are of CPU time: what this process and
PostgreSQL compute for a pod of a list or for an event, in units of what it takes to read one pod.
"""

import multiprocessing
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bench.harness import (
    Bound,
    Figure,
    cpu_seconds,
    invariant,
    ledger_database,
    measured,
    measurement,
    process_seconds,
    ratio,
    scaled,
)
from bench.watching import (
    BATCH,
    GROWTH_MEBIBYTES_MAX,
    LABELS,
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
    from simulator.kubernetes_api import KubernetesAPI

EVENTS = scaled(20_000)
OFFERED_PER_SECOND = 2_000
"""How fast the API writes at most: it forgets the oldest of 10,000 events, as a real one would."""
DOWN_SECONDS = scaled(35, least=5)
"""How long the restarted API is away; a control plane takes as long for an upgrade."""
BLIND_BEYOND_SECONDS_MAX = 3
PATIENCE_SECONDS = 60
TOKEN = "bench"  # noqa: S105 - Of a server stopped after a minute.
LIST_TO_READING_MAX = "3.2"
EVENTS_TO_OFFERED_MIN = "0.9"
EVENT_TO_READING_MAX = 7
READINGS = 3
JSON = dict[str, Any]


@dataclass(frozen=True)
class _Stage:
    """What is measured: a client and a ledger, and the API's process at the end of a pipe."""

    watch: "KubernetesClusterWatch"
    target: "WatchTarget"
    lease: "Lease"
    api: Connection
    postgres: int

    def cpu_seconds(self) -> Decimal:
        """Return what this process and PostgreSQL have computed so far."""
        return process_seconds() + cpu_seconds(self.postgres)


def run() -> Iterator[Figure]:
    """Serve from one process, ledger in another."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-api-") as name:
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe()
        server = fork.Process(target=_serve, args=(Path(name), theirs))
        server.start()
        os.environ["CLUSTER_SECRETS_DIR"] = name
        try:
            with ledger_database() as database:
                assert database.process is not None, "it was started"
                yield from _measure(Path(ours.recv()), ours, postgres=database.process.pid)
        finally:
            ours.send("stop")
            server.join()


def _measure(kubeconfig: Path, api: Connection, *, postgres: int) -> Iterator[Figure]:
    from metering.adapters.kubernetes import KubernetesClusterWatch  # noqa: PLC0415 - Django first.
    from metering.protocols.watch import WatchedKind, WatchTarget  # noqa: PLC0415
    from metering.services.allocations.lists import ledger_list  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    watch = KubernetesClusterWatch()
    target = WatchTarget("hopper", credential_reference=f"kubeconfig:{kubeconfig.name}")
    lease = lead()
    stage = _Stage(watch, target, lease, api, postgres)
    list_nodes(lease)
    read_cpu = _reading_cpu(lambda: watch.list(target, WatchedKind.PODS))
    memory, cpu = Memory(), stage.cpu_seconds()
    with measured() as listed:
        done = ledger_list(
            lease=lease,
            kind=WatchedKind.PODS,
            pages=_looked_at(watch.list(target, WatchedKind.PODS), memory),
            at=datetime.now(UTC),
            actor=system_actor("bench"),
        )
    list_cpu = stage.cpu_seconds() - cpu
    memory.look()
    assert (done.states, done.opened) == (PODS, PODS), done
    yield measurement("watch_https.list", listed.seconds, "s")
    yield ratio(
        "watch_https.list_to_reading_it",
        list_cpu / read_cpu,
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
    yield from _followed(stage, version=done.resource_version, reading_cpu=read_cpu)
    yield _restarted(stage)


def _reading_cpu(pages: Callable[[], Iterator[Any]]) -> Decimal:
    """Return the CPU seconds of reading every pod, the median of some readings."""
    used = []
    for _ in range(READINGS):
        begin = process_seconds()
        assert sum(len(page.states) for page in pages()) == PODS
        used.append(process_seconds() - begin)
    return statistics.median(used)


def _looked_at(pages: Iterator[Any], memory: Memory) -> Iterator[Any]:
    for page in pages:
        yield page
        memory.look()


def _followed(stage: _Stage, *, version: str, reading_cpu: Decimal) -> Iterator[Figure]:
    """Write the watch events of the API to the ledger until the last pod is deleted."""
    from metering.models import PodAllocation  # noqa: PLC0415 - Django is set up by now.

    memory, cpu = Memory(), stage.cpu_seconds()
    stage.api.send("go")
    with measured() as following:
        _follow(stage, version=version, memory=memory)
    used = stage.cpu_seconds() - cpu
    assert PodAllocation.objects.filter(end_at__isnull=True).count() == PODS
    assert PodAllocation.objects.count() == PODS + EVENTS // 2
    yield ratio(
        "watch_https.events_to_offered",
        EVENTS / following.seconds / OFFERED_PER_SECOND,
        Bound.AT_LEAST,
        EVENTS_TO_OFFERED_MIN,
    )
    yield ratio(
        "watch_https.event_to_reading_one",
        used * PODS / EVENTS / reading_cpu,
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


def _follow(stage: _Stage, *, version: str, memory: Memory) -> None:
    from metering.protocols.watch import Change, WatchedKind  # noqa: PLC0415 - As above.
    from metering.services.allocations.heartbeats import beat  # noqa: PLC0415
    from metering.services.allocations.lists import ledger_events  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    reported, pending = 0, []
    for event in stage.watch.watch(
        stage.target, WatchedKind.PODS, resource_version=version, timeout_seconds=300
    ):
        pending.append(event)
        reported += event.change is not Change.BOOKMARK
        if len(pending) < BATCH and reported < EVENTS:
            continue
        at = datetime.now(UTC)
        ledger_events(
            lease=stage.lease,
            kind=WatchedKind.PODS,
            events=pending,
            at=at,
            actor=system_actor("bench"),
        )
        beat(lease=stage.lease, at=at)
        memory.look()
        pending = []
        if reported >= EVENTS:
            return


def _restarted(stage: _Stage) -> Figure:
    """Restart the API beside a running watch; return how much longer the watch was blind."""
    from metering.models import WatchSpan  # noqa: PLC0415 - Django is set up by now.
    from metering.services.allocations.keeping import watch_cluster  # noqa: PLC0415 - As above.
    from metering.services.allocations.leading import Watcher  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    watcher = Watcher(
        name=stage.lease.holder,
        watch=stage.watch,
        actor=system_actor("bench"),
        clock=lambda: datetime.now(UTC),
    )
    thread = threading.Thread(
        target=watch_cluster,
        kwargs={
            "cluster_id": stage.lease.cluster_id,
            "target": stage.target,
            "watcher": watcher,
        },
    )
    begin = datetime.now(UTC)
    spans = WatchSpan.objects.order_by("-begin_at")
    thread.start()
    try:
        _wait_until(lambda: spans.filter(until_at__gt=begin).exists())
        stage.api.send("restart")
        down_seconds = stage.api.recv()
        before = spans[0]
        _wait_until(lambda: spans.filter(begin_at__gt=before.until_at).exists())
    finally:
        watcher.stop.set()
        thread.join()
    before.refresh_from_db()
    after = spans[0]
    assert not after.is_resumed
    blind_seconds = (after.begin_at - before.until_at).total_seconds()
    return invariant(
        "watch_https.blind_beyond_restart",
        blind_seconds - down_seconds,
        "s",
        BLIND_BEYOND_SECONDS_MAX,
        Bound.AT_MOST,
    )


def _wait_until(is_done: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not is_done():
        assert time.monotonic() < give_up_at
        time.sleep(0.1)


def _serve(folder: Path, control: Connection) -> None:
    """Serve pods; at "go" bind and delete others, a little faster than has to be kept up with.

    At "restart" stop, and serve the same pods some time later, without their history.
    """
    from simulator.kubernetes_api import (  # noqa: PLC0415 - A child's.
        KubernetesAPI,
    )

    with KubernetesAPI(folder, tokens={TOKEN: "system:admin"}) as api:
        bound_at = datetime.now(UTC) - timedelta(minutes=30)
        _load(api, bound_at=bound_at)
        control.send(str(api.kubeconfig(folder / "kubeconfig")))
        if control.recv() != "go":
            return
        _churn(api)
        if control.recv() != "restart":
            return
        down_at, port = time.monotonic(), urlsplit(api.url).port or 0
    time.sleep(DOWN_SECONDS)
    again = KubernetesAPI(
        folder,
        tokens={TOKEN: "system:admin"},
        port=port,
        first_version=api.store.version + 1_000,
        identity=api.identity,
    )
    _load(again, bound_at=bound_at)
    with again:
        control.send(time.monotonic() - down_at)
        control.recv()


def _load(api: "KubernetesAPI", *, bound_at: datetime) -> None:
    from simulator.kubernetes_api.resources import (  # noqa: PLC0415 - A child's.
        NODES as NODES_RESOURCE,
    )
    from simulator.kubernetes_api.resources import (  # noqa: PLC0415
        PODS as PODS_RESOURCE,
    )

    for number in range(NODES):
        name = f"node-{number}"
        allocatable = {"nvidia.com/gpu": "8"}
        node: JSON = {
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": LABELS},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        }
        api.store.put(NODES_RESOURCE, ("", name), node)
    for number in range(PODS):
        pod = _pod(number, bound_at=bound_at)
        api.store.put(PODS_RESOURCE, _key(pod), pod)


def _churn(api: "KubernetesAPI") -> None:
    from simulator.kubernetes_api.resources import (  # noqa: PLC0415 - As above.
        PODS as PODS_RESOURCE,
    )

    begin = time.monotonic()
    for number in range(EVENTS // 2):
        time.sleep(max(0, begin + 2 * number / OFFERED_PER_SECOND - time.monotonic()))
        pod = _pod(PODS + number, bound_at=datetime.now(UTC) - timedelta(seconds=1))
        api.store.put(PODS_RESOURCE, _key(pod), pod)
        api.store.remove(PODS_RESOURCE, _key(pod))


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

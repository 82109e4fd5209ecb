"""The watch's ledger: a list of 20,000 GPU pods, and a stream of events that does not end.

A plain COPY of the same ledger rows is the twin: what PostgreSQL takes to store them at all.
"""

import resource
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import (
    Bound,
    Figure,
    invariant,
    ledger_database,
    measured,
    measurement,
    ratio,
    row_sizes,
    scaled,
)

if TYPE_CHECKING:
    from metering.protocols.watch import ListPage, NodeState, PodState, WatchEvent
    from metering.services.allocations.leases import Lease

PODS = scaled(20_000)
PAGE = 500
NODES = scaled(2_500)
WARM_UP_PODS = scaled(2_000, least=PAGE)
EVENTS = scaled(30_000)
BATCH = 500
NAMESPACES = 50
EVENT_TO_COPIED_ROW_MAX = 40
GROWTH_MEBIBYTES_MAX = 16
COPY_TIMES_MAX = 31
START = datetime(2026, 10, 5, 12, tzinfo=UTC)
LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.count": "8",
    "nvidia.com/gpu.replicas": "1",
}


def run() -> Iterator[Figure]:
    """Ledger lists and events on a database of our own."""
    with ledger_database():
        lease = lead()
        list_nodes(lease)
        _list_pods(lease, count=WARM_UP_PODS, at=START)
        yield from _listed(lease)
        yield from row_sizes("metering_podallocation", "metering_noderecord")
        yield from _followed(lease)


def _listed(lease: "Lease") -> Iterator[Figure]:
    memory = Memory()
    with measured() as first:
        opened = _list_pods(lease, count=PODS, at=START + timedelta(minutes=1), memory=memory)
    memory.look()
    assert opened == PODS - WARM_UP_PODS, opened
    with measured() as again:
        assert _list_pods(lease, count=PODS, at=START + timedelta(minutes=2)) == 0
    copied = _copy_same_rows()
    yield measurement("watch.list", first.seconds, "s")
    yield measurement("watch.list_again", again.seconds, "s")
    yield ratio("watch.list_beside_copy", first.seconds / copied, Bound.AT_MOST, COPY_TIMES_MAX)
    yield invariant(
        "watch.list_memory",
        memory.grown_mebibytes,
        "MiB",
        GROWTH_MEBIBYTES_MAX,
        Bound.AT_MOST,
    )


def _followed(lease: "Lease") -> Iterator[Figure]:
    """Bind and delete pods that are not listed, a batch after another, with a heartbeat between."""
    from metering.protocols.watch import WatchedKind  # noqa: PLC0415 - Django is set up by now.
    from metering.services.allocations.heartbeats import beat  # noqa: PLC0415
    from metering.services.allocations.lists import ledger_events  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    copied = _copy_same_rows()
    at = START + timedelta(minutes=3)
    beat(lease=lease, at=at)
    slowest, memory = Decimal(0), Memory()
    with measured() as all_of_them:
        for first in range(0, EVENTS, BATCH):
            at += timedelta(milliseconds=500)
            events = list(_events(first, at=at))
            with measured() as one:
                ledger_events(
                    lease=lease,
                    kind=WatchedKind.PODS,
                    events=events,
                    at=at,
                    actor=system_actor("bench"),
                )
            slowest = max(slowest, one.seconds)
            beat(lease=lease, at=at)
            memory.look()
    yield measurement("watch.events", EVENTS / all_of_them.seconds, "events/s")
    yield measurement("watch.slowest_batch", slowest, "s")
    yield ratio(
        "watch.event_to_copied_row",
        all_of_them.seconds / EVENTS / (copied / PODS),
        Bound.AT_MOST,
        EVENT_TO_COPIED_ROW_MAX,
    )
    yield invariant(
        "watch.events_memory",
        memory.grown_mebibytes,
        "MiB",
        GROWTH_MEBIBYTES_MAX,
        Bound.AT_MOST,
    )


def _events(first: int, *, at: datetime) -> Iterator["WatchEvent"]:
    from metering.protocols.watch import Change, WatchEvent  # noqa: PLC0415 - As above.

    for number in range(first, first + BATCH):
        pod, is_end = divmod(number, 2)
        state = _pod(PODS + pod, bound_at=at - timedelta(seconds=1))
        change = Change.DELETED if is_end else Change.MODIFIED
        yield WatchEvent(change, str(number), at, state)


def lead() -> "Lease":
    """Become leader of the watch of a new cluster with all namespaces bound."""
    from metering.services.allocations.leases import take_lease  # noqa: PLC0415 - As above.
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.services.clusters import register_cluster  # noqa: PLC0415
    from tenants.services.namespaces import bind_namespace  # noqa: PLC0415
    from tenants.services.organizations import (  # noqa: PLC0415
        create_organization,
        create_project,
    )

    actor = system_actor("bench")
    cluster = register_cluster(
        slug="hopper", name="Hopper", metered_from=START, actor=actor, at=START
    )
    organization = create_organization(
        slug="bench", name="Bench", billing_currency="EUR", actor=actor, at=START
    )
    project = create_project(
        organization=organization, slug="bench", name="Bench", actor=actor, at=START
    )
    for number in range(NAMESPACES):
        bind_namespace(
            cluster=cluster,
            namespace=f"team-{number}",
            project=project,
            valid_from=START - timedelta(days=1),
            actor=actor,
            at=START,
        )
    lease = take_lease(
        cluster_id=cluster.id, holder="bench", lease_seconds=3_600, actor=actor, at=START
    )
    assert lease is not None
    return lease


def list_nodes(lease: "Lease") -> None:
    """Ledger every node."""
    from metering.protocols.watch import ListPage, WatchedKind  # noqa: PLC0415 - As above.
    from metering.services.allocations.lists import ledger_list  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    page = ListPage(tuple(_node(number) for number in range(NODES)), "1")
    ledger_list(
        lease=lease,
        kind=WatchedKind.NODES,
        pages=iter([page]),
        at=START - timedelta(hours=1),
        actor=system_actor("bench"),
    )


def _list_pods(lease: "Lease", *, count: int, at: datetime, memory: "Memory | None" = None) -> int:
    """Ledger a list of so many pods and return how many were new."""
    from metering.protocols.watch import WatchedKind  # noqa: PLC0415 - As above.
    from metering.services.allocations.lists import ledger_list  # noqa: PLC0415
    from tenants.domain.actors import system_actor  # noqa: PLC0415

    done = ledger_list(
        lease=lease,
        kind=WatchedKind.PODS,
        pages=_pages(count, memory=memory),
        at=at,
        actor=system_actor("bench"),
    )
    return done.opened


def _pages(count: int, *, memory: "Memory | None") -> Iterator["ListPage"]:
    from metering.protocols.watch import ListPage  # noqa: PLC0415 - As above.

    bound_at = START - timedelta(minutes=30)
    for first in range(0, count, PAGE):
        states = tuple(_pod(number, bound_at=bound_at) for number in range(first, first + PAGE))
        yield ListPage(states, "2")
        if memory:
            memory.look()


def _node(number: int) -> "NodeState":
    from metering.protocols.watch import NodeState  # noqa: PLC0415 - As above.

    name = f"node-{number}"
    return NodeState(f"uid-{name}", name, "1", labels=LABELS, allocatable={"nvidia.com/gpu": 8})


def _pod(number: int, *, bound_at: datetime) -> "PodState":
    from metering.protocols import ContainerKind, ContainerRequest  # noqa: PLC0415 - As above.
    from metering.protocols.watch import PodState  # noqa: PLC0415

    return PodState(
        uid=f"00000000-0000-4000-8000-{number:012d}",
        namespace=f"team-{number % NAMESPACES}",
        name=f"train-{number}",
        resource_version=str(number),
        node=f"node-{number % NODES}",
        phase="Running",
        created_at=bound_at - timedelta(seconds=10),
        requests=(ContainerRequest("main", ContainerKind.REGULAR, "nvidia.com/gpu", 1),),
        scheduled_at=bound_at,
        started_at=bound_at + timedelta(seconds=20),
        owner=f"user-{number % 200}",
        controller=f"Job/train-{number}",
        priority_class="batch",
        priority=10,
    )


def _copy_same_rows() -> Decimal:
    """Return the seconds PostgreSQL takes to COPY the ledger's rows into a table of its shape."""
    from django.db import connection, transaction  # noqa: PLC0415 - As above.

    with transaction.atomic(), connection.cursor() as cursor:
        with cursor.copy("COPY metering_podallocation TO STDOUT") as copy:
            text = b"".join(bytes(part) for part in copy)
        cursor.execute(
            "CREATE TEMPORARY TABLE copied (LIKE metering_podallocation INCLUDING ALL)"
            " ON COMMIT DROP"
        )
        begin = time.perf_counter_ns()
        with cursor.copy("COPY copied FROM STDIN") as copy:
            copy.write(text)
        return Decimal(time.perf_counter_ns() - begin) / 1_000_000_000


class Memory:
    """The highest growth of this process' memory since the begin."""

    def __init__(self) -> None:
        """Look once."""
        self._begin = self._most = _resident_kibibytes()

    def look(self) -> None:
        """Look again."""
        self._most = max(self._most, _resident_kibibytes())

    @property
    def grown_mebibytes(self) -> Decimal:
        """Return the growth."""
        return Decimal(self._most - self._begin) / 1024


def _resident_kibibytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // 1024

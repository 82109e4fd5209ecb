"""Two watches that list at once over one server connection keep their pods apart."""

import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded.postgres import EmbeddedPostgres
from metering.models import PodAllocation
from metering.protocols.watch import ListPage, WatchedKind
from metering.services.allocations.leases import Lease
from metering.services.allocations.lists import ledger_list
from metering.services.allocations.states import Ledgered
from simulator.hosts.pooler import Pooler
from tenants.models import Cluster
from tests.metering.services.collection.test_concurrency import at_once
from tests.pooled.conftest import reach_through
from tests.support.builders import make_cluster
from tests.support.metering.allocations.states import lead, pages, reported_pod
from tests.support.metering.seen import ACTOR, HOUR, moment

PODS = 1000
PAGE = 100


@pytest.fixture
def one_connection(
    postgres: EmbeddedPostgres,
    pooler_programs: Path,
    committed_db: str,  # noqa: ARG001 - It is what is reached.
) -> Iterator[None]:
    """Let all threads share one server connection, from transaction to transaction."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-pooler-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        narrow = Pooler(folder / "state", programs=pooler_programs, server=postgres, pool_size=1)
        narrow.start()
        reach_through(narrow)
        try:
            yield
        finally:
            narrow.stop()


@pytest.mark.usefixtures("one_connection")
def test_lists_of_two_clusters_at_once_do_not_mix() -> None:
    clusters = [make_cluster(slug, metered_from=HOUR, is_watched=True) for slug in ("a", "b")]
    leases = [lead(cluster.id).lease for cluster in clusters]
    in_step = threading.Barrier(len(clusters), timeout=20)
    done: dict[str, Ledgered] = {}

    at_once(
        *(
            lambda cluster=cluster, lease=lease: done.update(
                {cluster.slug: _list(cluster, lease, in_step)}
            )
            for cluster, lease in zip(clusters, leases, strict=True)
        )
    )

    assert {slug: (one.states, one.opened) for slug, one in done.items()} == {
        "a": (PODS, PODS),
        "b": (PODS, PODS),
    }
    for cluster in clusters:
        uids = set(PodAllocation.objects.filter(cluster=cluster).values_list("pod_uid", flat=True))
        assert uids == {f"{cluster.slug}-{number}" for number in range(PODS)}


def _list(cluster: Cluster, lease: Lease, in_step: threading.Barrier) -> Ledgered:
    """Ledger a list of pods whose pages come at the same time as those of the other cluster."""

    def read() -> Iterator[ListPage]:
        pods = [reported_pod(f"{cluster.slug}-{number}") for number in range(PODS)]
        for page in pages(pods, size=PAGE):
            in_step.wait()
            yield page
        in_step.wait()

    return ledger_list(lease=lease, kind=WatchedKind.PODS, pages=read(), at=moment(60), actor=ACTOR)

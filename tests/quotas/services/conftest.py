"""Clusters in which acme may hold eight units, and their twins in memory."""

from collections.abc import Iterator

import pytest

from metering.domain.collection import crashpoints
from quotas.models import QuotaLimit
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from simulator.adapters.workload_evictor import SimulatedWorkloads
from tenants.models import Cluster
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.preemption_steps import EVICTOR, Died
from tests.support.shared_rows import shared_rows


@shared_rows
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=8)
    return cluster


@pytest.fixture
def live() -> ReceivingCluster:
    return SimulatedQuotaEnforcer.cluster("hopper")


@shared_rows
def cluster(cast: Cast) -> Cluster:
    """Return a cluster that is watched and asks before it lets pods in."""
    cluster = make_cluster("hopper", is_watched=True, admission_mode="enforce")
    bind(cluster, "llm", cast.llm)
    return cluster


@shared_rows
def limit(cast: Cast) -> QuotaLimit:
    return make_limit(cast.acme, units=8)


@pytest.fixture
def workloads() -> SimulatedWorkloads:
    return EVICTOR.cluster("hopper")


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the names of points at which the next worker dies; once at each."""
    names: list[str] = []

    def listen(name: str) -> None:
        if name in names:
            names.remove(name)
            raise Died(name)

    monkeypatch.setattr(crashpoints, "_installed", [listen])
    yield names
    assert names == []

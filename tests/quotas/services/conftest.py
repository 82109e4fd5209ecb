"""One cluster with one governed namespace, and its twin in memory."""

import pytest

from quotas.adapters.simulated import SimulatedCluster, SimulatedQuotaEnforcer
from tenants.models import Cluster
from tests.builders import bind, make_cluster
from tests.cast import Cast
from tests.quotas.builders import make_limit


@pytest.fixture
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=8)
    return cluster


@pytest.fixture
def live() -> SimulatedCluster:
    return SimulatedQuotaEnforcer.cluster("hopper")

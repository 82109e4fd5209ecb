"""What tests of quotas share: the cast, and clusters in memory that start empty."""

from collections.abc import Iterator

import pytest

from simulator.adapters.quota_enforcer import SimulatedQuotaEnforcer
from simulator.adapters.workload_evictor import SimulatedWorkloadEvictor
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows


@shared_rows
def cast() -> Cast:
    return make_cast()


@pytest.fixture(autouse=True)
def empty_clusters() -> Iterator[None]:
    SimulatedQuotaEnforcer.purge()
    SimulatedWorkloadEvictor.purge()
    yield
    SimulatedQuotaEnforcer.purge()
    SimulatedWorkloadEvictor.purge()

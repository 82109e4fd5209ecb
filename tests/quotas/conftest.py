"""What tests of quotas share: the cast, and clusters in memory that start empty."""

from collections.abc import Iterator

import pytest

from quotas.adapters.simulated import SimulatedQuotaEnforcer
from quotas.adapters.simulated_workloads import SimulatedWorkloadEvictor
from tests.cast import Cast, make_cast


@pytest.fixture
def cast(db: None) -> Cast:  # noqa: ARG001 - The database comes first.
    return make_cast()


@pytest.fixture(autouse=True)
def empty_clusters() -> Iterator[None]:
    SimulatedQuotaEnforcer.forget()
    SimulatedWorkloadEvictor.forget()
    yield
    SimulatedQuotaEnforcer.forget()
    SimulatedWorkloadEvictor.forget()

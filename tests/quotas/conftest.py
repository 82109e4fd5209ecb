"""What tests of quotas share: the cast, clusters in memory that start empty, and patience."""

from collections.abc import Iterator

import psycopg
import pytest

from simulator.adapters.quota_enforcer import SimulatedQuotaEnforcer
from simulator.adapters.workload_evictor import SimulatedWorkloadEvictor
from tests.support.cast import Cast, make_cast


@pytest.fixture
def cast(db: None) -> Cast:  # noqa: ARG001 - The database comes first.
    return make_cast()


@pytest.fixture(autouse=True)
def empty_clusters() -> Iterator[None]:
    SimulatedQuotaEnforcer.purge()
    SimulatedWorkloadEvictor.purge()
    yield
    SimulatedQuotaEnforcer.purge()
    SimulatedWorkloadEvictor.purge()


@pytest.fixture
def patient(superuser_url: str) -> Iterator[psycopg.Connection]:
    """Return a superuser's connection, while statements of several wait for counters."""
    waits = "ALTER FUNCTION quotas_admit_many(jsonb) SET lock_timeout = "
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(f"{waits}'20s'")
        try:
            yield superuser
        finally:
            superuser.execute(f"{waits}'25ms'")

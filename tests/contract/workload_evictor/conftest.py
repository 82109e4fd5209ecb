"""Which clusters the suite runs against.

The simulated ones; only the cluster of CONTRACT_KUBECONFIG where that is set, as
`make contract KUBECONFIG=...` does.
"""

import os
from collections.abc import Iterator

import pytest

from tests.contract.workload_evictor.benches import (
    SUSPENDING,
    Bench,
    KubernetesBench,
    SimulatedBench,
)

KUBECONFIG = os.environ.get("CONTRACT_KUBECONFIG", "")
BENCHES = ["cluster"] if KUBECONFIG else ["simulated", "fake-api"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "suspends: about Jobs that can be suspended")


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Return each implementation; tests of what a server lacks are left out and reported."""
    made: Bench
    if request.param == "simulated":
        made = SimulatedBench()
    elif request.param == "fake-api":
        made = KubernetesBench(request.getfixturevalue("fake_kubeconfig"))
    else:
        made = KubernetesBench(os.path.expanduser(KUBECONFIG))  # noqa: PTH111 - Text in, text out.
    if request.node.get_closest_marker("suspends") and not made.suspends_jobs:
        made.close()
        pytest.skip(f"Left out: suspended Jobs (Kubernetes {SUSPENDING})")
    yield made
    made.close()

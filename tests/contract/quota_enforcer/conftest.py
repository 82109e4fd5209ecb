"""Which clusters the suite runs against.

The simulated ones; only the cluster of CONTRACT_KUBECONFIG where that is set, as
`make contract KUBECONFIG=...` does.
"""

import os
from collections.abc import Iterator

import pytest

from simulator.kubernetes_api import KubernetesAPI
from tests.contract.quota_enforcer.benches import (
    Bench,
    KubernetesBench,
    KueueBench,
    SimulatedBench,
)

KUBECONFIG = os.environ.get("CONTRACT_KUBECONFIG", "")
BENCHES = ["cluster"] if KUBECONFIG else ["simulated", "fake-api", "kueue"]


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from _opened(request)


@pytest.fixture(params=[name for name in BENCHES if name != "kueue"])
def quotas(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Return a bench whose quotas are objects with a key for each resource, as Kueue's are not."""
    yield from _opened(request)


def _opened(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made: Bench
    if request.param == "simulated":
        made = SimulatedBench()
    elif request.param == "cluster":
        made = KubernetesBench(KUBECONFIG)
    else:
        kind = KueueBench if request.param == "kueue" else KubernetesBench
        made = kind(request.getfixturevalue("fake_kubeconfig"))
    yield made
    made.close()


@pytest.fixture
def kueue(fake_kubeconfig: str) -> Iterator[KueueBench]:
    """Return a bench with Kueue's queues; only the simulated API has them."""
    made = KueueBench(fake_kubeconfig)
    yield made
    made.close()


@pytest.fixture(scope="session")
def fake_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("kubernetes")
    with KubernetesAPI(folder, tokens={"sesame": "contract"}, delay_seconds=(0.005, 0.3)) as api:
        yield str(api.kubeconfig(folder / "kubeconfig"))

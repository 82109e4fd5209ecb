"""Which clusters the suite runs against.

The simulated ones; only the cluster of CONTRACT_KUBECONFIG where that is set, as
`make contract KUBECONFIG=...` does.
"""

import os
from collections.abc import Iterator

import pytest
from kubernetes import config

from simulator.kubernetes_api import KubernetesAPI
from tests.contract.quota_enforcer.benches import (
    Bench,
    KubernetesBench,
    KueueBench,
    SimulatedBench,
)
from tests.support.kubernetes.kueue import has_kueue, installed
from tests.support.kubernetes.wire import Wire

NO_KUEUE = "a cluster without Kueue"
KUBECONFIG = os.environ.get("CONTRACT_KUBECONFIG", "")
BENCHES = ["cluster", "kueue"] if KUBECONFIG else ["simulated", "fake-api", "kueue"]


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
    elif request.param == "kueue":
        made = KueueBench(request.getfixturevalue("kueue_kubeconfig"))
    else:
        made = KubernetesBench(request.getfixturevalue("fake_kubeconfig"))
    yield made
    made.close()


@pytest.fixture
def kueue(kueue_kubeconfig: str) -> Iterator[KueueBench]:
    """Return a bench with Kueue's queues."""
    made = KueueBench(kueue_kubeconfig)
    yield made
    made.close()


@pytest.fixture(scope="module")
def kueue_kubeconfig(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the kubeconfig of an API server with Kueue's queues.

    The simulated one has them; a real one gets definitions of ours while a module runs.
    """
    if not KUBECONFIG:
        yield request.getfixturevalue("fake_kubeconfig")
        return
    wire = real_wire()
    if has_kueue(wire):
        pytest.skip(f"Left out: {NO_KUEUE}")
    with installed(wire):
        yield KUBECONFIG


def real_wire() -> Wire:
    """Return requests to the cluster of CONTRACT_KUBECONFIG."""
    found = config.new_client_from_config(KUBECONFIG)  # type: ignore[no-untyped-call]
    return Wire(found.configuration)


@pytest.fixture(scope="session")
def fake_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("kubernetes")
    with KubernetesAPI(folder, tokens={"sesame": "contract"}, delay_seconds=(0.005, 0.3)) as api:
        yield str(api.kubeconfig(folder / "kubeconfig"))

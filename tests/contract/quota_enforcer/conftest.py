"""Which clusters the suite runs against.

The simulated ones; only the cluster of CONTRACT_KUBECONFIG where that is set, as
`make contract KUBECONFIG=...` does.
"""

import os
from collections.abc import Iterator

import pytest

from metering.adapters.simulated_cluster.kubernetes_api import KubernetesAPI
from tests.contract.quota_enforcer.benches import Bench, KubernetesBench, SimulatedBench

KUBECONFIG = os.environ.get("CONTRACT_KUBECONFIG", "")
BENCHES = ["cluster"] if KUBECONFIG else ["simulated", "fake-api"]


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made: Bench
    if request.param == "simulated":
        made = SimulatedBench()
    elif request.param == "fake-api":
        made = KubernetesBench(request.getfixturevalue("fake_kubeconfig"))
    else:
        made = KubernetesBench(KUBECONFIG)
    yield made
    made.close()


@pytest.fixture(scope="session")
def fake_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("kubernetes")
    with KubernetesAPI(folder, tokens={"sesame": "contract"}, delay_seconds=(0.005, 0.3)) as api:
        yield str(api.kubeconfig(folder / "kubeconfig"))

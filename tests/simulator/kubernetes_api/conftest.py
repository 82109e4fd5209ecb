"""A simulated API server on a port of its own, and requests to it as they are."""

from collections.abc import Iterator

import pytest
from kubernetes import config

from simulator.kubernetes_api import KubernetesAPI
from tests.support.kubernetes.wire import Wire


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesAPI]:
    folder = tmp_path_factory.mktemp("api")
    with KubernetesAPI(folder, tokens={"good": "admin"}, bookmark_seconds=0.1) as api:
        yield api


@pytest.fixture
def api(served: KubernetesAPI) -> Iterator[KubernetesAPI]:
    """Return the module's server; faults that no request got are dropped."""
    yield served
    served.reset_faults()


@pytest.fixture(scope="module")
def wire(served: KubernetesAPI, tmp_path_factory: pytest.TempPathFactory) -> Wire:
    path = served.kubeconfig(tmp_path_factory.mktemp("kubeconfig") / "kubeconfig")
    made = config.new_client_from_config(config_file=str(path))  # type: ignore[no-untyped-call]
    return Wire(made.configuration)

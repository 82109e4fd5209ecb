"""What the contract suites share: a simulated Kubernetes API that any client may reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.kubernetes_api import KubernetesAPI
from tests.support.match_conditions import compile_condition


@pytest.fixture(scope="session")
def fake_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesAPI]:
    """Run an empty simulated Kubernetes API for the whole session."""
    folder = tmp_path_factory.mktemp("kubernetes-api")
    tokens = {"contract-token": "contract-admin"}
    with KubernetesAPI(
        folder, tokens=tokens, bookmark_seconds=0.3, compile_condition=compile_condition
    ) as api:
        yield api


@pytest.fixture(scope="session")
def fake_kubeconfig(fake_api: KubernetesAPI, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of a kubeconfig that reaches it."""
    path: Path = tmp_path_factory.mktemp("kubeconfig") / "kubeconfig"
    return str(fake_api.kubeconfig(path))

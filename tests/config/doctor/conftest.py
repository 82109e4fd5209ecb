"""Servers that the doctor asks: a Valkey, and a Kubernetes API."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client, config

from embedded.valkey import EmbeddedValkey
from simulator.kubernetes_api import KubernetesAPI
from tests.support.kubernetes.wire import Wire
from tests.support.match_conditions import compile_condition


@pytest.fixture(scope="session")
def valkey() -> Iterator[EmbeddedValkey]:
    """Give a server of our own."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        server = EmbeddedValkey(folder / "valkey")
        server.start()
        yield server
        server.stop()


@pytest.fixture
def kubernetes_api(tmp_path: Path) -> Iterator[KubernetesAPI]:
    """Run an empty simulated Kubernetes API."""
    tokens = {"admin-token": "admin"}
    with KubernetesAPI(tmp_path / "api", tokens=tokens, compile_condition=compile_condition) as api:
        yield api


@pytest.fixture
def wire(kubernetes_api: KubernetesAPI, tmp_path: Path) -> Wire:
    """Give requests of its administrator."""
    configuration = client.Configuration()
    kubeconfig = str(kubernetes_api.kubeconfig(tmp_path / "admin"))
    config.load_kube_config(kubeconfig, client_configuration=configuration)  # type: ignore[no-untyped-call]
    return Wire(configuration)

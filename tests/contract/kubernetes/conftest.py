"""Which API server the suite runs against: the simulated one, or the one of CONTRACT_KUBECONFIG.

`make contract KUBECONFIG=...` sets that variable. Everything the suite makes carries the labels
`gpu-ledger.io/contract=true` and `gpu-ledger.io/contract-run=<id>`, and is removed at the end, also
after a failure. Nothing else in the cluster is touched.
"""

import json
import os
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from tests.support.kubernetes.server import Server, discover
from tests.support.kubernetes.sweeping import close_namespace, sweep
from tests.support.kubernetes.wire import Wire

LABEL = "gpu-ledger.io/contract"
RUN_LABEL = "gpu-ledger.io/contract-run"
RUN = uuid.uuid4().hex[:8]
LABELS = {LABEL: "true", RUN_LABEL: RUN}
KUBECONFIG = os.environ.get("CONTRACT_KUBECONFIG", "")
GPU = "nvidia.com/gpu"
GPU_KEY = "requests.nvidia.com/gpu"
PATIENCE_SECONDS = 30
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
LEFT_OUT = "Left out: "
Core = Any
"""The core API. Its generated types want models; bodies go out here as kubectl sends them."""
Client = Any
Answer = Any


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(*what): group versions, versions such as 1.24, or webhooks"
    )
    config.addinivalue_line("markers", "real: takes controllers that the simulated API has not")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose no test of a real server's controllers where none is given."""
    real = [] if KUBECONFIG else [one for one in items if one.get_closest_marker("real")]
    config.hook.pytest_deselected(items=real)
    items[:] = [one for one in items if one not in real]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what the server could not be asked."""
    reasons: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else "")
        if LEFT_OUT in reason:
            what = reason.partition(LEFT_OUT)[2]
            reasons[what] = reasons.get(what, 0) + 1
    if reasons:
        reported = "; ".join(f"{what}: {count}" for what, count in sorted(reasons.items()))
        terminalreporter.write_line(f"Left out, as the server lacks it (tests): {reported}")


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> str:
    """Return the kubeconfig of the server under test."""
    if KUBECONFIG:
        return os.path.expanduser(KUBECONFIG)  # noqa: PTH111 - A path goes in, a path comes out.
    path: str = request.getfixturevalue("fake_kubeconfig")
    return path


@pytest.fixture(scope="session")
def api_client(kubeconfig: str) -> Client:
    """Return the official client."""
    return config.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def wire(api_client: Client) -> Iterator[Wire]:
    """Return requests as they are; everything of this run is removed at the end."""
    made = Wire(api_client.configuration)
    yield made
    sweep(made, f"{RUN_LABEL}={RUN}", patience_seconds=4 * PATIENCE_SECONDS)


@pytest.fixture(scope="session")
def server(wire: Wire) -> Server:
    """Return what the server under test says of itself."""
    return discover(wire)


@pytest.fixture(autouse=True)
def _what_is_needed(request: pytest.FixtureRequest, server: Server) -> None:
    """Leave a test out when the server does not serve what it is about."""
    for marker in request.node.iter_markers("needs"):
        lacking = [what for what in marker.args if not server.has(what)]
        if lacking:
            pytest.skip(f"{LEFT_OUT}{', '.join(lacking)}")


@pytest.fixture(scope="session")
def core(api_client: Client) -> Core:
    """Return the core API of the server under test."""
    return client.CoreV1Api(api_client)


@pytest.fixture
def namespace(core: Core, wire: Wire) -> Iterator[str]:
    """Return a namespace of the test's own, with its default account."""
    name = new_name()
    core.create_namespace({"metadata": {"name": name, "labels": LABELS}})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_for(lambda: wire.get(accounts).code == 200)
    yield name
    close_namespace(wire, name)


@pytest.fixture
def node(wire: Wire) -> Iterator[str]:
    """Return a node of the test's own, with eight GPUs."""
    name = new_name()
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": LABELS},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    assert wire.post("/api/v1/nodes", body).code == 201
    yield name
    wire.delete(f"/api/v1/nodes/{name}")


def new_name() -> str:
    return f"gpu-ledger-contract-{uuid.uuid4().hex[:8]}"


def pod_body(name: str, *, gpus: int = 0, **spec: object) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "example.com/none:1", "resources": resources}
    # Nothing mounts a token here: some servers make it only seconds after the namespace.
    spec.setdefault("automountServiceAccountToken", False)
    # Nobody places it but the test: this scheduler is none.
    spec.setdefault("schedulerName", "gpu-ledger-contract")
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def bind(core: Core, namespace: str, name: str, node: str = "contract-node") -> None:
    body = {"target": {"kind": "Node", "name": node}, "metadata": {"name": name}}
    core.create_namespaced_pod_binding(name, namespace, body, _preload_content=False)


def set_phase(core: Core, namespace: str, name: str, phase: str, *, is_ready: bool = False) -> None:
    """Do what a kubelet does: tell the phase, and whether the pod is ready."""
    conditions = [{"type": "Ready", "status": str(is_ready)}]
    body = {"status": {"phase": phase, "conditions": conditions}}
    core.patch_namespaced_pod_status(name, namespace, body, _content_type=STRATEGIC)


def hard_body(hard: dict[str, str], name: str = "gpus", **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, **metadata},
        "spec": {"hard": hard},
    }


def apply_quota(
    core: Core,
    namespace: str,
    body: dict[str, Any],
    *,
    manager: str = "gpu-ledger",
    force: bool = False,
) -> Answer:
    return core.patch_namespaced_resource_quota(
        body["metadata"]["name"],
        namespace,
        body,
        field_manager=manager,
        force=force,
        _content_type=APPLY,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until the server's controllers have caught up."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "The server did not catch up in time."
        time.sleep(0.02)


def status_of(core: Core, namespace: str, name: str = "gpus") -> Answer:
    return core.read_namespaced_resource_quota(name, namespace).status


def wait_for_hard(core: Core, namespace: str, hard: dict[str, str], name: str = "gpus") -> None:
    wait_for(lambda: status_of(core, namespace, name).hard == hard)


def wait_for_used(core: Core, namespace: str, used: str) -> None:
    wait_for(lambda: (status_of(core, namespace).used or {}).get(GPU_KEY) == used)


def refusal(call: Callable[[], object]) -> ApiException:
    """Return the refusal of a call that must not go through."""
    with pytest.raises(ApiException) as caught:
        call()
    return caught.value


def status_body(error: ApiException) -> dict[str, Any]:
    """Return the Status object of a refusal."""
    found: dict[str, Any] = json.loads(error.body or "{}")
    return found

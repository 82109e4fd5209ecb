"""Which API servers the suite runs against.

The simulated one always; any other one when KUBECONFIG names it:

    KUBECONFIG=~/.kube/config pytest tests/contract/kubernetes

It touches only namespaces it makes itself, which carry the label `gpu-ledger.io/contract=true`,
and deletes them again.
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

LABEL = "gpu-ledger.io/contract"
GPU = "nvidia.com/gpu"
GPU_KEY = "requests.nvidia.com/gpu"
PATIENCE_SECONDS = 10
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
Core = Any
"""The core API. Its generated types want models; bodies go out here as kubectl sends them."""
Client = Any
Answer = Any
SERVERS = ["simulated", *(["cluster"] if os.environ.get("KUBECONFIG") else [])]


@pytest.fixture(scope="session", params=SERVERS)
def kubeconfig(request: pytest.FixtureRequest) -> str:
    """Return the kubeconfig of the server under test."""
    if request.param == "simulated":
        path: str = request.getfixturevalue("fake_kubeconfig")
        return path
    return os.environ["KUBECONFIG"]


@pytest.fixture(scope="session")
def api_client(kubeconfig: str) -> Client:
    """Return the official client."""
    return config.new_client_from_config(config_file=kubeconfig)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session")
def core(api_client: Client) -> Core:
    """Return the core API of the server under test."""
    return client.CoreV1Api(api_client)


@pytest.fixture
def namespace(core: Core) -> Iterator[str]:
    """Return a namespace of the test's own."""
    name = new_name()
    core.create_namespace({"metadata": {"name": name, "labels": {LABEL: "true"}}})
    yield name
    try:
        core.delete_namespace(name)
    except ApiException as error:
        if error.status != 404:
            raise


def new_name() -> str:
    return f"gpu-ledger-contract-{uuid.uuid4().hex[:8]}"


def pod_body(name: str, *, gpus: int = 0, **spec: object) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "example.com/none:1", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


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

"""A pod that requests a class' devices by their resource name: what the scheduler makes of it."""

from collections.abc import Iterator

import pytest

from metering.adapters.kubernetes import KubernetesClusterWatch
from metering.domain.catalogue.names import CLASS_PREFIX
from metering.protocols.watch import ClaimState, ObjectState, PodState, WatchedKind, WatchTarget
from metering.services.allocations.pods import requests_of
from tests.contract.kubernetes.conftest import LABELS, new_name, pod_body, wait_for
from tests.contract.kubernetes.test_claims import API
from tests.support.kubernetes.wire import Wire
from tests.support.references import reference_to

pytestmark = [pytest.mark.real, pytest.mark.needs(API)]
READY = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]


@pytest.fixture
def node(wire: Wire) -> Iterator[str]:
    """Return a node of ours with one device, and a class of the same name for it."""
    name = new_name()
    own = {"name": name, "labels": {**LABELS, "kubernetes.io/hostname": name}}
    assert wire.post("/api/v1/nodes", {"metadata": own}).code == 201
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    status = {"conditions": READY, "allocatable": allocatable, "capacity": allocatable}
    assert wire.patch(f"/api/v1/nodes/{name}/status", {"status": status}).code == 200
    wire.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    attributes = {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"}}
    offer = {
        "driver": "gpu.example.com",
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": attributes}],
    }
    assert wire.post(f"/apis/{API}/resourceslices", {"metadata": own, "spec": offer}).code == 201
    selector = {"cel": {"expression": 'device.driver == "gpu.example.com"'}}
    named = {"selectors": [selector], "extendedResourceName": f"example.com/{name}"}
    assert wire.post(f"/apis/{API}/deviceclasses", {"metadata": own, "spec": named}).code == 201
    yield name
    for path in (f"/apis/{API}/deviceclasses", f"/apis/{API}/resourceslices", "/api/v1/nodes"):
        wire.delete(f"{path}/{name}")


def test_the_claim_that_the_scheduler_makes_is_what_is_billed(
    wire: Wire, namespace: str, kubeconfig: str, node: str
) -> None:
    body = pod_body(
        "train", schedulerName="default-scheduler", nodeSelector={"kubernetes.io/hostname": node}
    )
    body["spec"]["containers"][0]["resources"] = {"limits": {f"example.com/{node}": "1"}}
    pod = f"/api/v1/namespaces/{namespace}/pods/train"
    assert wire.post(pod.rpartition("/")[0], body).code == 201
    target = WatchTarget("contract", credential_reference=reference_to(kubeconfig))
    watch = KubernetesClusterWatch()

    def states(kind: WatchedKind) -> list[ObjectState]:
        return [one for page in watch.list(target, kind) for one in page.states]

    assert states(WatchedKind.CLASSES)
    wait_for(lambda: bool(wire.get(pod).body["spec"].get("nodeName")))

    (bound,) = [
        one
        for one in states(WatchedKind.PODS)
        if isinstance(one, PodState) and one.namespace == namespace
    ]
    (claim,) = [
        one
        for one in states(WatchedKind.CLAIMS)
        if isinstance(one, ClaimState) and one.namespace == namespace
    ]
    assert [ask.resource for ask in bound.requests] == [f"{CLASS_PREFIX}{node}"]
    assert bound.extended_claim == claim.name
    assert requests_of(bound) == {f"claim/{claim.name}": 1}
    assert claim.is_for_extended_resource
    assert [(one.device_class, one.device) for one in claim.devices] == [(node, "gpu-0")]
    assert claim.consumers == ((bound.uid, "train"),)

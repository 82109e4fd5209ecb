"""Dynamic Resource Allocation: claims, who they are reserved for, and what a node offers."""

from collections.abc import Iterator

import pytest

from metering.adapters.kubernetes import KubernetesClusterWatch
from metering.protocols.watch import ClassState, WatchedKind, WatchTarget
from tests.contract.kubernetes.conftest import LABELS, new_name, pod_body
from tests.support.kubernetes.wire import Body, Wire
from tests.support.references import reference_to

pytestmark = pytest.mark.needs("resource.k8s.io/v1")
API = "resource.k8s.io/v1"
CONSUMER = {"resource": "pods", "name": "trainer", "uid": "11111111-1111-4111-8111-111111111111"}
RESULT = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}


def claims(namespace: str) -> str:
    return f"/apis/{API}/namespaces/{namespace}/resourceclaims"


def claim_spec(count: int = 1) -> Body:
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def claim_body(name: str = "training") -> Body:
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": claim_spec(),
    }


def allocate(wire: Wire, namespace: str, **status: object) -> int:
    body = {"status": {"allocation": ALLOCATION, **status}}
    return wire.patch(f"{claims(namespace)}/training/status", body).code


def consumer(wire: Wire, namespace: str, name: str) -> Body:
    made = wire.post(f"/api/v1/namespaces/{namespace}/pods", pod_body(name))
    return {"resource": "pods", "name": name, "uid": made.body["metadata"]["uid"]}


@pytest.fixture
def claimed(wire: Wire, namespace: str) -> str:
    assert wire.post(claims(namespace), claim_body()).code == 201
    return namespace


def test_a_new_claim_is_allocated_to_nobody(wire: Wire, namespace: str) -> None:
    body = {**claim_body(), "status": {"allocation": ALLOCATION}}

    made = wire.post(claims(namespace), body)

    assert made.code == 201
    assert not made.body.get("status")
    assert made.body["spec"]["devices"]["requests"][0]["name"] == "gpu"


def test_allocation_and_consumers_are_its_status(wire: Wire, claimed: str) -> None:
    # A controller takes consumers off whose pod there is not.
    user = consumer(wire, claimed, "user")

    assert allocate(wire, claimed, reservedFor=[user]) == 200

    status = wire.get(f"{claims(claimed)}/training").body["status"]
    assert status["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert status["reservedFor"] == [user]


def test_an_ordinary_write_allocates_nothing(wire: Wire, claimed: str) -> None:
    body = {"metadata": {"labels": {"a": "b"}}, "status": {"allocation": ALLOCATION}}

    changed = wire.patch(f"{claims(claimed)}/training", body)

    assert changed.body["metadata"]["labels"] == {"a": "b"}
    assert not changed.body.get("status")


def test_a_status_write_leaves_the_labels(wire: Wire, claimed: str) -> None:
    body = {"metadata": {"labels": {"a": "b"}}, "status": {"allocation": ALLOCATION}}

    wire.patch(f"{claims(claimed)}/training/status", body)

    assert "labels" not in wire.get(f"{claims(claimed)}/training").body["metadata"]


def test_nobody_consumes_what_is_not_allocated(wire: Wire, claimed: str) -> None:
    refused = wire.patch(
        f"{claims(claimed)}/training/status", {"status": {"reservedFor": [CONSUMER]}}
    )

    assert refused.code == 422
    assert refused.body["details"]["causes"][0]["field"] == "status.reservedFor"
    assert not wire.get(f"{claims(claimed)}/training").body.get("status")


def test_nobody_consumes_twice(wire: Wire, claimed: str) -> None:
    assert allocate(wire, claimed, reservedFor=[CONSUMER, CONSUMER]) == 422


def test_what_a_claim_asks_for_cannot_change(wire: Wire, claimed: str) -> None:
    refused = wire.patch(f"{claims(claimed)}/training", {"spec": claim_spec(2)})

    found = wire.get(f"{claims(claimed)}/training").body
    assert refused.code == 422
    assert found["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1


def test_consumers_that_come_and_go_are_watched(wire: Wire, claimed: str) -> None:
    # Pods there are: a controller takes away those that are gone.
    first, second = (consumer(wire, claimed, name) for name in ("trainer", "helper"))
    version = wire.get(claims(claimed)).body["metadata"]["resourceVersion"]
    allocate(wire, claimed, reservedFor=[first])
    allocate(wire, claimed, reservedFor=[first, second])
    allocate(wire, claimed, reservedFor=[])
    wire.delete(f"{claims(claimed)}/training")

    events = list(wire.watch(claims(claimed), resourceVersion=version))

    counts = [len(one["object"]["status"].get("reservedFor") or []) for one in events]
    assert [one["type"] for one in events] == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
    assert counts == [1, 2, 0, 0]


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ({}, {"allocationMode": "ExactCount", "count": 1}),
        ({"count": 2}, {"allocationMode": "ExactCount", "count": 2}),
        ({"allocationMode": "All"}, {"allocationMode": "All"}),
    ],
    ids=["nothing", "count", "all"],
)
def test_a_request_is_for_one_device_unless_reported(
    wire: Wire, namespace: str, asked: Body, kept: Body
) -> None:
    name = {"deviceClassName": "gpu.nvidia.com"}
    choice = {"name": "b", "firstAvailable": [{"name": "c", **name, **asked}]}
    spec = {"devices": {"requests": [{"name": "a", "exactly": {**name, **asked}}, choice]}}

    made = wire.post(claims(namespace), {**claim_body(), "spec": spec})

    first, second = made.body["spec"]["devices"]["requests"]
    assert first["exactly"] == {**name, **kept}
    assert second["firstAvailable"] == [{"name": "c", **name, **kept}]


def test_templates_are_kept_with_what_they_left_open(wire: Wire, namespace: str) -> None:
    path = f"/apis/{API}/namespaces/{namespace}/resourceclaimtemplates"
    body = {
        "apiVersion": API,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": claim_spec()},
    }

    assert wire.post(path, body).code == 201
    (request,) = wire.get(f"{path}/one-gpu").body["spec"]["spec"]["devices"]["requests"]
    (asked,) = claim_spec()["devices"]["requests"]
    assert request == {
        "name": "gpu",
        "exactly": {**asked["exactly"], "allocationMode": "ExactCount"},
    }


@pytest.fixture
def slice_of(wire: Wire) -> Iterator[str]:
    name = new_name()
    body = {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": "gpu-0", "attributes": {"productName": {"string": "H100"}}},
                {"name": "gpu-1", "attributes": {"productName": {"string": "H100"}}},
            ],
        },
    }
    assert wire.post(f"/apis/{API}/resourceslices", body).code == 201
    yield name
    wire.delete(f"/apis/{API}/resourceslices/{name}")


def test_what_a_node_offers_is_found_by_the_node(wire: Wire, slice_of: str) -> None:
    found = wire.get(f"/apis/{API}/resourceslices", fieldSelector=f"spec.nodeName={slice_of}")

    (one,) = found.body["items"]
    assert found.body["kind"] == "ResourceSliceList"
    assert [device["name"] for device in one["spec"]["devices"]] == ["gpu-0", "gpu-1"]


def test_a_slice_without_a_driver_is_invalid(wire: Wire) -> None:
    body = {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": new_name(), "labels": LABELS},
        "spec": {"pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}},
    }

    assert wire.post(f"/apis/{API}/resourceslices", body).code == 422


def test_a_device_class_selects_by_its_driver(wire: Wire) -> None:
    name = new_name()
    selector = {"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}
    body = {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"selectors": [selector]},
    }

    assert wire.post(f"/apis/{API}/deviceclasses", body).code == 201
    assert wire.get(f"/apis/{API}/deviceclasses/{name}").body["spec"]["selectors"] == [selector]
    assert wire.delete(f"/apis/{API}/deviceclasses/{name}").code == 200


def test_a_device_class_keeps_the_resource_name_of_its_devices(wire: Wire, kubeconfig: str) -> None:
    name = new_name()
    body = {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"extendedResourceName": f"example.com/{name}"},
    }
    assert wire.post(f"/apis/{API}/deviceclasses", body).code == 201

    target = WatchTarget("contract", credential_reference=reference_to(kubeconfig))
    watch = KubernetesClusterWatch()
    assert watch.serves(target, WatchedKind.CLASSES)
    states = [one for page in watch.list(target, WatchedKind.CLASSES) for one in page.states]

    named = {one.name: one.extended_resource for one in states if isinstance(one, ClassState)}
    assert named[name] == f"example.com/{name}"
    assert wire.delete(f"/apis/{API}/deviceclasses/{name}").code == 200

"""Raw nodes, claims and slices into states."""

from datetime import datetime
from typing import Any

import pytest

from metering.adapters.kubernetes.claims import claim_state, slice_state
from metering.adapters.kubernetes.nodes import node_state
from metering.protocols.watch import ClaimedDevice, NodeState
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.allocations.kubernetes import NOW

ALLOCATED = datetime.fromisoformat("2026-10-05T11:00:03Z")


def metadata(name: str, **fields: object) -> dict[str, Any]:
    return {
        "uid": f"uid-{name}",
        "name": name,
        "resourceVersion": "7",
        "creationTimestamp": "2026-10-05T11:00:00Z",
        **fields,
    }


def node(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - Raw JSON.
    return {
        "kind": "Node",
        "metadata": metadata("node-1", labels={"nvidia.com/gpu.product": "H100", "zone": "a"}),
        "status": {
            "allocatable": {"cpu": "64", "nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": "0"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True"},
            ],
        },
        **fields,
    }


def read(obj: dict[str, Any]) -> NodeState:
    return node_state(obj, seen_at=NOW, is_gpu=lambda name: name.startswith("nvidia.com/"))


def test_a_node_offers_its_gpus_and_keeps_its_labels() -> None:
    assert read(node()) == NodeState(
        uid="uid-node-1",
        name="node-1",
        resource_version="7",
        labels={"nvidia.com/gpu.product": "H100", "zone": "a"},
        allocatable={"nvidia.com/gpu": 8, "nvidia.com/mig-1g.10gb": 0},
        is_ready=True,
        is_schedulable=True,
    )


def test_a_cordoned_node_offers_but_takes_nobody() -> None:
    cordoned = read(node(spec={"unschedulable": True}))

    assert (cordoned.is_ready, cordoned.is_schedulable) == (True, False)
    assert cordoned.allocatable["nvidia.com/gpu"] == 8


@pytest.mark.parametrize("status", ["False", "Unknown", None])
def test_a_node_is_ready_only_when_it_says_so(status: str | None) -> None:
    obj = node()
    obj["status"]["conditions"] = [] if status is None else [{"type": "Ready", "status": status}]

    assert not read(obj).is_ready


def test_an_offer_that_cannot_be_is_left_out_and_reported() -> None:
    obj = node()
    obj["status"]["allocatable"]["nvidia.com/gpu"] = "7500m"

    state = read(obj)

    assert state.allocatable == {"nvidia.com/mig-1g.10gb": 0}
    assert state.defects == ('Its offer of nvidia.com/gpu cannot be "7500m".',)


def claim(requests: list[Any], results: list[Any], **meta: object) -> dict[str, Any]:
    return {
        "kind": "ResourceClaim",
        "metadata": metadata("gpus", namespace="llm", **meta),
        "spec": {"devices": {"requests": requests}},
        "status": {
            "allocation": {
                "allocationTimestamp": "2026-10-05T11:00:03Z",
                "devices": {"results": results},
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
                            ]
                        }
                    ]
                },
            },
            "reservedFor": [
                {"resource": "pods", "name": "train-0", "uid": "uid-a"},
                {"resource": "pods", "name": "train-1", "uid": "uid-b"},
                {"apiGroup": "batch", "resource": "jobs", "name": "train", "uid": "uid-c"},
            ],
        },
    }


def result(request: str, device: str, **fields: object) -> dict[str, Any]:
    return {
        "request": request,
        "driver": "gpu.nvidia.com",
        "pool": "node-1",
        "device": device,
        **fields,
    }


def exactly(name: str, device_class: str, **fields: object) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, **fields}}


def held(device_class: str, device: str) -> ClaimedDevice:
    return ClaimedDevice(device_class, "gpu.nvidia.com", "node-1", device)


def test_a_claim_holds_each_device_under_its_requests_class() -> None:
    state = claim_state(
        claim(
            [
                exactly("whole", "gpu.nvidia.com"),
                {
                    "name": "part",
                    "firstAvailable": [
                        {"name": "small", "deviceClassName": "mig-1g.nvidia.com"},
                        {"name": "big", "deviceClassName": "mig-3g.nvidia.com"},
                    ],
                },
            ],
            [result("whole", "gpu-0"), result("whole", "gpu-1"), result("part/big", "gpu-2-mig-3")],
        ),
        seen_at=NOW,
    )

    assert state.devices == (
        held("gpu.nvidia.com", "gpu-0"),
        held("gpu.nvidia.com", "gpu-1"),
        held("mig-3g.nvidia.com", "gpu-2-mig-3"),
    )
    assert (state.uid, state.namespace, state.name) == ("uid-gpus", "llm", "gpus")
    assert (state.allocated_at, state.node, state.deletion_at) == (ALLOCATED, "node-1", None)
    assert state.consumers == (("uid-a", "train-0"), ("uid-b", "train-1"))
    assert state.defects == ()


def test_a_claim_that_is_not_allocated_holds_nothing() -> None:
    obj = claim([exactly("whole", "gpu.nvidia.com")], [])
    obj["status"] = {}

    state = claim_state(obj, seen_at=NOW)

    assert (state.devices, state.allocated_at, state.node, state.consumers) == ((), None, "", ())


@pytest.mark.parametrize(
    ("request_fields", "result_fields"), [({"adminAccess": True}, {}), ({}, {"adminAccess": True})]
)
def test_devices_that_are_only_looked_at_are_left_out(
    request_fields: dict[str, object], result_fields: dict[str, object]
) -> None:
    state = claim_state(
        claim(
            [exactly("look", "gpu.nvidia.com", **request_fields), exactly("use", "gpu.nvidia.com")],
            [result("look", "gpu-0", **result_fields), result("use", "gpu-1")],
        ),
        seen_at=NOW,
    )

    assert state.devices == (held("gpu.nvidia.com", "gpu-1"),)


@pytest.mark.parametrize("said", ["true", "false"])
def test_what_a_claim_says_to_be_for_an_extended_resource_is_reported_with_it(said: str) -> None:
    state = claim_state(
        claim(
            [exactly("container-0-request-0", "gpu.nvidia.com")],
            [result("container-0-request-0", "gpu-0")],
            annotations={"resource.kubernetes.io/extended-resource-claim": said},
        ),
        seen_at=NOW,
    )

    assert state.is_for_extended_resource is (said == "true")
    assert state.devices == (held("gpu.nvidia.com", "gpu-0"),)


def test_what_cannot_be_priced_of_a_claim_is_reported() -> None:
    state = claim_state(
        claim(
            [exactly("whole", "gpu.nvidia.com")],
            [result("whole", "gpu-0", shareID="s-1"), result("other", "gpu-1")],
        ),
        seen_at=NOW,
    )

    assert state.devices == (held("gpu.nvidia.com", "gpu-0"), held("", "gpu-1"))
    assert state.defects == (
        "The request whole holds a share of a device, which is not sized.",
        "The allocation answers other, which the claim does not request.",
    )


@pytest.mark.parametrize(
    "terms",
    [
        [],
        [{}, {}],
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}],
        [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}],
        [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}],
    ],
)
def test_an_allocation_that_may_be_used_on_several_nodes_names_none(terms: list[Any]) -> None:
    obj = claim([], [])
    obj["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"] = terms

    assert claim_state(obj, seen_at=NOW).node == ""


def test_a_consumer_without_a_uid_is_no_answer() -> None:
    obj = claim([], [])
    obj["status"]["reservedFor"] = [{"resource": "pods", "name": "train-0"}]

    with pytest.raises(SourceUnavailableError) as refusal:
        claim_state(obj, seen_at=NOW)

    assert refusal.value.reason == "bad_answer"


def test_a_slice_shows_attributes_and_capacities_of_each_device_as_text() -> None:
    state = slice_state(
        {
            "kind": "ResourceSlice",
            "metadata": metadata("node-1-gpu"),
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": "node-1",
                "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": "gpu-0",
                        "attributes": {
                            "productName": {"string": "NVIDIA H100 80GB HBM3"},
                            "index": {"int": 0},
                            "driverVersion": {"version": "580.82.7"},
                            "mig": {"bool": True},
                            "ecc": {"bool": False},
                        },
                        "capacity": {"memory": {"value": "80Gi"}},
                    },
                    {"name": "gpu-1"},
                ],
            },
        }
    )

    assert (state.driver, state.pool, state.node) == ("gpu.nvidia.com", "node-1", "node-1")
    assert state.devices == {
        "gpu-0": {
            "productName": "NVIDIA H100 80GB HBM3",
            "index": "0",
            "driverVersion": "580.82.7",
            "mig": "true",
            "ecc": "false",
            "capacity/memory": "80Gi",
        },
        "gpu-1": {},
    }

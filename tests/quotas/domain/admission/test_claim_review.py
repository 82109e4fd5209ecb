"""How many devices of which classes a ResourceClaim asks for."""

from typing import Any

import pytest

from quotas.domain.admission.pod_fields import PodInvalidError
from quotas.domain.admission.review import (
    ALL_DEVICES,
    FOR_EXTENDED_RESOURCE,
    claimed_classes,
    is_for_extended_resource,
)

JSON = dict[str, Any]


def claim(*requests: JSON, **metadata: object) -> JSON:
    return {"metadata": metadata, "spec": {"devices": {"requests": list(requests)}}}


def exactly(device_class: str = "gpu.nvidia.com", **more: object) -> JSON:
    return {"name": "r", "exactly": {"deviceClassName": device_class, **more}}


@pytest.mark.parametrize(
    ("request_", "classes"),
    [
        (exactly(), {"gpu.nvidia.com": 1}),
        (exactly(count=4), {"gpu.nvidia.com": 4}),
        (exactly(allocationMode="All"), {"gpu.nvidia.com": ALL_DEVICES}),
        (exactly(adminAccess=True), {}),
        ({"name": "r", "deviceClassName": "old", "count": 2}, {"old": 2}),
        ({"name": "r"}, {}),
        (
            {
                "name": "r",
                "firstAvailable": [
                    {"deviceClassName": "mig.nvidia.com", "count": 2},
                    {"deviceClassName": "mig.nvidia.com", "count": 3},
                    {"deviceClassName": "gpu.nvidia.com"},
                ],
            },
            {"gpu.nvidia.com": 1, "mig.nvidia.com": 3},
        ),
    ],
    ids=str,
)
def test_classes_are_counted_to_the_most_they_can_be(
    request_: JSON, classes: dict[str, int]
) -> None:
    assert dict(claimed_classes(claim(request_))) == classes


def test_requests_add_up() -> None:
    both = claim(exactly(count=2), exactly(), exactly("mig.nvidia.com"))

    assert dict(claimed_classes(both)) == {"gpu.nvidia.com": 3, "mig.nvidia.com": 1}


def test_an_annotation_takes_no_device_away() -> None:
    made = claim(exactly(count=8), annotations={FOR_EXTENDED_RESOURCE: "true"})

    assert dict(claimed_classes(made)) == {"gpu.nvidia.com": 8}
    assert is_for_extended_resource(made)
    assert not is_for_extended_resource(claim(annotations={FOR_EXTENDED_RESOURCE: "false"}))
    assert not is_for_extended_resource(claim())


@pytest.mark.parametrize("count", [0, -1, "2", True, 1_000_001, None, 1.5])
def test_a_count_that_is_none_is_refused(count: object) -> None:
    with pytest.raises(PodInvalidError):
        claimed_classes(claim(exactly(count=count)))


@pytest.mark.parametrize(
    "broken",
    [
        {"spec": []},
        {"spec": {"devices": "all"}},
        {"spec": {"devices": {"requests": {}}}},
        {"spec": {"devices": {"requests": [{"exactly": 1}]}}},
        {"spec": {"devices": {"requests": [{"firstAvailable": {}}]}}},
        {"spec": {"devices": {"requests": [exactly(["a"])]}}},  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_claim_no_server_would_make_is_refused(broken: JSON) -> None:
    with pytest.raises(PodInvalidError):
        claimed_classes(broken)


@pytest.mark.parametrize("broken", [{"metadata": 1}, {"metadata": {"annotations": []}}], ids=str)
def test_an_annotation_of_no_claim_is_refused(broken: JSON) -> None:
    with pytest.raises(PodInvalidError):
        is_for_extended_resource(broken)

"""A record of a claim's part names the claim and the class, and both are read back from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.allocations.claims import (
    CLASS_LENGTH_MAX,
    allocation_key,
    offered_resource,
    record_resource,
)

UID = "8a3f0f5e-7a52-4a0e-9d5e-0d2c6d1f4b7a"
RESOURCE_LENGTH_MAX = 128


def test_a_part_of_a_claim_is_of_the_claims_allocation() -> None:
    named = record_resource(claim_uid="c1", resource="claim/gpu.nvidia.com#2")

    assert named == "claim/c1/gpu.nvidia.com#2"
    assert allocation_key(uid="p1", resource=named) == ("c1", "claim/gpu.nvidia.com#2")


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "claim/gpu.nvidia.com"])
def test_anything_else_is_of_itself(resource: str) -> None:
    assert allocation_key(uid="a", resource=resource) == ("a", resource)


@pytest.mark.parametrize(
    ("resource", "offered"),
    [
        ("nvidia.com/gpu", "nvidia.com/gpu"),
        ("claim/gpu.nvidia.com", "claim/gpu.nvidia.com"),
        ("claim/gpu.nvidia.com#2", "claim/gpu.nvidia.com"),
        ("claim/c1/gpu.nvidia.com", "claim/gpu.nvidia.com"),
        ("claim/c1/gpu.nvidia.com#12", "claim/gpu.nvidia.com"),
    ],
)
def test_nodes_offer_a_class_whichever_claim_holds_it(resource: str, offered: str) -> None:
    assert offered_resource(resource) == offered


@given(
    device_class=st.text("abc.-", min_size=1, max_size=CLASS_LENGTH_MAX),
    number=st.integers(2, 9999) | st.none(),
)
def test_names_are_read_back_and_fit_the_ledger(device_class: str, number: int | None) -> None:
    resource = f"claim/{device_class}" + (f"#{number}" if number else "")
    named = record_resource(claim_uid=UID, resource=resource)

    assert len(named) <= RESOURCE_LENGTH_MAX
    assert allocation_key(uid="p1", resource=named) == (UID, resource)
    assert offered_resource(named) == offered_resource(resource) == f"claim/{device_class}"

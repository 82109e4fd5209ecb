"""What requests count to before a pod has a node."""

from fractions import Fraction

import pytest

from metering.domain.catalogue.sizing import DEFAULT_RULES, Sized
from metering.domain.catalogue.units import GPUSize, SharingMode
from quotas.domain.admission.demands import UnknownDeviceError, demands_of
from quotas.domain.admission.node_fit import NodeOffer, Placement, placement_of
from quotas.domain.admission.values import Demand

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
S, M, L = GPUSize.SMALL, GPUSize.MEDIUM, GPUSize.LARGE


def offer(
    product: str, size: GPUSize, group: str, mode: SharingMode = SharingMode.WHOLE
) -> NodeOffer:
    sized = Sized(GPU, size, group, mode, Fraction(1), product, 1)
    return NodeOffer(frozenset({f"node-{product}"}), {PRODUCT: product}, {GPU: sized})


MIXED = (
    offer("H100", L, "H100/whole"),
    offer("A100", L, "A100/whole"),
    offer("A100-SHARED", S, "A100/1of4", SharingMode.TIME_SLICING),
)


def demands(
    requests: dict[str, int],
    *,
    spec: dict[str, object] | None = None,
    offers: tuple[NodeOffer, ...] = MIXED,
    seen: dict[str, frozenset[GPUSize]] | None = None,
) -> tuple[Demand, ...]:
    placement = placement_of(spec or {})
    return demands_of(requests, placement, offers=offers, rules=DEFAULT_RULES, seen=seen or {})


def test_without_a_selector_the_largest_size_and_every_model_count() -> None:
    assert demands({GPU: 2}) == (Demand(GPU, L, 2, ("A100", "H100"), ("time-slicing", "whole")),)


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("H100", Demand(GPU, L, 1, ("H100",), ("whole",))),
        ("A100-SHARED", Demand(GPU, S, 1, ("A100",), ("time-slicing",))),
    ],
)
def test_a_selector_narrows_what_it_counts_to(product: str, expected: Demand) -> None:
    assert demands({GPU: 1}, spec={"nodeSelector": {PRODUCT: product}}) == (expected,)


def test_where_no_node_is_known_the_name_decides_to_the_largest_it_can_be() -> None:
    assert demands({GPU: 1}, offers=()) == (Demand(GPU, L, 1),)
    assert demands({GPU: 1}, spec={"nodeSelector": {PRODUCT: "B200"}}) == (Demand(GPU, L, 1),)
    assert demands({"nvidia.com/mig-1g.10gb": 3}) == (Demand("nvidia.com/mig-1g.10gb", S, 3),)


def test_what_metering_has_seen_narrows_a_name() -> None:
    assert demands({GPU: 1}, offers=(), seen={GPU: frozenset({S})}) == (Demand(GPU, S, 1),)


@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpumem", "nvidia.com/mig-9x", "claim/accelerator"]
)
def test_a_device_no_rule_knows_is_named(resource: str) -> None:
    with pytest.raises(UnknownDeviceError) as refused:
        demands({resource: 1})

    assert refused.value.resource == resource


@pytest.mark.parametrize(
    ("resource", "seen", "size"),
    [
        ("claim/gpu.nvidia.com", frozenset(), L),
        ("claim/mig.nvidia.com", frozenset({S, M}), M),
        ("claim/h100", frozenset({L}), L),
        ("claim/small-mig", frozenset(), L),
    ],
)
def test_a_device_class_counts_as_what_was_seen_of_it(
    resource: str, seen: frozenset[GPUSize], size: GPUSize
) -> None:
    assert demands({resource: 2}, seen={resource: seen}) == (Demand(resource, size, 2),)


@pytest.mark.parametrize("resource", ["claim/dranet", "claim/rdma-nic", "claim/nic.nvidia.com"])
def test_a_class_of_network_devices_counts_nothing(resource: str) -> None:
    assert demands({resource: 4}) == ()


def test_demands_come_in_the_order_of_their_names() -> None:
    reported = demands({"nvidia.com/mig-2g.20gb": 1, GPU: 1, "claim/gpu.nvidia.com": 1})

    assert [one.resource for one in reported] == [
        "claim/gpu.nvidia.com",
        GPU,
        "nvidia.com/mig-2g.20gb",
    ]


def test_nothing_asked_is_no_demand() -> None:
    assert demands_of({}, Placement(), offers=MIXED, rules=DEFAULT_RULES, seen={}) == ()

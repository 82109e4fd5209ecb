"""The catalogue sizes what it knows and refuses the rest with a cause."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.domain.catalogue.mig_geometry import GEOMETRIES
from metering.domain.catalogue.sizing import (
    DEFAULT_RULES,
    Catalogue,
    Rule,
    Sized,
    Unsized,
    UnsizedCause,
    size_of,
)
from metering.domain.catalogue.units import KNOWN_RESOURCES, GPUSize, SharingMode, sanitise

CATALOGUE = Catalogue(version=1, rules=DEFAULT_RULES)
H100 = "NVIDIA-H100-80GB-HBM3"
A100 = "NVIDIA-A100-SXM4-80GB"
A30 = "NVIDIA-A30"
RTX = "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"


def node(product: str = H100, **labels: str) -> dict[str, str]:
    """Return node labels; underscores stand for dots, dashes and slashes as in Prometheus."""
    return {"nvidia_com_gpu_product": product, **labels}


def replicas(count: object, strategy: str = "time-slicing") -> dict[str, str]:
    return {"nvidia_com_gpu_replicas": str(count), "nvidia_com_gpu_sharing_strategy": strategy}


def sized(resource: str, labels: dict[str, str]) -> tuple[str, str, str, Fraction]:
    found = size_of(CATALOGUE, resource=resource, labels=labels)
    assert isinstance(found, Sized), found
    return found.size.value, found.price_group, found.sharing_mode.value, found.share


def refused(resource: str, labels: dict[str, str], *models: str) -> UnsizedCause:
    found = size_of(CATALOGUE, resource=resource, labels=labels, device_models=models)
    assert isinstance(found, Unsized), found
    return found.cause


@pytest.mark.parametrize(
    ("resource", "labels", "expected"),
    [
        ("nvidia_com_gpu", node(), ("large", "H100/whole", "whole", Fraction(1))),
        (
            "nvidia_com_gpu",
            node(**replicas(1, "none")),
            ("large", "H100/whole", "whole", Fraction(1)),
        ),
        (
            "nvidia_com_gpu",
            node("NVIDIA-L40S"),
            ("large", "L40S/whole", "whole", Fraction(1)),
        ),
        (
            "nvidia_com_gpu",
            node("Tesla-T4"),
            ("large", "Tesla-T4/whole", "whole", Fraction(1)),
        ),
        # MIG off on a node of strategy single: a whole GPU.
        (
            "nvidia_com_gpu",
            node(nvidia_com_mig_strategy="single"),
            ("large", "H100/whole", "whole", Fraction(1)),
        ),
        # Mixed: the resource names the profile.
        ("nvidia_com_mig_1g_10gb", node(), ("small", "H100/1g.10gb", "mig", Fraction(1, 7))),
        ("nvidia_com_mig_1g_10gb_me", node(), ("small", "H100/1g.10gb.me", "mig", Fraction(1, 7))),
        ("nvidia_com_mig_1g_20gb", node(), ("small", "H100/1g.20gb", "mig", Fraction(1, 7))),
        ("nvidia_com_mig_2g_20gb", node(), ("medium", "H100/2g.20gb", "mig", Fraction(2, 7))),
        ("nvidia_com_mig_3g_40gb", node(), ("medium", "H100/3g.40gb", "mig", Fraction(3, 7))),
        ("nvidia_com_mig_4g_40gb", node(), ("medium", "H100/4g.40gb", "mig", Fraction(4, 7))),
        ("nvidia_com_mig_7g_80gb", node(), ("large", "H100/7g.80gb", "mig", Fraction(1))),
        (
            "nvidia_com_mig_1g_10gb",
            node("NVIDIA-A100-SXM4-40GB"),
            ("small", "A100-SXM4-40GB/1g.10gb", "mig", Fraction(1, 7)),
        ),
        # On four slices, 4g is the whole device.
        ("nvidia_com_mig_4g_24gb", node(A30), ("large", "A30/4g.24gb", "mig", Fraction(1))),
        ("nvidia_com_mig_2g_12gb", node(A30), ("medium", "A30/2g.12gb", "mig", Fraction(1, 2))),
        (
            "nvidia_com_mig_4g_96gb",
            node(RTX),
            ("large", f"{RTX.removeprefix('NVIDIA-')}/4g.96gb", "mig", Fraction(1)),
        ),
        (
            "nvidia_com_mig_4g_96gb_gfx",
            node(RTX),
            ("large", f"{RTX.removeprefix('NVIDIA-')}/4g.96gb.gfx", "mig", Fraction(1)),
        ),
        # Single: nvidia.com/gpu is a slice, and the product label says which.
        (
            "nvidia_com_gpu",
            node(f"{H100}-MIG-1g.10gb", nvidia_com_mig_strategy="single"),
            ("small", "H100/1g.10gb", "mig", Fraction(1, 7)),
        ),
        (
            "nvidia_com_gpu",
            node(f"{H100}-MIG-3g.40gb"),
            ("medium", "H100/3g.40gb", "mig", Fraction(3, 7)),
        ),
        (
            "nvidia_com_gpu",
            node(f"{H100}-MIG-7g.80gb"),
            ("large", "H100/7g.80gb", "mig", Fraction(1)),
        ),
        (
            "nvidia_com_gpu",
            node(f"{A30}-MIG-4g.24gb"),
            ("large", "A30/4g.24gb", "mig", Fraction(1)),
        ),
        # Shared, with the default name and renamed.
        (
            "nvidia_com_gpu",
            node(f"{A100}-SHARED", **replicas(4)),
            ("small", "A100/1of4", "time-slicing", Fraction(1, 4)),
        ),
        (
            "nvidia_com_gpu_shared",
            node(A100, **replicas(4)),
            ("small", "A100/1of4", "time-slicing", Fraction(1, 4)),
        ),
        (
            "nvidia_com_gpu",
            node(f"{A100}-SHARED", **replicas(10, "mps")),
            ("small", "A100/1of10", "mps", Fraction(1, 10)),
        ),
        (
            "nvidia_com_gpu_shared",
            node(A100, **replicas(2, "mps")),
            ("small", "A100/1of2", "mps", Fraction(1, 2)),
        ),
        # An exporter older than MPS names no strategy.
        (
            "nvidia_com_gpu",
            node(f"{A100}-SHARED", nvidia_com_gpu_replicas="4"),
            ("small", "A100/1of4", "time-slicing", Fraction(1, 4)),
        ),
        # MIG and sharing together.
        (
            "nvidia_com_gpu",
            node(f"{H100}-MIG-1g.10gb-SHARED", **replicas(2)),
            ("small", "H100/1g.10gb/1of2", "time-slicing", Fraction(1, 14)),
        ),
        (
            "nvidia_com_mig_1g_10gb_shared",
            node(nvidia_com_mig_1g_10gb_replicas="3"),
            ("small", "H100/1g.10gb/1of3", "time-slicing", Fraction(1, 21)),
        ),
        (
            "nvidia_com_mig_3g_40gb",
            node(
                nvidia_com_mig_3g_40gb_replicas="2",
                nvidia_com_mig_3g_40gb_product=f"{H100}-MIG-3g.40gb-SHARED",
                nvidia_com_mig_3g_40gb_sharing_strategy="mps",
            ),
            ("medium", "H100/3g.40gb/1of2", "mps", Fraction(3, 14)),
        ),
        # Where every GPU is cut, only the profile's own product label may stand.
        (
            "nvidia_com_mig_1g_10gb",
            {"nvidia_com_mig_1g_10gb_product": f"{H100}-MIG-1g.10gb"},
            ("small", "H100/1g.10gb", "mig", Fraction(1, 7)),
        ),
    ],
)
def test_a_resource_on_a_labelled_node_has_a_size(
    resource: str, labels: dict[str, str], expected: tuple[str, str, str, Fraction]
) -> None:
    assert sized(resource, labels) == expected


@pytest.mark.parametrize(
    ("resource", "labels", "cause"),
    [
        ("amd_com_gpu", node(), UnsizedCause.UNKNOWN_RESOURCE),
        ("nvidia_com_mig_9g_99gb", node(), UnsizedCause.UNKNOWN_RESOURCE),
        ("nvidia_com_gpu", {}, UnsizedCause.NO_LABELS),
        ("nvidia_com_mig_1g_10gb", {"kubernetes_io_os": "linux"}, UnsizedCause.NO_LABELS),
        (
            "nvidia_com_gpu",
            node(f"{H100}-MIG-INVALID", **replicas(0)),
            UnsizedCause.MIG_INVALID,
        ),
        ("nvidia_com_gpu", node(**replicas(0)), UnsizedCause.NO_REPLICAS),
        ("nvidia_com_gpu", node(**replicas("four")), UnsizedCause.NO_REPLICAS),
        ("nvidia_com_gpu", node(**replicas("\u0664")), UnsizedCause.NO_REPLICAS),
        ("nvidia_com_gpu", node(**replicas(-4)), UnsizedCause.NO_REPLICAS),
        ("nvidia_com_gpu", node(f"{A100}-SHARED"), UnsizedCause.SHARE_UNKNOWN),
        ("nvidia_com_gpu_shared", node(A100), UnsizedCause.SHARE_UNKNOWN),
        ("nvidia_com_gpu_shared", node(A100, **replicas(1)), UnsizedCause.SHARE_UNKNOWN),
        ("nvidia_com_mig_1g_10gb", node("NVIDIA-L40S"), UnsizedCause.UNKNOWN_MODEL),
        ("nvidia_com_mig_1g_5gb", node(H100), UnsizedCause.UNKNOWN_PROFILE),
        ("nvidia_com_gpu", node(f"{H100}-MIG-1g.5gb"), UnsizedCause.UNKNOWN_PROFILE),
    ],
)
def test_what_the_labels_do_not_settle_is_refused(
    resource: str, labels: dict[str, str], cause: UnsizedCause
) -> None:
    assert refused(resource, labels) is cause


def test_a_node_of_several_models_is_refused_and_one_of_one_is_not() -> None:
    assert refused("nvidia_com_gpu", node(), "H100", "L40S") is UnsizedCause.MIXED_MODELS

    one = size_of(CATALOGUE, resource="nvidia_com_gpu", labels=node(), device_models=("H100",))

    assert isinstance(one, Sized)


def test_what_no_rule_matches_is_refused() -> None:
    only_small = Catalogue(version=2, rules=(Rule(GPUSize.SMALL, ("nvidia.com/mig-1g.*",)),))

    assert size_of(only_small, resource="nvidia_com_gpu", labels=node()) == Unsized(
        UnsizedCause.UNMAPPED
    )


def test_a_rule_without_a_size_refuses_what_it_matches() -> None:
    refusing = Catalogue(version=2, rules=(Rule(None, ("*",)), *DEFAULT_RULES))

    assert size_of(refusing, resource="nvidia_com_gpu", labels=node()) == Unsized(
        UnsizedCause.UNMAPPED
    )


def test_the_result_shows_the_raw_name_the_model_and_the_version() -> None:
    found = size_of(
        Catalogue(version=7, rules=DEFAULT_RULES),
        resource="nvidia_com_gpu",
        labels={"label_nvidia_com_gpu_product": f"{A100}-SHARED", "nvidia.com/gpu.replicas": "4"},
    )

    assert isinstance(found, Sized)
    assert (found.resource, found.product, found.catalogue_version) == ("nvidia.com/gpu", A100, 7)


products = st.sampled_from(
    [H100, A100, A30, RTX, "NVIDIA-A100-SXM4-40GB", "NVIDIA-H200", "NVIDIA-B200", "NVIDIA-L40S", ""]
)
endings = st.sampled_from(["", "-SHARED", "-MIG-1g.10gb", "-MIG-INVALID", "-MIG-1g.10gb-SHARED"])


@given(
    resource=st.sampled_from(sorted(KNOWN_RESOURCES)),
    product=st.builds(str.__add__, products, endings),
    count=st.sampled_from(["", "0", "1", "2", "48", "x"]),
    strategy=st.sampled_from(["", "none", "time-slicing", "mps"]),
)
def test_whatever_the_labels_a_size_has_a_share_of_one_device_or_a_cause(
    resource: str, product: str, count: str, strategy: str
) -> None:
    labels = {
        "nvidia_com_gpu_product": product,
        "nvidia_com_gpu_replicas": count,
        "nvidia_com_gpu_sharing_strategy": strategy,
    }

    found = size_of(CATALOGUE, resource=resource, labels=labels)

    if isinstance(found, Sized):
        assert 0 < found.share <= 1
        assert sanitise(found.resource) == resource
        is_shared = found.sharing_mode in {SharingMode.TIME_SLICING, SharingMode.MPS}
        assert ("1of" in found.price_group) is is_shared
    else:
        assert found.cause in UnsizedCause


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.products[0])
def test_every_profile_of_every_model_has_a_size(geometry: object) -> None:
    product = "NVIDIA-" + geometry.products[0].replace("*", "")  # type: ignore[attr-defined]
    for profile in geometry.instances_max:  # type: ignore[attr-defined]
        found = sized(f"nvidia.com/mig-{profile}", node(product))
        assert found[2] == "mig"

"""MIG geometry agrees with itself: slices fit, and every product finds its own table."""

import pytest

from metering.domain.catalogue.mig_geometry import (
    GEOMETRIES,
    Geometry,
    compute_slices_of,
    geometry_of,
)


@pytest.mark.parametrize(
    ("product", "profile", "slices"),
    [
        ("NVIDIA-A100-SXM4-40GB", "1g.5gb", 7),
        ("NVIDIA-A100-PCIE-40GB", "1g.10gb", 7),
        ("NVIDIA-A100-SXM4-80GB", "1g.10gb", 7),
        ("NVIDIA-A100-80GB-PCIe", "3g.40gb", 7),
        ("NVIDIA-H100-80GB-HBM3", "7g.80gb", 7),
        ("NVIDIA-H100-PCIe", "1g.20gb", 7),
        ("NVIDIA-H100-NVL", "4g.47gb", 7),
        ("NVIDIA-GH200-480GB", "3g.48gb", 7),
        ("NVIDIA-H200", "1g.35gb", 7),
        ("NVIDIA-B200", "1g.45gb", 7),
        ("NVIDIA-GB200", "1g.47gb", 7),
        ("NVIDIA-B300-SXM6-AC", "7g.269gb", 7),
        ("NVIDIA-GB300", "7g.278gb", 7),
        ("NVIDIA-A30", "4g.24gb", 4),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "4g.96gb", 4),
    ],
)
def test_a_product_finds_its_geometry(product: str, profile: str, slices: int) -> None:
    found = geometry_of(product)

    assert found is not None
    assert profile in found.instances_max
    assert found.compute_slices == slices


@pytest.mark.parametrize("product", ["", "NVIDIA-L40S", "NVIDIA-A3000", "Tesla-T4"])
def test_a_product_without_mig_has_none(product: str) -> None:
    assert geometry_of(product) is None


def test_the_same_profile_is_another_thing_on_another_model() -> None:
    small, large = geometry_of("NVIDIA-A100-SXM4-40GB"), geometry_of("NVIDIA-A100-SXM4-80GB")

    assert small is not None
    assert large is not None
    assert (small.instances_max["1g.10gb"], large.instances_max["1g.10gb"]) == (4, 7)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda geometry: geometry.products[0])
def test_instances_fit_into_the_devices_slices(geometry: Geometry) -> None:
    for profile, instances in geometry.instances_max.items():
        assert 1 <= compute_slices_of(profile) * instances <= geometry.compute_slices

"""A claimed device is sized like the same device offered by the device plugin."""

from fractions import Fraction

import pytest

from metering.domain.allocations.claims import common_attributes, kept_attributes, size_of_device
from metering.domain.catalogue.sizing import DEFAULT_RULES, Catalogue, Sized, Unsized, UnsizedCause
from metering.domain.catalogue.units import GPUSize, SharingMode

CATALOGUE = Catalogue(version=7, rules=DEFAULT_RULES)
PRODUCT = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("attributes", "size", "price_group", "mode", "share"),
    [
        ({"type": "gpu"}, GPUSize.LARGE, "H100/whole", SharingMode.WHOLE, Fraction(1)),
        ({"type": "vfio"}, GPUSize.LARGE, "H100/whole", SharingMode.WHOLE, Fraction(1)),
        (
            {"type": "mig", "profile": "1g.10gb"},
            GPUSize.SMALL,
            "H100/1g.10gb",
            SharingMode.MIG,
            Fraction(1, 7),
        ),
        (
            {"type": "mig", "profile": "1g.10gb+me"},
            GPUSize.SMALL,
            "H100/1g.10gb.me",
            SharingMode.MIG,
            Fraction(1, 7),
        ),
        (
            {"type": "mig", "profile": "3g.40gb"},
            GPUSize.MEDIUM,
            "H100/3g.40gb",
            SharingMode.MIG,
            Fraction(3, 7),
        ),
    ],
)
def test_a_known_device_is_sized(
    attributes: dict[str, str],
    size: GPUSize,
    price_group: str,
    mode: SharingMode,
    share: Fraction,
) -> None:
    sized = size_of_device(CATALOGUE, attributes={"productName": PRODUCT, **attributes})

    assert isinstance(sized, Sized)
    assert (sized.size, sized.price_group, sized.sharing_mode) == (size, price_group, mode)
    assert (sized.share, sized.product) == (share, "NVIDIA-H100-80GB-HBM3")
    assert sized.catalogue_version == 7


@pytest.mark.parametrize(
    ("attributes", "cause"),
    [
        ({}, UnsizedCause.NO_LABELS),
        ({"type": "mixed"}, UnsizedCause.MIXED_MODELS),
        (
            {"type": "mig", "productName": PRODUCT, "profile": "9g.1gb"},
            UnsizedCause.UNKNOWN_RESOURCE,
        ),
        ({"type": "mig", "productName": PRODUCT}, UnsizedCause.UNKNOWN_RESOURCE),
        (
            {"type": "mig", "productName": "NVIDIA T4", "profile": "1g.10gb"},
            UnsizedCause.UNKNOWN_MODEL,
        ),
    ],
)
def test_what_nobody_knows_is_refused_with_its_cause(
    attributes: dict[str, str], cause: UnsizedCause
) -> None:
    assert size_of_device(CATALOGUE, attributes=attributes) == Unsized(cause)


def test_only_what_sizing_reads_is_kept_whatever_domain_its_name_carries() -> None:
    reported = {
        "gpu.nvidia.com/type": "gpu",
        "productName": PRODUCT,
        "profile": "",
        "uuid": "GPU-1",
        "resource.kubernetes.io/pcieRoot": "pci0000:00",
    }

    assert kept_attributes(reported) == {"type": "gpu", "productName": PRODUCT}


def test_devices_of_one_claim_are_alike_or_mixed_or_unknown() -> None:
    whole = {"type": "gpu", "productName": PRODUCT}

    assert common_attributes([whole, dict(whole)]) == whole
    assert common_attributes([whole, {"type": "gpu", "productName": "NVIDIA T4"}]) == {
        "type": "mixed"
    }
    assert common_attributes([whole, {}]) == {}
    assert common_attributes([]) == {}

"""A claimed device is sized like the same device offered by the device plugin."""

from fractions import Fraction

import pytest

from metering.domain.catalogue.claimed_devices import (
    common_attributes,
    kept_attributes,
    size_of_device,
    size_of_held,
)
from metering.domain.catalogue.names import possible_sizes
from metering.domain.catalogue.sizing import (
    DEFAULT_RULES,
    Catalogue,
    Rule,
    Sized,
    Unsized,
    UnsizedCause,
)
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


@pytest.mark.parametrize(
    ("product", "profile", "size"),
    [
        (PRODUCT, "", GPUSize.LARGE),
        (PRODUCT, "1g.10gb", GPUSize.SMALL),
        (PRODUCT, "4g.40gb", GPUSize.MEDIUM),
        (PRODUCT, "7g.80gb", GPUSize.LARGE),
        ("NVIDIA A30", "2g.12gb", GPUSize.MEDIUM),
        ("NVIDIA A30", "4g.24gb", GPUSize.LARGE),
    ],
)
def test_a_device_has_a_size_that_its_class_may_have(
    product: str, profile: str, size: GPUSize
) -> None:
    kind = {"type": "mig", "profile": profile} if profile else {"type": "gpu"}
    device_class = "mig.nvidia.com" if profile else "gpu.nvidia.com"
    attributes = {"productName": product, **kind}

    claimed = size_of_device(CATALOGUE, device_class=device_class, attributes=attributes)

    assert isinstance(claimed, Sized)
    assert claimed.size is size
    assert size in possible_sizes(f"claim/{device_class}", rules=DEFAULT_RULES)


def test_a_rule_of_a_device_class_sizes_what_was_claimed_through_it() -> None:
    small = Rule(GPUSize.SMALL, ("claim/shared.example.com",))
    catalogue = Catalogue(version=8, rules=(small, *DEFAULT_RULES))
    labels = {"type": "gpu", "productName": PRODUCT}

    sizes = [
        size_of_held(catalogue, resource=resource, labels=labels)
        for resource in ("claim/shared.example.com#2", "claim/gpu.nvidia.com")
    ]

    assert [one.size for one in sizes if isinstance(one, Sized)] == [GPUSize.SMALL, GPUSize.LARGE]


def test_a_rule_about_every_resource_is_not_about_device_classes() -> None:
    rules = (Rule(GPUSize.SMALL, ("nvidia.com/mig-1g.*",)), Rule(GPUSize.LARGE, ("*",)))
    labels = {"type": "mig", "profile": "1g.10gb", "productName": PRODUCT}

    sized = size_of_held(Catalogue(1, rules), resource="claim/mig.nvidia.com", labels=labels)

    assert isinstance(sized, Sized)
    assert sized.size is GPUSize.SMALL

"""Claimed devices: what a device of a ResourceSlice is, in the catalogue's own words.

NVIDIA's driver tells `type` ("gpu", "mig" or "vfio"), `productName` as NVML spells it and, for a
MIG instance, `profile`. The same device offered by the device plugin would be a resource on a
labelled node; so it is sized as that resource, and has the same price group either way.
Source: NVIDIA/k8s-dra-driver-gpu, cmd/gpu-kubelet-plugin/deviceinfo.go; GPU feature discovery
spells a product with "-" for every space.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from metering.domain.catalogue import Catalogue, Sized, Unsized, UnsizedCause, size_of
from metering.domain.resource_names import MIG_PREFIX, WHOLE_DEVICE

KEPT_ATTRIBUTES: Final = ("type", "productName", "profile")
"""The attributes that sizing reads, without the driver's domain."""
MIXED: Final = "mixed"
"""The `type` of several devices of one claim that are not alike."""
_MIG: Final = "mig"


def kept_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return what sizing reads of a device; a name may carry the driver's domain before a slash."""
    plain = {name.rpartition("/")[2]: text for name, text in attributes.items()}
    return {name: plain[name] for name in KEPT_ATTRIBUTES if plain.get(name)}


def common_attributes(devices: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return what all devices of one claim and class are; empty when one is not known yet."""
    if not devices or not all(devices):
        return {}
    first = devices[0]
    return dict(first) if all(device == first for device in devices) else {"type": MIXED}


def size_of_device(catalogue: Catalogue, *, attributes: Mapping[str, str]) -> Sized | Unsized:
    """Return what one device is, or why that cannot be said; see `size_of`."""
    kind = attributes.get("type", "")
    if kind == MIXED:
        return Unsized(UnsizedCause.MIXED_MODELS)
    product = attributes.get("productName", "").replace(" ", "-")
    if kind == _MIG:
        resource = MIG_PREFIX + attributes.get("profile", "").replace("+", ".")
    else:
        resource = WHOLE_DEVICE
    labels = {f"{WHOLE_DEVICE}.product": product}
    return size_of(catalogue, resource=resource, labels=labels)
